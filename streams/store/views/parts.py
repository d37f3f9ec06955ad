"""Answers before and after by the values of a label: means, shares, effects of changed shares. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import fmean
from typing import Final, Self

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
class JudgedAnswer:
    """A judged answer."""

    labels: Mapping[str, str]
    score: float
    probability: float


@dataclass(frozen=True, slots=True)
class Part:
    """A part of the traffic before and after, and the width of the scale."""

    before: WeightedSums
    after: WeightedSums
    width: float

    @classmethod
    def of(cls, before: Iterable[JudgedAnswer], after: Iterable[JudgedAnswer], width: float) -> Self:
        first, second = (Counter((one.score, one.probability) for one in side) for side in (before, after))
        return cls(WeightedSums.of_counted(first), WeightedSums.of_counted(second), width)

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
    def fell(self) -> bool:
        """Whether the fall is not to be ignored."""
        return self.fall > LEFT_OVER * self.error

    @property
    def error(self) -> float:
        """The standard error of the fall."""
        return sqrt(variance_of(self.before, self.width) + variance_of(self.after, self.width))


def variance_of(sums: WeightedSums, width: float) -> float:
    """Return the squared standard error of a mean, above 0 also for equal scores."""
    effective = sums.effective_count
    if effective <= 1:
        return width * width
    return (sums.standard_error or 0.0) ** 2 + (0.5 * width / (effective + 1)) ** 2


class Table:
    """The answers before and after by the values of a label."""

    def __init__(
        self, name: str, before: Sequence[JudgedAnswer], after: Sequence[JudgedAnswer], width: float
    ) -> None:
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
    def mix_error(self) -> float:
        """The standard error of the mix, from the chance in the values' shares."""
        square = 0.0
        for side in (self._before, self._after):
            whole = WeightedSums.merged(side.values())
            spread = sum(
                sums.weight * ((sums.mean or 0.0) - (whole.mean or 0.0)) ** 2 for sums in side.values()
            )
            square += spread / max(whole.weight, 1e-9) / max(whole.effective_count, 1.0)
        return sqrt(square)


def _by_value(name: str, answers: Iterable[JudgedAnswer]) -> dict[str, WeightedSums]:
    by_value: defaultdict[str, Counter[tuple[float, float]]] = defaultdict(Counter)
    for answer in answers:
        by_value[answer.labels.get(name, "")][answer.score, answer.probability] += 1
    return {value: WeightedSums.of_counted(scores) for value, scores in by_value.items()}
