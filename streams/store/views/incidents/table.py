"""Answers before and after, by the values of a label: means, shares, and what changed shares made. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Final

from streams.monitoring.statistics.estimators import WeightedSums

FEWEST: Final = 5.0
"""Effective answers that a mean of a part must rest on."""
LEFT_OVER: Final = 3.0
"""Standard errors below which a fall is none."""
NEW_SHARE: Final = 0.15
"""A value whose share was less than this part of what it is since counts as new."""
TAKEN_OVER: Final = 0.25
"""A value that gained this part of the traffic took over."""


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
    """Add up scores.

    Most are alike, so each kind is added once: this is done for every value of every label.
    """
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
    """Squared standard error of a mean; equal scores do not prove that there are no others."""
    effective = part.effective_count
    if effective <= 1:
        return width * width
    return (part.standard_error or 0.0) ** 2 + (0.5 * width / (effective + 1)) ** 2


@dataclass(frozen=True, slots=True)
class Pair:
    """The same part before and after."""

    before: WeightedSums
    after: WeightedSums
    width: float

    @property
    def known(self) -> bool:
        """Whether both means rest on answers enough."""
        return min(self.before.effective_count, self.after.effective_count) >= FEWEST

    @property
    def fall(self) -> float:
        """Points; 0 where there is no mean."""
        before, after = self.before.mean, self.after.mean
        return 0.0 if before is None or after is None else before - after

    @property
    def error(self) -> float:
        """Standard error of the fall."""
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
        """The answers with a value."""
        before, after = (side.get(value, WeightedSums()) for side in self._sides)
        return Pair(before, after, self._width)

    def rest(self, value: str) -> Pair:
        """The answers with another value."""
        others = [
            WeightedSums.merged([one for name, one in side.items() if name != value]) for side in self._sides
        ]
        return Pair(others[0], others[1], self._width)

    def shares(self, value: str) -> tuple[float, float]:
        """The value's share of the traffic before and after, 0 to 1."""
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
        """Whether the value has a larger share than before."""
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
        """Points of the fall that come of changed shares."""
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
