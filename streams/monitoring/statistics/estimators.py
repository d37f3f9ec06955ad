"""Weighted means of sampled scores, with confidence intervals, and their sums over a window of time. Pure.

An answer sampled with probability p represents w = 1/p answers. The sums are exported as counters, so that a
dashboard can compute the same numbers over any window.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from math import inf, isfinite, sqrt
from operator import attrgetter
from statistics import NormalDist
from typing import Self

FEWEST_EFFECTIVE = 3.0
"""Below this effective sample size the interval is the whole scale."""
IMAGINED_SQUARE = 0.75
"""Squared deviation that `interval` adds, in squares of the scale: three pseudo-observations half the scale
away."""
DOUBT_COUNT = 10.0
"""Effective answers at which `interval` weighs the observed spread and the widest possible one equally."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightedSums:
    """Running sums of w, wx, wx², w², w²x and w²x², with x the score and w = 1/p its weight.

    The mean is the ratio estimator of Hájek: consistent for any inclusion probabilities, without knowing the
    number of answers, which the sum of w estimates.
    """

    count: int = 0
    """Number of scores, for reports only; no formula uses it."""
    weight: float = 0.0
    weighted: float = 0.0
    weighted_square: float = 0.0
    weight_square: float = 0.0
    weight_square_score: float = 0.0
    weight_square_score_square: float = 0.0

    @classmethod
    def of(cls, samples: Iterable[tuple[float, float]]) -> Self:
        """Add up pairs of score and inclusion probability."""
        sums = cls()
        for score, probability in samples:
            sums = sums.add(score, probability)
        return sums

    @classmethod
    def of_counted(cls, counts: Mapping[tuple[float, float], int]) -> Self:
        """Add up numbers of scores by pair of score and inclusion probability."""
        terms = [
            (n, n / p, n * x / p, n * x * x / p, n / p**2, n * x / p**2, n * (x / p) ** 2)
            for (x, p), n in counts.items()
        ]
        return cls.from_numbers([sum(column) for column in zip(*terms, strict=True)]) if terms else cls()

    @classmethod
    def merged(cls, parts: Iterable[WeightedSums]) -> Self:
        totals = [sum(column) for column in zip(*map(_IN_ORDER, parts), strict=True)]
        return cls(**dict(zip(_FIELDS, totals, strict=True))) if totals else cls()

    @classmethod
    def from_numbers(cls, numbers: Sequence[float]) -> Self:
        return cls(count=int(numbers[0]), **dict(zip(_FIELDS[1:], map(float, numbers[1:]), strict=True)))

    def add(self, score: float, probability: float = 1.0) -> Self:
        """Return the sums with one more score of an answer with this inclusion probability."""
        if not isfinite(score):
            raise ValueError(f"score must be a finite number, got {score}; omit unscored results")
        if not 0 < probability <= 1:
            raise ValueError(f"probability must be above 0 and at most 1, got {probability}")
        w = 1 / probability
        wx, ww = w * score, w * w
        return type(self)(
            count=self.count + 1,
            weight=self.weight + w,
            weighted=self.weighted + wx,
            weighted_square=self.weighted_square + wx * score,
            weight_square=self.weight_square + ww,
            weight_square_score=self.weight_square_score + ww * score,
            weight_square_score_square=self.weight_square_score_square + wx * wx,
        )

    @property
    def mean(self) -> float | None:
        """sum(wx) / sum(w); None without scores."""
        return self.weighted / self.weight if self.count else None

    @property
    def effective_count(self) -> float:
        """Effective sample size, (sum w)² / sum(w²). Source: Kish, Survey Sampling (1965), section 11.7."""
        return self.weight * self.weight / self.weight_square if self.count else 0.0

    @property
    def standard_error(self) -> float | None:
        """Standard error of the mean; None if the effective sample size is not above 1.

        The linearised variance of a ratio of two totals, sum(w²(x-mean)²) / (sum w)², expanded so that the
        six sums suffice. Source: Särndal, Swensson, Wretman, Model Assisted Survey Sampling (1992), result
        5.7.1, for independent inclusion; without the factor 1-p, so that the error is about the process that
        creates the answers. Deviation: times n/(n-1) with n the effective sample size, as for s/sqrt(n).
        """
        effective = self.effective_count
        if effective <= 1:
            return None
        return sqrt(self.squared_residuals() * effective / (effective - 1)) / self.weight

    def interval(
        self, *, lowest: float, highest: float, confidence: float = 0.95
    ) -> tuple[float, float] | None:
        """Confidence interval of the mean of scores on a bounded scale, in Wilson's form.

        With y the mean scaled to [0, 1], n the effective sample size and t Student's quantile for n - 1
        degrees of freedom:

            V  = (sum(w²(y_i - y)²) / (sum w)² + 0.75 / n²) n / (n - 1)
            n* = max(y (1 - y), 0.75 / n) / V,      1 / n* <- n / (n + 10) / n* + 10 / (n + 10) / n
            ends = (y + g/2 ± sqrt(y (1 - y) g + g²/4)) / (1 + g),      g = t² / n*

        n* is the number of yes-or-no answers that would vary as much. Source: Wilson, "Probable inference"
        (JASA, 1927). Deviations, for scores and weights: n* instead of a count; three pseudo-observations,
        half the scale away and of the typical weight sum(w²)/sum(w), so that equal scores do not give zero
        variance; n* shrunk towards n while n is small, because few answers with unequal weights estimate
        their spread badly; below an effective sample size of 3 the whole scale. None without scores.
        Coverage: `python -m benchmarks monitor`.
        """
        mean, n, scale = self.mean, self.effective_count, highest - lowest
        if mean is None:
            return None
        variance = self.cautious_variance(scale)
        if variance is None:
            return float(lowest), float(highest)
        y = min(max((mean - lowest) / scale, 0.0), 1.0)
        alike = max(y * (1 - y), min(IMAGINED_SQUARE / n, 0.25)) / variance
        doubt = DOUBT_COUNT / (n + DOUBT_COUNT)
        g = student_quantile(0.5 + confidence / 2, n - 1) ** 2 * ((1 - doubt) / alike + doubt / n)
        middle = (y + g / 2) / (1 + g)
        reach = sqrt(y * (1 - y) * g + g * g / 4) / (1 + g)
        low, high = max(min(middle - reach, y), 0.0), min(max(middle + reach, y), 1.0)
        return lowest + scale * low, lowest + scale * high

    def cautious_variance(self, scale: float = 1.0) -> float | None:
        """Variance V (`interval`) of the mean of scores on a scale of this width; None below 3 effective."""
        n = self.effective_count
        if n < FEWEST_EFFECTIVE:
            return None
        seen = self.squared_residuals() / (scale * self.weight) ** 2
        return (seen + IMAGINED_SQUARE / (n * n)) * n / (n - 1)

    def squared_residuals(self) -> float:
        """Return the sum of w²(x-mean)², at least 0 despite rounding."""
        mean = self.weighted / self.weight
        squares = (
            self.weight_square_score_square
            - 2 * mean * self.weight_square_score
            + mean * mean * self.weight_square
        )
        return max(squares, 0.0)


_FIELDS = tuple(one.name for one in fields(WeightedSums))
_IN_ORDER = attrgetter(*_FIELDS)


def student_quantile(probability: float, degrees: float) -> float:
    """Return a quantile of Student's t distribution; the degrees of freedom, at least 1, need not be whole.

    Source: Abramowitz and Stegun, Handbook of Mathematical Functions (1964), 26.7.5, an expansion in
    1/degrees. For probabilities up to 0.975 its error is below 1% from 2 degrees and below 0.01% from 10.
    """
    z = NormalDist().inv_cdf(probability)
    if degrees == inf:
        return z
    z2 = z * z
    terms = (
        z * (z2 + 1) / 4,
        z * ((5 * z2 + 16) * z2 + 3) / 96,
        z * (((3 * z2 + 19) * z2 + 17) * z2 - 15) / 384,
        z * ((((79 * z2 + 776) * z2 + 1482) * z2 - 1920) * z2 - 945) / 92160,
    )
    return z + sum(term / degrees**power for power, term in enumerate(terms, start=1))


SLICES = 60


@dataclass(slots=True)
class SlidingSums:
    """Sums over the scores of answers within a sliding window.

    Scores are added in any order to one of 60 slices, by the time of their answers. The window ends with the
    current slice, so it covers between 59/60 and all of its length. Times in the future count as now.
    """

    length_seconds: float
    slices: dict[int, WeightedSums] = field(default_factory=dict)

    def add(self, sums: WeightedSums, *, occurred_at: datetime, now: datetime) -> None:
        latest = self._number(now)
        number = min(self._number(occurred_at), latest)
        if number <= latest - SLICES:
            return
        if len(self.slices) > SLICES:
            self._forget(latest)
        self.slices[number] = WeightedSums.merged((self.slices.get(number, WeightedSums()), sums))

    def total(self, now: datetime) -> WeightedSums:
        self._forget(self._number(now))
        return WeightedSums.merged(self.slices.values())

    def _number(self, moment: datetime) -> int:
        return int(moment.timestamp() // (self.length_seconds / SLICES))

    def _forget(self, latest: int) -> None:
        for number in [number for number in self.slices if number <= latest - SLICES]:
            del self.slices[number]
