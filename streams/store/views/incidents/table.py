"""Answers before and after by the values of a label: means, shares, effects of changed shares. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Final

from streams.monitoring.statistics.estimators import WeightedSums

FEWEST: Final = 5.0
"""Minimum effective answers of a part's mean."""
LEFT_OVER: Final = 3.0
"""Standard errors below which a fall is ignored."""
NEW_SHARE: Final = 0.15
"""A value is new if its share before was less than this fraction of its share since."""
TAKEN_OVER: Final = 0.25
"""A value took over if it gained this share of the traffic."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A judged answer."""

    labels: Mapping[str, str]
    score: float
    probability: float


def sums(answers: Iterable[Answer]) -> WeightedSums:
    """Add up answers."""
    return _added((answer.score, answer.probability) for answer in answers)


def _added(samples: Iterable[tuple[float, float]]) -> WeightedSums:
    """Sum scores, with equal ones added once for speed."""
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


def variance_of(part: WeightedSums, width: float) -> float:
    """Return the squared standard error of a mean, above 0 also for equal scores."""
    effective = part.effective_count
    if effective <= 1:
        return width * width
    return (part.standard_error or 0.0) ** 2 + (0.5 * width / (effective + 1)) ** 2


@dataclass(frozen=True, slots=True)
class Pair:
    """One part before and after."""

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
        return sqrt(variance_of(self.before, self.width) + variance_of(self.after, self.width))


class Table:
    """The values of one label."""

    def __init__(self, name: str, before: Sequence[Answer], after: Sequence[Answer], width: float) -> None:
        self.name = name
        self._width = width
        self._sides = (_by_value(name, before), _by_value(name, after))
        self.totals = tuple(WeightedSums.merged(side.values()) for side in self._sides)
        self.values = sorted({value for side in self._sides for value in side})

    def pair(self, value: str) -> Pair:
        """Return the answers with a value."""
        before, after = (side.get(value, WeightedSums()) for side in self._sides)
        return Pair(before, after, self._width)

    def rest(self, value: str) -> Pair:
        """Return the answers with other values."""
        others = [
            WeightedSums.merged([one for name, one in side.items() if name != value]) for side in self._sides
        ]
        return Pair(others[0], others[1], self._width)

    def shares(self, value: str) -> tuple[float, float]:
        """Return the value's share of the traffic before and after, 0 to 1."""
        pair = self.pair(value)
        before, after = (total.weight or 1.0 for total in self.totals)
        return pair.before.weight / before, pair.after.weight / after

    def rolled_out(self, value: str) -> bool:
        """Return whether a value is new or took over, and did not get worse itself."""
        # The start of a fall is an estimate, so some of its answers may be before.
        pair, (share_before, share_after) = self.pair(value), self.shares(value)
        if pair.before.effective_count < FEWEST or share_before < NEW_SHARE * share_after:
            return share_after > share_before
        return share_after - share_before >= TAKEN_OVER and pair.fall <= LEFT_OVER * pair.error

    def grew(self, value: str) -> bool:
        """Return whether the value has a larger share than before."""
        share_before, share_after = self.shares(value)
        return share_after > share_before

    def mixed(self, value: str) -> float:
        """Return the points of the fall due to one value's changed share, relative to the overall mean."""
        pair, (share_before, share_after) = self.pair(value), self.shares(value)
        means = [one.mean for one in (pair.before, pair.after) if one.mean is not None]
        whole = [one.mean for one in self.totals if one.mean is not None]
        if not means or not whole:
            return 0.0
        return (share_before - share_after) * (sum(means) / len(means) - sum(whole) / len(whole))

    @property
    def mix(self) -> float:
        """Return the points of the fall due to changed shares."""
        return sum(self.mixed(value) for value in self.values)

    @property
    def within(self) -> tuple[float, float]:
        """Return the points of the fall within values present before and after, with standard error."""
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
