"""Sequential tests: of a fall of the mean, with its delay and start, and of a difference of groups. Pure."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from math import ceil, exp, inf, log, log1p, sqrt
from statistics import NormalDist
from typing import ClassVar, Literal

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
    sample is at most 0: the answers' mean is at least what is tolerated. Then each factor has an expectation
    of at most 1, so M, and the weighted mean, grow by at most 1 a sample in expectation. Let A be the number
    of alarms so far, each followed by a reset, which removes at least the threshold T: so grows T A + M, too.
    After n samples E[A] <= n / T, for any distribution of the scores within their range. m may change with
    each sample, if it depends on the past and on facts other than the score (the hour, labels).

    **Unequal inclusion probabilities** (the argument of Horvitz and Thompson). If answer i of the population
    is judged with probability p_i, its weight is w_i = 1 / p_i, and the next judged answer is i with
    probability p_i / P, where P is the sum of all p. Then

        E[w (m - x)] = sum over i of (p_i / P) (1 / p_i) (m_i - x_i) = (N / P) (mean of m - mean of x) <= 0

    if the population's mean is at least the tolerated one. Dividing by a scale that depends on the past
    changes no sign, and u <= 1 with λ < 1 / (1 - m) keeps every factor positive. The p may depend on the past
    and on labels.
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


BOLDEST = 0.5
"""Largest bet on one score; the source's c."""

Answer = Literal["no worse", "worse", "not yet"]


@dataclass(slots=True)
class MeanSequence:
    """The confidence sequence of one mean of scores in [0, 1], of which `alpha` is the error over all looks.

    It is a predictable plug-in empirical-Bernstein sequence, valid at every look. Not for scores whose mean
    depends on those before, such as bursts of like answers: the mean of a burst is one score then. Source:
    Waudby-Smith and Ramdas, "Estimating means of bounded random variables by betting" (JRSS B, 2024), theorem
    2 with the parameters of section 3.2.

    With m and s² the mean and variance of the scores before x_i, from a half and a quarter as a first one:

        bet_i = min(sqrt(2 log(2 / alpha) / (s² i log(1 + i))), 1/2)
        ends  = (sum(bet x) ± (log(2 / alpha) + sum((x - m)² (-log(1 - bet) - bet)))) / sum(bet)
    """

    alpha: float
    count: int = 0
    _total: float = 0.0
    _squares: float = 0.0
    _bets: float = 0.0
    _bet_scores: float = 0.0
    _penalty: float = 0.0

    def add(self, score: float) -> None:
        if not 0 <= score <= 1:
            raise ValueError(f"score must be from 0 to 1, got {score}; scale it")
        before = (0.5 + self._total) / (self.count + 1)
        variance = (0.25 + self._squares) / (self.count + 1)
        self.count += 1
        bet = sqrt(2 * log(2 / self.alpha) / (variance * self.count * log(1 + self.count)))
        bet = min(bet, BOLDEST)
        self._bets += bet
        self._bet_scores += bet * score
        self._penalty += (score - before) ** 2 * (-log(1 - bet) - bet)
        self._total += score
        self._squares += (score - (0.5 + self._total) / (self.count + 1)) ** 2

    def ends(self) -> tuple[float, float]:
        if not self.count:
            return 0.0, 1.0
        middle = self._bet_scores / self._bets
        half = (log(2 / self.alpha) + self._penalty) / self._bets
        return max(middle - half, 0.0), min(middle + half, 1.0)


@dataclass(slots=True)
class DifferenceSequence:
    """The second group's mean minus the first's, over the mix of both, of scores in [0, 1].

    All sequences hold at once, by a union bound, so for any mix of the strata, also one that drifts: the
    stratum that appeared as number k has the share 1 / (k (k + 1)) of alpha, half of it for each group.
    Without scores of one group in a stratum its mean may be anything, in proportion to its part of the mix.
    """

    alpha: float
    _strata: dict[Hashable, tuple[MeanSequence, MeanSequence]] = field(default_factory=dict)
    _weights: dict[Hashable, float] = field(default_factory=dict)

    def add(self, stratum: Hashable, group: int, score: float, weight: float) -> None:
        """Take the next score: of group 0 or 1, for so many answers of the traffic."""
        if weight < 1:
            raise ValueError(f"weight must be at least 1, got {weight}")
        if stratum not in self._strata:
            number = len(self._strata) + 1
            share = self.alpha / (2 * number * (number + 1))
            self._strata[stratum] = (MeanSequence(share), MeanSequence(share))
        self._strata[stratum][group].add(score)
        self._weights[stratum] = self._weights.get(stratum, 0.0) + weight

    def ends(self) -> tuple[float, float]:
        total, low, high = sum(self._weights.values()), 0.0, 0.0
        if not total:
            return -1.0, 1.0
        for stratum, (first, second) in self._strata.items():
            share = self._weights[stratum] / total
            (first_low, first_high), (second_low, second_high) = first.ends(), second.ends()
            low += share * (second_low - first_high)
            high += share * (second_high - first_low)
        return low, high

    @property
    def counts(self) -> tuple[int, int]:
        pairs = self._strata.values()
        return sum(first.count for first, _ in pairs), sum(second.count for _, second in pairs)

    def answer(self, margin: float) -> Answer:
        """Say whether the second group is worse by the margin or more; both answers cannot hold at once."""
        low, high = self.ends()
        return "no worse" if low > -margin else "worse" if high <= -margin else "not yet"

    def missing(self, margin: float) -> int | None:
        """Return about how many more scores of the second group decide; None if that cannot be said."""
        if self.answer(margin) != "not yet":
            return 0
        low, high = self.ends()
        _, count = self.counts
        gap = abs((low + high) / 2 + margin)
        one_sided = any(not (first.count and second.count) for first, second in self._strata.values())
        if one_sided or gap < 1e-9:
            return None
        return ceil(count * (((high - low) / 2 / gap) ** 2 - 1))
