"""What explains the fall of a mean: which label value, a change of the mix, or all of the traffic. Pure.

The fall of a weighted mean between two stretches of time is split, for one label, into what changed *within* its values and what
came of the values' shares (Kitagawa, "Components of a difference between two rates", JASA 1955; known as Oaxaca-Blinder):

    mean before - mean after = sum over v of s(v) (before(v) - after(v))  +  sum over v of (share before - share after)(v) m(v)

s(v) and m(v) are averages of the two stretches. A value that is new, or gone, has no change within.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import NormalDist
from typing import Final, Literal

from streams.monitoring.statistics.estimators import WeightedSums

FEWEST: Final = 5.0
"""Effective answers that a mean of a part must rest on."""
MAX_CAUSES: Final = 3
CHANCE: Final = 0.01
"""Of naming a value that did not fall more than the rest, over all values that are tried."""
LEFT_OVER: Final = 3.0
"""Standard errors below which a fall is none."""
LEAST_REST: Final = 0.3
"""Beside a value that was named, the rest of the traffic is named for this part of the whole fall or more."""
NEW_SHARE: Final = 0.15
"""A value whose share was less than this part of what it is since counts as new."""
TAKEN_OVER: Final = 0.25
"""A value that gained this part of the traffic took over."""
MIX_SHARE: Final = 0.6
"""Part of a fall that the mix must explain to be told as its cause."""
_Z95: Final = NormalDist().inv_cdf(0.975)

Kind = Literal["within", "new", "mix", "all"]
"""within: the answers with this value got worse; new: what answers is new, or took over; mix: their share grew and they did not get
worse; all: no value stands out."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A judged answer."""

    labels: Mapping[str, str]
    score: float
    probability: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """What explains a part of a fall.

    Attributes:
        kind: How.
        name: The label; empty for all of the traffic.
        value: Its value.
        contribution: Points of the fall that it explains.
        low: Lower end of the 95% interval of the contribution.
        high: Its upper end.
        before: Mean of these answers before; None where there were too few.
        after: Mean of these answers after.
        share_before: Their share of the traffic before, 0 to 1.
        share_after: And after.
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
        fall: Points; negative where the mean rose.
        low: Lower end of its 95% interval.
        high: Its upper end.
        causes: The one that explains most first; empty where nothing fell that could be told from chance.
        mix: For each label, the points that came of a change of its values' shares.
    """

    before: float | None
    after: float | None
    fall: float
    low: float
    high: float
    causes: tuple[Cause, ...]
    mix: Mapping[str, float]


def find_causes(
    before: Sequence[Answer],
    after: Sequence[Answer],
    *,
    scale: tuple[float, float],
    product_labels: Collection[str] = (),
) -> Finding:
    """Say what explains the fall from one lot of answers to another.

    Args:
        before: Judged answers from before the fall.
        after: And from since.
        scale: Lowest and highest score.
        product_labels: Labels that say what answered (a model, a prompt's version): a value of one that is new is a change of the
            product. A new value of another label is a change of the mix.
    """
    pair = _Pair(_sums(before), _sums(after), scale[1] - scale[0])
    fall, error = pair.fall, pair.error
    names = sorted({name for answer in (*before, *after) for name in answer.labels})
    tables = {name: _Table(name, before, after, scale[1] - scale[0]) for name in names}
    mixed = _mix(tables.values(), product_labels) if fall > LEFT_OVER * error else None
    causes = (
        [mixed] if mixed is not None else _greedy(before, after, names, scale[1] - scale[0], product_labels)
    )
    return Finding(
        before=pair.before.mean,
        after=pair.after.mean,
        fall=fall,
        low=fall - _Z95 * error,
        high=fall + _Z95 * error,
        causes=tuple(causes),
        mix={name: table.mix for name, table in tables.items()},
    )


def _sums(answers: Iterable[Answer]) -> WeightedSums:
    return _added((answer.score, answer.probability) for answer in answers)


def _added(samples: Iterable[tuple[float, float]]) -> WeightedSums:
    """Add up scores. Most are alike, so each kind is added once: this is done for every value of every label."""
    alike = Counter(samples)
    count = 0
    w = wx = wxx = ww = wwx = wwxx = 0.0
    for (score, probability), number in alike.items():
        weight = 1 / probability
        count += number
        w += number * weight
        wx += number * weight * score
        wxx += number * weight * score * score
        ww += number * weight * weight
        wwx += number * weight * weight * score
        wwxx += number * weight * weight * score * score
    return WeightedSums(
        count=count,
        weight=w,
        weighted=wx,
        weighted_square=wxx,
        weight_square=ww,
        weight_square_score=wwx,
        weight_square_score_square=wwxx,
    )


def _variance(sums: WeightedSums, width: float) -> float:
    """Squared standard error of a mean; equal scores do not prove that there are no others."""
    effective = sums.effective_count
    if effective <= 1:
        return width * width
    return (sums.standard_error or 0.0) ** 2 + (0.5 * width / (effective + 1)) ** 2


@dataclass(frozen=True, slots=True)
class _Pair:
    """The same part before and after."""

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
    def error(self) -> float:
        return sqrt(_variance(self.before, self.width) + _variance(self.after, self.width))


class _Table:
    """The values of one label."""

    def __init__(self, name: str, before: Sequence[Answer], after: Sequence[Answer], width: float) -> None:
        self.name = name
        self._width = width
        self._sides = (_by_value(name, before), _by_value(name, after))
        self.totals = tuple(WeightedSums.merged(side.values()) for side in self._sides)
        self.values = sorted({value for side in self._sides for value in side})

    def pair(self, value: str) -> _Pair:
        before, after = (side.get(value, WeightedSums()) for side in self._sides)
        return _Pair(before, after, self._width)

    def rest(self, value: str) -> _Pair:
        others = [
            WeightedSums.merged([one for name, one in side.items() if name != value]) for side in self._sides
        ]
        return _Pair(others[0], others[1], self._width)

    def shares(self, value: str) -> tuple[float, float]:
        pair = self.pair(value)
        before, after = (total.weight or 1.0 for total in self.totals)
        return pair.before.weight / before, pair.after.weight / after

    def rolled_out(self, value: str) -> bool:
        """Whether it is new or took over, and did not get worse itself."""
        # When a fall began is an estimate, so some of its answers may lie before.
        pair, (share_before, share_after) = self.pair(value), self.shares(value)
        if pair.before.effective_count < FEWEST or share_before < NEW_SHARE * share_after:
            return share_after > share_before
        return share_after - share_before >= TAKEN_OVER and pair.fall <= LEFT_OVER * pair.error

    def grew(self, value: str) -> bool:
        share_before, share_after = self.shares(value)
        return share_after > share_before

    def mixed(self, value: str) -> float:
        """Points of the fall that come of a changed share of one value, counted from the mean of all."""
        pair, (share_before, share_after) = self.pair(value), self.shares(value)
        means = [one.mean for one in (pair.before, pair.after) if one.mean is not None]
        whole = [one.mean for one in self.totals if one.mean is not None]
        if not means or not whole:
            return 0.0
        return (share_before - share_after) * (sum(means) / len(means) - sum(whole) / len(whole))

    @property
    def mix(self) -> float:
        return sum(self.mixed(value) for value in self.values)

    @property
    def within(self) -> tuple[float, float]:
        """Points of the fall within the values that were there before and after, and their standard error."""
        fall = variance = 0.0
        for value in self.values:
            pair = self.pair(value)
            if min(pair.before.effective_count, pair.after.effective_count) <= 1:
                continue
            share = sum(self.shares(value)) / 2
            fall += share * pair.fall
            variance += (share * pair.error) ** 2
        return fall, sqrt(variance)


def _by_value(name: str, answers: Iterable[Answer]) -> dict[str, WeightedSums]:
    by_value: dict[str, list[tuple[float, float]]] = {}
    for answer in answers:
        by_value.setdefault(answer.labels.get(name, ""), []).append((answer.score, answer.probability))
    return {value: _added(samples) for value, samples in by_value.items()}


def _mix(tables: Iterable[_Table], product_labels: Collection[str]) -> Cause | None:
    """The label whose values' shares explain the fall, if one does and nothing within its values fell."""
    best: tuple[float, Cause] | None = None
    for table in tables:
        if table.name in product_labels:
            continue  # other shares of what answers are a change of the product
        fall = (table.totals[0].mean or 0.0) - (table.totals[1].mean or 0.0)
        within, error = table.within
        if table.mix < MIX_SHARE * fall or within > max(LEFT_OVER * error, (1 - MIX_SHARE) * fall):
            continue
        grown = [(table.mixed(one), one) for one in table.values if table.grew(one)]
        if not grown:
            continue
        value = max(grown)[1]
        cause = _cause("mix", table, value, table.mix, error)
        if best is None or abs(within) < best[0]:
            best = (abs(within), cause)
    return None if best is None else best[1]


def _greedy(
    before: Sequence[Answer],
    after: Sequence[Answer],
    names: Sequence[str],
    width: float,
    product_labels: Collection[str],
) -> list[Cause]:
    """Take the value that fell most clearly beyond the rest, take its answers away, and look at what is left."""
    causes: list[Cause] = []
    size, whole = len(after), _sums(after).weight or 1.0
    total = _Pair(_sums(before), _sums(after), width).fall
    while len(causes) < MAX_CAUSES and len(after) >= size / 20:
        left = _Pair(_sums(before), _sums(after), width)
        found = _clearest([_Table(name, before, after, width) for name in names], product_labels)
        if found is None:
            share = left.after.weight / whole
            if (
                left.known
                and left.fall > LEFT_OVER * left.error
                and (not causes or share * left.fall > LEAST_REST * total)
            ):
                causes.append(_all(left, share=share))
            break
        causes.append(found)
        before = [one for one in before if one.labels.get(found.name, "") != found.value]
        after = [one for one in after if one.labels.get(found.name, "") != found.value]
    return causes


def _clearest(tables: Sequence[_Table], product_labels: Collection[str]) -> Cause | None:
    tried = max(sum(len(table.values) for table in tables), 1)
    limit = NormalDist().inv_cdf(1 - CHANCE / tried)
    best: tuple[tuple[bool, float], Cause] | None = None
    for table in tables:
        for value in table.values:
            scored = _scored(table, value, is_product=table.name in product_labels)
            if scored is None or scored[0][1] < limit:
                continue
            if best is None or scored[0] > best[0]:
                best = scored
    return None if best is None else best[1]


def _scored(table: _Table, value: str, *, is_product: bool) -> tuple[tuple[bool, float], Cause] | None:
    """How clearly a value fell beyond the rest, in standard errors; a new value of the product before any other."""
    pair, rest = table.pair(value), table.rest(value)
    if pair.after.effective_count < FEWEST:
        return None
    if is_product and table.rolled_out(value):
        return _rolled_out(table, value)
    if pair.before.effective_count < FEWEST:
        return None
    excess, variance = pair.fall, pair.error**2
    if rest.known:
        excess, variance = pair.fall - rest.fall, variance + rest.error**2
    else:
        return None  # nothing to compare it with: that is all of the traffic
    share = sum(table.shares(value)) / 2
    return (False, excess / sqrt(variance)), _cause(
        "within", table, value, share * pair.fall, share * pair.error
    )


def _rolled_out(table: _Table, value: str) -> tuple[tuple[bool, float], Cause]:
    """Compare a value that is new with the others from before, and with what else there is since."""
    pair, rest = table.pair(value), table.rest(value)
    usual = rest.before if rest.before.effective_count >= FEWEST else table.totals[0]
    fell, beside = _Pair(usual, pair.after, pair.width), _Pair(usual, rest.after, pair.width)
    excess, variance = fell.fall, fell.error**2
    if rest.after.effective_count >= FEWEST:
        excess -= beside.fall
        variance = _variance(pair.after, pair.width) + _variance(rest.after, pair.width)
    share_before, share_after = table.shares(value)
    gained = share_after - share_before
    return (True, excess / sqrt(variance)), _cause(
        "new", table, value, gained * fell.fall, gained * fell.error
    )


def _cause(kind: Kind, table: _Table, value: str, contribution: float, error: float) -> Cause:
    pair, (share_before, share_after) = table.pair(value), table.shares(value)
    return Cause(
        kind=kind,
        name=table.name,
        value=value,
        contribution=contribution,
        low=contribution - _Z95 * error,
        high=contribution + _Z95 * error,
        before=pair.before.mean,
        after=pair.after.mean,
        share_before=share_before,
        share_after=share_after,
    )


def _all(left: _Pair, *, share: float) -> Cause:
    return Cause(
        kind="all",
        contribution=left.fall,
        low=left.fall - _Z95 * left.error,
        high=left.fall + _Z95 * left.error,
        before=left.before.mean,
        after=left.after.mean,
        share_before=share,
        share_after=share,
    )
