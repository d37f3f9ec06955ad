"""Tests for a fall of the mean, the expected delay, and the likeliest start of the fall. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import exp, inf, log, log1p, sqrt
from statistics import NormalDist
from typing import ClassVar

from streams.monitoring.statistics.baseline import CHANCE_OF_HARM

BETS = 16
"""Number of parallel bets; each suits falls of another size."""
SMALLEST_BET = 0.01
LARGEST_BET = 0.9
"""Range of the bets, as shares of the largest one that a single top score cannot ruin."""
CEILING = 1e300
"""Maximum of the statistics, which keeps them finite without a reset."""
_RATIO = (LARGEST_BET / SMALLEST_BET) ** (1 / (BETS - 1))
SIZES = tuple(SMALLEST_BET * _RATIO**k for k in range(BETS))
_USUAL_BET = 0.15
"""The best bet on a fall by half a standard deviation, for the usual spread of judges' scores."""
_AMOUNTS = [0.1 + exp(-(log(size / _USUAL_BET) ** 2) / 2) for size in SIZES]
WEIGHTS = tuple(amount / sum(_AMOUNTS) for amount in _AMOUNTS)
"""Weights of the bets; their sum is 1."""


@dataclass(slots=True)
class ShiryaevRobertsEDetector:
    """An e-detector in Shiryaev-Roberts form that bets on a fall of the mean.

    For each of K = 16 bets λ, with x the sample, m the mean tolerated for it and u in (0, 1] its relative
    weight:

        M <- (M + 1) (1 + λ u (m - x)),    alarm when the weighted mean of the K values reaches the threshold.

    The weights are fixed: bets for falls that need early detection weigh most, none less than a tenth of it.

    Source: Shin, Ramdas, Rinaldo, "E-detectors: a nonparametric framework for sequential change detection"
    (New England Journal of Statistics in Data Science, 2023); the bets on a bounded mean are those of
    Waudby-Smith and Ramdas, "Estimating means of bounded random variables by betting" (JRSS B, 2024).

    **Why false alarms are bounded.** Suppose that, given the past, the expectation of u (m - x) for the next
    sample is at most 0: the mean of the answers from which it is drawn is at least what is tolerated. Then
    each factor has an expectation of at most 1, so M grows by at most 1 a sample in expectation, and so does
    their weighted mean. Let A be the number of alarms so far, each followed by a reset, and T the threshold.
    A reset removes at least T, so T A + M too grows by at most 1 a sample in expectation. After n samples
    E[A] <= n / T: at most one false alarm in T samples, for any distribution of the scores within their
    range.

    **m may change from sample to sample**, if it depends only on the past and on facts about the answer other
    than its score (the hour, its labels): only each factor's own expectation must be bounded.

    **Unequal inclusion probabilities** (the argument of Horvitz and Thompson). Let answer i of the population
    be judged with probability p_i, so that its weight is w_i = 1 / p_i. The next judged answer is i with
    probability p_i / P, where P is the sum of all p. Then

        E[w (m - x)] = sum over i of (p_i / P) (1 / p_i) (m_i - x_i) = (N / P) (mean of m - mean of x) <= 0

    if the population's mean is at least the tolerated one: the weight cancels the sampling probability.
    Dividing by a scale that depends on the past changes no sign, and u <= 1 with λ < 1 / (1 - m) keeps every
    factor positive. The p may depend on the past, as when sampling is raised on suspicion, and on labels.
    """

    name: ClassVar = "shiryaev-roberts-e/3"

    threshold: float = 1.0
    """T, samples per allowed false alarm; at least 1."""
    samples: int = 0
    evidence: list[float] = field(default_factory=lambda: [0.0] * BETS)

    def reset(self) -> None:
        self.samples = 0
        self.evidence = [0.0] * BETS

    @property
    def statistic(self) -> float:
        return min(_mean(self.evidence), CEILING)

    def update(self, value: float, *, tolerated_mean: float, share: float = 1.0) -> bool:
        """Add x in [0, 1], with m in (0, 1), which must not depend on x, and u; return whether it fell."""
        gain = share * (tolerated_mean - value) / (1 - tolerated_mean)
        self.evidence = [
            (evidence + 1) * (1 + size * gain) for evidence, size in zip(self.evidence, SIZES, strict=True)
        ]
        mean = _mean(self.evidence)
        if mean > CEILING:
            self.evidence = [min(evidence, CEILING) for evidence in self.evidence]
        self.samples += 1
        return mean >= self.threshold


def _mean(evidence: Sequence[float]) -> float:
    return sum(weight * value for weight, value in zip(WEIGHTS, evidence, strict=True))


def samples_since_shift(latest_first: Iterable[tuple[float, float]], *, normal_mean: float) -> int:
    """Return how many of the latest samples most likely belong to a fall of the mean.

    For each start, the generalised likelihood ratio of "the mean fell at this sample" to "it did not change",
    for normal errors of equal variance, is an increasing function of

        (sum of w (normal_mean - x))² / sum of w²,

    over the samples since that start; the start with the largest value is returned, of equals the latest.
    Source: Basseville and Nikiforov, Detection of Abrupt Changes (1993), section 2.4.3, with the weights
    added: the variance of the weighted sum is proportional to the sum of w².
    `latest_first` has pairs of x and w, above 0. 0 if no start indicates a fall.
    """
    best, since = 0.0, 0
    fall = squares = 0.0
    for number, (value, weight) in enumerate(latest_first, start=1):
        fall += weight * (normal_mean - value)
        squares += weight * weight
        if fall > 0 and fall * fall > best * squares:
            best, since = fall * fall / squares, number
    return since


def expected_margin(
    spread: float, *, known: float, first: int, min_drop: float, evenness: float = 1.0
) -> float:
    """Return the smallest fall of the scale [0, 1] that a baseline can show after `known` judged answers."""
    if known < first:
        return inf
    looked, chance = float(first), CHANCE_OF_HARM / 2
    while 2 * looked <= known:
        looked, chance = 2 * looked, chance / 2
    return max(min_drop, NormalDist().inv_cdf(1 - chance) * spread / sqrt(looked * evenness))


def expected_answers(
    fall: float, *, mean: float, spread: float, margin: float, threshold: float, evenness: float = 1.0
) -> float:
    """Return about how many judged answers a fall of the mean takes until it is called.

    With x one of two scores of the fallen mean and this spread, the bet of size s grows by r = E log(1 + s (m
    - x) / (1 - m)) an answer; it had (1 - m) / (s margin) before the fall, the expectation of a calm series.
    So it brings its part w of the threshold T to an alarm after log(1 + T / w / (1 / r + that)) / r answers;
    the first bet counts. Of unequal weights only the effective answers do.

    Simulated medians are 0.8 to 1.1 of this for falls of several margins; 0.4 to 4 for falls hardly beyond
    it, where the error of the learned mean decides (`python -m benchmarks monitor`).

    `fall`, `mean` before it, `spread` (standard deviation) and `margin`, above 0, are on the scale [0, 1].
    Infinity if it is not called.
    """
    tolerated, fallen = mean - margin, mean - fall
    if not 0 < tolerated < 1 or fallen >= tolerated:
        return inf
    law = [(share, (tolerated - x) / (1 - tolerated)) for share, x in _two_points(max(fallen, 0.0), spread)]
    least = inf
    for size, weight in zip(SIZES, WEIGHTS, strict=True):
        growth = sum(share * log1p(size * gain) for share, gain in law)
        if growth > 0:
            before = (1 - tolerated) / (size * margin)
            least = min(least, log1p(threshold / weight / (1 / growth + before)) / growth)
    return least / evenness


def _two_points(mean: float, spread: float) -> tuple[tuple[float, float], ...]:
    """Return two scores in [0, 1] with their shares; the spread is less if the scale ends before."""
    high = min(mean + spread, 1.0)
    low = max(mean - spread * spread / max(high - mean, 1e-9), 0.0)
    share = (mean - low) / max(high - low, 1e-9)
    return (share, high), (1 - share, low)


def evenness_of(strata: Iterable[tuple[float, float]]) -> float:
    """Return the effective answers per judged one (Kish): 1 / (sum of b p, times sum of b / p).

    `strata` are shares b of the traffic, each with its sampling rate p, above 0.
    """
    rows = [(share, rate) for share, rate in strata if share > 0]
    whole = sum(share for share, _ in rows)
    return whole * whole / (sum(b * p for b, p in rows) * sum(b / p for b, p in rows))


ALLOWANCE = 0.044
"""Half of a notable fall, on the scale [0, 1]: 0.22 points of a scale five wide."""
SUSPICIOUS = 8.0
"""Standard deviations of the scores at which a sum is suspicious: by chance once in some 500 answers."""
FIRST = 60.0
MOST = 2_000.0
"""Answers before anything is suspected, and those that a usual mean is of at most."""


@dataclass(slots=True)
class Cusum:
    """Suspicion that the mean of a stratum has fallen: earlier than a test says so, and sometimes wrongly.

    S <- max(0, S + usual mean - 0.044 - x), suspicious from 8 standard deviations of x on until S is 0 again.
    S grows to a quarter more at most, so that a mended fall is seen soon. Source: Page, "Continuous
    inspection schemes" (Biometrika, 1954), with half of the fall as the allowance.
    """

    count: float = 0.0
    mean: float = 0.0
    squares: float = 0.0
    sum: float = 0.0
    is_raised: bool = False

    def add(self, value: float) -> None:
        if self.count >= FIRST:
            limit = SUSPICIOUS * max(sqrt(self.squares / self.count), ALLOWANCE)
            self.sum = min(max(self.sum + self.mean - ALLOWANCE - value, 0.0), 1.25 * limit)
            self.is_raised = self.sum >= limit or (self.is_raised and self.sum > 0)
        if not self.is_raised:
            self.learn(value)

    def learn(self, value: float) -> None:
        if self.count >= MOST:
            self.squares *= 1 - 1 / self.count
            self.count -= 1
        self.count += 1
        before = self.mean
        self.mean += (value - before) / self.count
        self.squares += (value - before) * (value - self.mean)

    def clear(self) -> None:
        self.sum, self.is_raised = 0.0, False
