"""Finds the causes of a mean's fall: a label value, a change of the mix, or the whole traffic. Pure.

The fall of a weighted mean between two periods is split, for one label, into the changes *within* its values
and the effect of the values' shares (Kitagawa, "Components of a difference between two rates", JASA
1955; known as Oaxaca-Blinder):

    mean before - mean after = sum over v of s(v) (before(v) - after(v))
                               + sum over v of (share before - share after)(v) m(v)

s(v) and m(v) are averages of the two periods. A value that is new or gone has no change within.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import NormalDist, fmean
from typing import Final, Literal

from streams.monitoring.statistics.estimators import WeightedSums

MAX_CAUSES: Final = 3
CHANCE: Final = 0.01
"""Significance level for naming a value, over all values tested."""
LEAST_REST: Final = 0.3
"""Minimum share of the whole fall for which the rest of the traffic is named, besides a named value."""
MIX_SHARE: Final = 0.6
"""Share of a fall that the mix must explain to be reported as its cause."""
FEWEST: Final = 5.0
"""Minimum effective answers of a part's mean."""
LEFT_OVER: Final = 3.0
"""Standard errors below which a fall is ignored."""
NEW_SHARE: Final = 0.15
"""A value is new if its share before was less than this fraction of its share since."""
TAKEN_OVER: Final = 0.25
"""A value took over if it gained this share of the traffic."""
_Z95: Final = NormalDist().inv_cdf(0.975)

Kind = Literal["within", "new", "mix", "all"]
"""within: the answers with this value got worse; new: the product's value is new or took over; mix: their
share grew and they did not get worse; all: no value stands out."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A judged answer."""

    labels: Mapping[str, str]
    score: float
    probability: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """A cause of a part of a fall.

    Attributes:
        kind: The kind of cause.
        name: The label; empty for the whole traffic.
        value: Its value.
        contribution: Points of the fall that it explains.
        low: Lower end of the 95% interval of the contribution.
        high: Its upper end.
        before: Mean of these answers before; None if there were too few.
        after: Mean of these answers after.
        share_before: Their share of the traffic before, 0 to 1.
        share_after: Their share after.
    """

    kind: Kind
    name: str = ""
    value: str = ""
    contribution: float
    low: float
    high: float
    before: float | None
    after: float | None
    share_before: float
    share_after: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A fall and its causes.

    Attributes:
        before: Mean before.
        after: Mean after.
        fall: Points; negative if the mean rose.
        low: Lower end of its 95% interval.
        high: Its upper end.
        causes: The largest first; empty if there was no significant fall.
        mix: For each label, the points caused by changed shares of its values.
    """

    before: float | None
    after: float | None
    fall: float
    low: float
    high: float
    causes: tuple[Cause, ...]
    mix: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Part:
    """A part of the traffic before and after, and the width of the scale."""

    before: WeightedSums
    after: WeightedSums
    width: float

    @property
    def known(self) -> bool:
        """Whether both means have enough answers."""
        return min(self.before.effective_count, self.after.effective_count) >= FEWEST

    @property
    def fall(self) -> float:
        """The fall in points; 0 without a mean."""
        before, after = self.before.mean, self.after.mean
        return 0.0 if before is None or after is None else before - after

    @property
    def error(self) -> float:
        """The standard error of the fall."""
        return sqrt(_variance(self.before, self.width) + _variance(self.after, self.width))


def _variance(sums: WeightedSums, width: float) -> float:
    """Return the squared standard error of a mean, above 0 also for equal scores."""
    effective = sums.effective_count
    if effective <= 1:
        return width * width
    return (sums.standard_error or 0.0) ** 2 + (0.5 * width / (effective + 1)) ** 2


def _sums(answers: Iterable[Answer]) -> WeightedSums:
    return WeightedSums.of_counted(Counter((answer.score, answer.probability) for answer in answers))


class Table:
    """The answers before and after by the values of a label."""

    def __init__(self, name: str, before: Sequence[Answer], after: Sequence[Answer], width: float) -> None:
        self.name = name
        self._before, self._after = _by_value(name, before), _by_value(name, after)
        self.whole = Part(
            WeightedSums.merged(self._before.values()), WeightedSums.merged(self._after.values()), width
        )
        self.values = sorted({*self._before, *self._after})

    def part(self, value: str) -> Part:
        """Return the answers with a value."""
        none = WeightedSums()
        return Part(self._before.get(value, none), self._after.get(value, none), self.whole.width)

    def rest(self, value: str) -> Part:
        """Return the answers with other values."""
        before, after = (
            WeightedSums.merged([sums for name, sums in side.items() if name != value])
            for side in (self._before, self._after)
        )
        return Part(before, after, self.whole.width)

    def shares(self, value: str) -> tuple[float, float]:
        """Return the value's share of the traffic before and after, 0 to 1."""
        part, whole = self.part(value), self.whole
        return (
            part.before.weight / (whole.before.weight or 1.0),
            part.after.weight / (whole.after.weight or 1.0),
        )

    def rolled_out(self, value: str) -> bool:
        """Return whether a value is new or took over, and did not get worse itself."""
        # The start of a fall is an estimate, so some of its answers may be before.
        part, (share_before, share_after) = self.part(value), self.shares(value)
        if part.before.effective_count < FEWEST or share_before < NEW_SHARE * share_after:
            return share_after > share_before
        return share_after - share_before >= TAKEN_OVER and part.fall <= LEFT_OVER * part.error

    def mixed(self, value: str) -> float:
        """Return the points of the fall due to one value's changed share, relative to the overall mean."""
        share_before, share_after = self.shares(value)
        own, whole = (
            [sums.mean for sums in (part.before, part.after) if sums.mean is not None]
            for part in (self.part(value), self.whole)
        )
        return (share_before - share_after) * (fmean(own) - fmean(whole)) if own and whole else 0.0

    @property
    def mix(self) -> float:
        """The points of the fall due to changed shares."""
        return sum(self.mixed(value) for value in self.values)

    @property
    def within(self) -> tuple[float, float]:
        """The points of the fall within values present before and after, with standard error."""
        fall = variance = 0.0
        for value in self.values:
            part = self.part(value)
            if min(part.before.effective_count, part.after.effective_count) > 1:
                share = fmean(self.shares(value))
                fall += share * part.fall
                variance += (share * part.error) ** 2
        return fall, sqrt(variance)


def _by_value(name: str, answers: Iterable[Answer]) -> dict[str, WeightedSums]:
    by_value: defaultdict[str, Counter[tuple[float, float]]] = defaultdict(Counter)
    for answer in answers:
        by_value[answer.labels.get(name, "")][answer.score, answer.probability] += 1
    return {value: WeightedSums.of_counted(scores) for value, scores in by_value.items()}


def find_causes(
    before: Sequence[Answer],
    after: Sequence[Answer],
    *,
    scale: tuple[float, float],
    product_labels: Collection[str] = (),
) -> Finding:
    """Return the causes of the fall between two sets of answers.

    Args:
        before: Judged answers from before the fall.
        after: Judged answers since.
        scale: Lowest and highest score.
        product_labels: Labels that identify the answering product (a model, a prompt's version): a new value
            is a change of the product, for other labels a change of the mix.
    """
    width = scale[1] - scale[0]
    whole = Part(_sums(before), _sums(after), width)
    names = sorted({name for answer in (*before, *after) for name in answer.labels})
    tables = [Table(name, before, after, width) for name in names]
    mixed = _mixed(tables, product_labels) if whole.fall > LEFT_OVER * whole.error else None
    return Finding(
        before=whole.before.mean,
        after=whole.after.mean,
        fall=whole.fall,
        low=whole.fall - _Z95 * whole.error,
        high=whole.fall + _Z95 * whole.error,
        causes=(mixed,) if mixed else tuple(_greedy(before, after, names, whole, product_labels)),
        mix={table.name: table.mix for table in tables},
    )


def _mixed(tables: Iterable[Table], product_labels: Collection[str]) -> Cause | None:
    """Return the label whose values' shares explain the fall, if nothing within its values fell."""
    found: list[tuple[float, Cause]] = []
    for table in tables:
        if table.name in product_labels:
            continue  # changed shares of products are a change of the product
        fall, (within, error) = table.whole.fall, table.within
        grown = [value for value in table.values if table.shares(value)[1] > table.shares(value)[0]]
        stayed = within <= max(LEFT_OVER * error, (1 - MIX_SHARE) * fall)
        if grown and stayed and table.mix >= MIX_SHARE * fall:
            value = max(grown, key=lambda value: (table.mixed(value), value))
            found.append((abs(within), _cause("mix", table, value, table.mix, error)))
    return min(found, key=lambda one: one[0])[1] if found else None


def _greedy(
    before: Sequence[Answer],
    after: Sequence[Answer],
    names: Sequence[str],
    whole: Part,
    product_labels: Collection[str],
) -> list[Cause]:
    """Repeatedly pick the value that fell most significantly beyond the rest, and remove its answers."""
    causes: list[Cause] = []
    size = len(after)
    while len(causes) < MAX_CAUSES and len(after) >= size / 20:
        tables = [Table(name, before, after, whole.width) for name in names]
        cause = _clearest(tables, product_labels)
        if cause is None:
            rest = Part(_sums(before), _sums(after), whole.width)
            share = rest.after.weight / (whole.after.weight or 1.0)
            is_large = not causes or share * rest.fall > LEAST_REST * whole.fall
            if rest.known and rest.fall > LEFT_OVER * rest.error and is_large:
                causes.append(_all(rest, share))
            break
        causes.append(cause)
        before = [answer for answer in before if answer.labels.get(cause.name, "") != cause.value]
        after = [answer for answer in after if answer.labels.get(cause.name, "") != cause.value]
    return causes


def _clearest(tables: Sequence[Table], product_labels: Collection[str]) -> Cause | None:
    """Return the value that fell furthest beyond the rest, in standard errors; new products come first."""
    tested = max(sum(len(table.values) for table in tables), 1)
    limit = NormalDist().inv_cdf(1 - CHANCE / tested)
    found = [
        candidate
        for table in tables
        for value in table.values
        if (candidate := _candidate(table, value, is_product=table.name in product_labels)) is not None
        and candidate[1] >= limit
    ]
    return max(found, key=lambda one: one[:2])[2] if found else None


def _candidate(table: Table, value: str, *, is_product: bool) -> tuple[bool, float, Cause] | None:
    """Return whether a value is a new product, how far it fell beyond the rest, and the cause."""
    part, rest = table.part(value), table.rest(value)
    if part.after.effective_count < FEWEST:
        return None
    if is_product and table.rolled_out(value):
        return _rolled_out(table, value)
    if part.before.effective_count < FEWEST or not rest.known:
        return None  # nothing to compare it with
    distance = (part.fall - rest.fall) / sqrt(part.error**2 + rest.error**2)
    share = fmean(table.shares(value))
    return False, distance, _cause("within", table, value, share * part.fall, share * part.error)


def _rolled_out(table: Table, value: str) -> tuple[bool, float, Cause]:
    """Compare a new value with the other ones before and since."""
    part, rest, width = table.part(value), table.rest(value), table.whole.width
    usual = rest.before if rest.before.effective_count >= FEWEST else table.whole.before
    fell = Part(usual, part.after, width)
    excess, variance = fell.fall, fell.error**2
    if rest.after.effective_count >= FEWEST:
        excess -= Part(usual, rest.after, width).fall
        variance = _variance(part.after, width) + _variance(rest.after, width)
    share_before, share_after = table.shares(value)
    gained = share_after - share_before
    return True, excess / sqrt(variance), _cause("new", table, value, gained * fell.fall, gained * fell.error)


def _cause(kind: Kind, table: Table, value: str, contribution: float, error: float) -> Cause:
    part, (share_before, share_after) = table.part(value), table.shares(value)
    return Cause(
        kind=kind,
        name=table.name,
        value=value,
        contribution=contribution,
        low=contribution - _Z95 * error,
        high=contribution + _Z95 * error,
        before=part.before.mean,
        after=part.after.mean,
        share_before=share_before,
        share_after=share_after,
    )


def _all(rest: Part, share: float) -> Cause:
    return Cause(
        kind="all",
        contribution=rest.fall,
        low=rest.fall - _Z95 * rest.error,
        high=rest.fall + _Z95 * rest.error,
        before=rest.before.mean,
        after=rest.after.mean,
        share_before=share,
        share_after=share,
    )
