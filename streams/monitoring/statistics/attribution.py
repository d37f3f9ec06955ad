"""Whether the product or the judge moved: two differences with intervals, and the word they allow. Pure.

D is by how much the judge of today scores old answers worse than it did; F by how much live answers score
worse than usual; R = F - D by how much the answers themselves are worse. All on the scale [0, 1], where
more is worse.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import sqrt
from typing import Literal

from streams.monitoring.statistics.estimators import WeightedSums

ERRORS = 2.24
"""Half the length of an interval in standard errors: 97.5% each, so that both hold with 95%."""
NOTABLE = 0.05
"""The smallest shift worth a word: 0.25 points of a scale five wide."""
FEWEST = 30
"""Answers of either kind below which nothing is said."""

Verdict = Literal["product", "judge", "both", "unclear"]


@dataclass(frozen=True, slots=True)
class Difference:
    """A mean difference, its variance, and the number of answers it is from."""

    mean: float
    variance: float
    count: int

    @property
    def low(self) -> float:
        return self.mean - ERRORS * sqrt(self.variance)

    @property
    def high(self) -> float:
        return self.mean + ERRORS * sqrt(self.variance)

    def minus(self, other: Difference) -> Difference:
        """Return the difference of two, as if independent: the answers they share only lower its variance."""
        return Difference(self.mean - other.mean, self.variance + other.variance, self.count)


def judge_shift(pairs: Iterable[tuple[float, float]]) -> Difference | None:
    """Return D from pairs of (old score - new score, inclusion probability); None if there are too few."""
    return _difference(WeightedSums.of(pairs))


def fall(usual: WeightedSums, since: WeightedSums, *, season_error: float = 0.0) -> Difference | None:
    """Return F, the usual mean minus that of live answers; None if there are too few.

    `since` is without the answers' offsets from the baseline, whose standard error, which the answers of one
    time share, is `season_error`.
    """
    before, after = _difference(usual), _difference(since)
    if before is None or after is None:
        return None
    moved = before.minus(after)
    return Difference(moved.mean, moved.variance + season_error * season_error, after.count)


def _difference(sums: WeightedSums) -> Difference | None:
    mean, variance = sums.mean, sums.cautious_variance
    return (
        None
        if sums.count < FEWEST or mean is None or variance is None
        else Difference(mean, variance, sums.count)
    )


def verdict(judge: Difference | None, product: Difference | None) -> Verdict:
    """Return what moved: the judge by a notable and certain D, the product by a certain R."""
    moved = judge is not None and judge.low > 0 and judge.mean > NOTABLE
    fell = product is not None and product.low > 0
    return "both" if moved and fell else "judge" if moved else "product" if fell else "unclear"


def is_fine(product: Difference | None) -> bool:
    """Whether the product's answers are certainly not notably worse."""
    return product is not None and product.high < NOTABLE
