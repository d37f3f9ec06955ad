"""Finds the causes of a mean's fall: a label value, a change of the mix, or the whole traffic. Pure.

The fall of a weighted mean between two periods is split, for one label, into the changes *within* its values
and the effect of the values' shares (Kitagawa, "Components of a difference between two rates", JASA
1955; known as Oaxaca-Blinder):

    mean before - mean after = sum over v of s(v) (before(v) - after(v))
                               + sum over v of (share before - share after)(v) m(v)

s(v) and m(v) are averages of the two periods. A value that is new or gone has no change within.

A changed mix is named first, and taken out of the answers since, by weights that restore the earlier shares.
Then the value that fell most clearly beyond the rest is named, or the part of it that explains its fall, and
its answers are removed; and so on.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import sqrt
from statistics import NormalDist, fmean
from typing import Final, Literal

from streams.monitoring.statistics.estimators import WeightedSums

FEWEST: Final = 5.0
"""Minimum effective answers of a part's mean."""
LEFT_OVER: Final = 3.0
"""Standard errors below which a fall is ignored."""
NEW_SHARE: Final = 0.15
"""A value is new if its share before was less than this fraction of its share since."""
TAKEN_OVER: Final = 0.25
"""A value took over if it gained this share of the traffic."""
MAX_CAUSES: Final = 3
CHANCE: Final = 0.01
"""Significance level for naming a value, over all values tested."""
LEAST_REST: Final = 0.3
"""Minimum share of the whole fall for which the rest of the traffic is named, besides a named value."""
EXPLAINS: Final = 0.6
"""Share of a fall that a part must explain to be named in place of the whole."""
_Z95: Final = NormalDist().inv_cdf(0.975)

Kind = Literal["within", "new", "mix", "all"]
"""within: the answers with this value got worse; new: the product's value is new or took over; mix: their
share grew and they did not get worse; all: no value stands out."""


@dataclass(frozen=True, slots=True)
class JudgedAnswer:
    labels: Mapping[str, str]
    score: float
    probability: float


Answers = Sequence[JudgedAnswer]


@dataclass(frozen=True, slots=True)
class Part:
    """A part of the traffic before and after, and the width of the scale."""

    before: WeightedSums
    after: WeightedSums
    width: float

    @property
    def known(self) -> bool:
        return min(self.before.effective_count, self.after.effective_count) >= FEWEST

    @property
    def fall(self) -> float:
        before, after = self.before.mean, self.after.mean
        return 0.0 if before is None or after is None else before - after

    @property
    def fell(self) -> bool:
        return self.fall > LEFT_OVER * self.error

    @property
    def error(self) -> float:
        return sqrt(variance_of(self.before, self.width) + variance_of(self.after, self.width))


def variance_of(sums: WeightedSums, width: float) -> float:
    """Return the squared standard error of a mean, above 0 also for equal scores."""
    effective = sums.effective_count
    if effective <= 1:
        return width * width
    return (sums.standard_error or 0.0) ** 2 + (0.5 * width / (effective + 1)) ** 2


@dataclass(frozen=True, slots=True)
class Value(Part):
    """The answers with a label's value, beside all."""

    name: str
    value: str
    whole: Part
    sides: Sequence[Mapping[str, WeightedSums]]
    """Before and after, all answers by value."""

    @property
    def rest(self) -> Part:
        """The answers with other values."""
        # Adds up all other values: only for those with enough answers, as a label may have one per answer.
        was, now = (
            WeightedSums.merged(sums for value, sums in side.items() if value != self.value)
            for side in self.sides
        )
        return Part(was, now, self.width)

    @property
    def shares(self) -> tuple[float, float]:
        """Its shares of the traffic before and after, 0 to 1."""
        before, after = self.whole.before.weight or 1.0, self.whole.after.weight or 1.0
        return self.before.weight / before, self.after.weight / after

    @property
    def rolled_out(self) -> bool:
        """Whether it is new or took over, and did not get worse itself."""
        # The start of a fall is an estimate, so some of its answers may be before.
        share_before, share_after = self.shares
        if self.before.effective_count < FEWEST or share_before < NEW_SHARE * share_after:
            return share_after > share_before
        return share_after - share_before >= TAKEN_OVER and not self.fell

    @property
    def mixed(self) -> float:
        """The points of the fall due to its changed share, relative to the overall mean."""
        share_before, share_after = self.shares
        own, whole = (
            [sums.mean for sums in (part.before, part.after) if sums.mean is not None]
            for part in (self, self.whole)
        )
        return (share_before - share_after) * (fmean(own) - fmean(whole)) if own and whole else 0.0

    def cause(self, kind: Kind, contribution: float, error: float) -> Cause:
        where = ((self.name, self.value),)
        return Cause(kind, contribution, error, self.before.mean, self.after.mean, *self.shares, where=where)


def _values(name: str, before: Answers, after: Answers, width: float) -> list[Value]:
    """Return the values of a label; an empty name has one value, all answers."""
    was, now = (_by_value(name, answers) for answers in (before, after))
    first, last = (WeightedSums.merged(sums for _, sums in sorted(side.items())) for side in (was, now))
    whole, none = Part(first, last, width), WeightedSums()
    return [
        Value(was.get(one, none), now.get(one, none), width, name, one, whole, (was, now))
        for one in sorted({*was, *now})
    ]


def _mix_error(values: Sequence[Value]) -> float:
    """Return the standard error of the mix, from the chance in the values' shares."""
    square, whole = 0.0, values[0].whole
    for all_sums, parts in (
        (whole.before, [one.before for one in values]),
        (whole.after, [one.after for one in values]),
    ):
        spread = sum(sums.weight * ((sums.mean or 0.0) - (all_sums.mean or 0.0)) ** 2 for sums in parts)
        square += spread / max(all_sums.weight, 1e-9) / max(all_sums.effective_count, 1.0)
    return sqrt(square)


def _by_value(name: str, answers: Iterable[JudgedAnswer]) -> dict[str, WeightedSums]:
    by_value: defaultdict[str, Counter[tuple[float, float]]] = defaultdict(Counter)
    for answer in answers:
        by_value[answer.labels.get(name, "")][answer.score, answer.probability] += 1
    return {value: WeightedSums.of_counted(scores) for value, scores in by_value.items()}


@dataclass(frozen=True, slots=True)
class Cause:
    """A cause: its points of the fall, means (None of too few answers), and shares of the traffic, 0 to 1."""

    kind: Kind
    contribution: float
    error: float
    before: float | None
    after: float | None
    share_before: float
    share_after: float
    where: tuple[tuple[str, str], ...] = ()
    """The label and value, or both of a crossing; none for the whole traffic."""
    beside: bool = True
    """Whether other values run beside a new one; without them, it is new at the same time as the fall."""

    @property
    def name(self) -> str:
        return " x ".join(name for name, _ in self.where)

    @property
    def value(self) -> str:
        return " x ".join(value for _, value in self.where)

    @property
    def low(self) -> float:
        return self.contribution - _Z95 * self.error

    @property
    def high(self) -> float:
        return self.contribution + _Z95 * self.error


@dataclass(frozen=True, slots=True, kw_only=True)
class Fall:
    """A fall with its 95% interval, its causes, the largest first, and the points of each label's mix."""

    before: float | None
    after: float | None
    fall: float
    low: float
    high: float
    causes: tuple[Cause, ...]
    mix: Mapping[str, float]


def find_causes(
    before: Answers,
    after: Answers,
    *,
    scale: tuple[float, float] | None = None,
    products: Collection[str] = (),
) -> Fall:
    """Return the causes of a fall; without a scale, that of the scores."""
    scores = [one.score for one in (*before, *after)]
    lowest, highest = scale or (min(scores), max(scores) + 1)
    search = _Search(highest - lowest, frozenset(products))
    names = sorted({name for answer in (*before, *after) for name in answer.labels})
    whole = search.part(before, after)
    causes: list[Cause] = []
    rest, left = list(after), whole
    while left.fell and len(causes) < MAX_CAUSES:
        mixed = search.mixed(search.tables(names, before, rest), whole.fall)
        if mixed is None or any(cause.name == mixed[1].name for cause in causes):
            break
        causes.append(mixed[1])
        rest = _restored(mixed[0], rest)
        left = search.part(before, rest)
    if not causes or left.fell:
        causes += search.within(before, rest, names, left)[: MAX_CAUSES - len(causes)]
    return Fall(
        before=whole.before.mean,
        after=whole.after.mean,
        fall=whole.fall,
        low=whole.fall - _Z95 * whole.error,
        high=whole.fall + _Z95 * whole.error,
        causes=tuple(causes),
        mix={some[0].name: sum(one.mixed for one in some) for some in search.tables(names, before, after)},
    )


def _restored(values: Sequence[Value], after: Answers) -> list[JudgedAnswer]:
    """Return the answers since, weighted so that each value has its share from before."""
    shares = {one.value: one.shares for one in values}
    answers = ((one, *shares[one.labels.get(values[0].name, "")]) for one in after)
    return [replace(one, probability=one.probability * now / was) for one, was, now in answers if was > 0]


@dataclass(frozen=True, slots=True)
class _Search:
    width: float
    products: Collection[str]

    def part(self, before: Answers, after: Answers) -> Part:
        was, now = (WeightedSums.merged(_by_value("", some).values()) for some in (before, after))
        return Part(was, now, self.width)

    def tables(self, names: Iterable[str], before: Answers, after: Answers) -> list[list[Value]]:
        return [_values(name, before, after, self.width) for name in names]

    def mixed(self, tables: Iterable[list[Value]], fall: float) -> tuple[list[Value], Cause] | None:
        """Return the label whose changed shares explain most of the fall; None without a clear one."""
        found: list[tuple[list[Value], Cause]] = []
        for values in tables:
            mix, error = sum(one.mixed for one in values), _mix_error(values)
            # Changed shares of products are a change of the product.
            grown = [one for one in values if one.shares[1] > one.shares[0] and one.name not in self.products]
            if grown and mix > LEFT_OVER * error and mix > LEAST_REST * fall:
                most = max(grown, key=lambda one: (one.mixed, one.value))
                found.append((values, most.cause("mix", mix, error)))
        return max(found, key=lambda one: one[1].contribution, default=None)

    def within(self, before: Answers, after: Answers, names: Sequence[str], whole: Part) -> list[Cause]:
        """Return other causes than the mix; a product without others beside it only if nothing else fits."""
        replaced = [
            one
            for values in self.tables([name for name in names if name in self.products], before, after)
            for one in values
            if one.rolled_out and one.rest.after.effective_count < FEWEST
        ]
        labels = [name for name in names if name not in {one.name for one in replaced}]
        causes = self._greedy(before, after, labels, whole)
        explained = sum(cause.contribution for cause in causes if cause.kind != "all")
        if not replaced or not whole.fell or explained > EXPLAINS * whole.fall:
            return causes
        return [replace(_rolled_out(one)[2], beside=False) for one in replaced]

    def _greedy(self, before: Answers, after: Answers, names: Sequence[str], whole: Part) -> list[Cause]:
        causes: list[Cause] = []
        size = len(after)
        while len(causes) < MAX_CAUSES and len(after) >= size / 20:
            cause = self._clearest(self.tables(names, before, after))
            if cause is None:
                rest = self.part(before, after)
                share = rest.after.weight / (whole.after.weight or 1.0)
                is_large = not causes or share * rest.fall > LEAST_REST * whole.fall
                if rest.known and rest.fell and is_large:
                    means = rest.before.mean, rest.after.mean
                    causes.append(Cause("all", rest.fall, rest.error, *means, share, share))
                break
            causes.append(self._crossed(cause, before, after, names))
            # Of a crossing the whole value goes, too: what is left of it has another mix than the rest.
            before, after = ([one for one in side if not _has(one, cause)] for side in (before, after))
        return causes

    def _crossed(self, cause: Cause, before: Answers, after: Answers, names: Sequence[str]) -> Cause:
        """Return the crossing with another label's value that explains most of a fall, or the cause."""
        inside = [one for one in after if _has(one, cause)]
        # A new value has no answers before: its parts are compared with those of the values that it replaces.
        usual = before if cause.kind == "new" else [one for one in before if _has(one, cause)]
        tables = self.tables([name for name in names if name != cause.name], usual, inside)
        part = self._clearest([values for values in tables if len(values) > 1])
        fall = self.part(usual, inside).fall
        if part is None or part.kind != "within" or part.contribution <= EXPLAINS * fall:
            return cause
        scale = cause.contribution / (fall or 1.0)
        return replace(
            part,
            kind=cause.kind,
            where=cause.where + part.where,
            contribution=part.contribution * scale,
            error=part.error * scale,
            share_before=cause.share_before * part.share_before,
            share_after=cause.share_after * part.share_after,
        )

    def _clearest(self, tables: Sequence[list[Value]]) -> Cause | None:
        """Return the value that fell most beyond the rest, in standard errors; new products come first."""
        limit = NormalDist().inv_cdf(1 - CHANCE / max(sum(map(len, tables)), 1))
        candidates = [self._candidate(one) for values in tables for one in values]
        found = [one for one in candidates if one is not None and one[1] >= limit]
        return max(found, key=lambda one: one[:2], default=(False, 0.0, None))[2]

    def _candidate(self, one: Value) -> tuple[bool, float, Cause] | None:
        """Return whether a value is a new product, how far it fell beyond the rest, and the cause."""
        if one.after.effective_count < FEWEST:
            return None
        if one.name in self.products and one.rolled_out:
            return _rolled_out(one)
        if one.before.effective_count < FEWEST or not (rest := one.rest).known:
            return None  # nothing to compare it with
        distance = (one.fall - rest.fall) / sqrt(one.error**2 + rest.error**2)
        share = fmean(one.shares)
        return False, distance, one.cause("within", share * one.fall, share * one.error)


def _has(answer: JudgedAnswer, cause: Cause) -> bool:
    return all(answer.labels.get(name, "") == value for name, value in cause.where)


def _rolled_out(one: Value) -> tuple[bool, float, Cause]:
    """Compare a new value with the other ones before and since."""
    rest, width = one.rest, one.width
    usual = rest.before if rest.before.effective_count >= FEWEST else one.whole.before
    fell = Part(usual, one.after, width)
    excess, variance = fell.fall, fell.error**2
    if rest.after.effective_count >= FEWEST:
        excess -= Part(usual, rest.after, width).fall
        variance = variance_of(one.after, width) + variance_of(rest.after, width)
    gained = one.shares[1] - one.shares[0]
    return True, excess / sqrt(variance), one.cause("new", gained * fell.fall, gained * fell.error)
