"""Sequential tests for a fall of the mean, with a bound on false alarms that holds for any distribution. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

BETS = 16
"""Sizes of bets that are tried side by side; each suits falls of another size."""

SMALLEST_BET = 0.01
LARGEST_BET = 0.9
"""The bets, as shares of the largest one that could not be ruined by a single top score."""

CEILING = 1e300
"""Where the statistics stop growing, should nobody reset them: they stay finite."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DetectorState:
    """What a detector thinks after its latest sample.

    Attributes:
        statistic: Evidence for a fall; at least 0.
        threshold: Where the statistic means alarm.
        samples: Samples since the start or the latest reset.
    """

    statistic: float
    threshold: float
    samples: int

    @property
    def alarm(self) -> bool:
        """Whether a fall is called."""
        return self.statistic >= self.threshold


class Detector(Protocol):
    """Watches a stream of values in [0, 1] for a fall of their mean below a tolerated one."""

    @property
    def name(self) -> str:
        """Name and version of the test."""

    @property
    def state(self) -> DetectorState:
        """What it thinks now."""

    def update(self, value: float, weight: float = 1.0) -> DetectorState:
        """Take one sample.

        Args:
            value: The sample, scaled to [0, 1].
            weight: The inverse of its inclusion probability; positive.
        """

    def reset(self) -> None:
        """Forget the evidence: start anew after an alarm."""


class ShiryaevRobertsEDetector:
    """An e-detector in Shiryaev-Roberts form that bets on a fall of the mean.

    For each of K = 16 bets λ, with x the sample, m the tolerated mean and u = w / w_max in (0, 1]:

        M <- (M + 1) (1 + λ u (m - x)),    alarm when the average of the K values of M reaches the threshold.

    Source: Shin, Ramdas, Rinaldo, "E-detectors: a nonparametric framework for sequential change detection" (New
    England Journal of Statistics in Data Science, 2023); the bets on a bounded mean are those of Waudby-Smith and
    Ramdas, "Estimating means of bounded random variables by betting" (JRSS B, 2024).

    **Why false alarms are bounded.** Suppose that, whatever came before, the mean of the answers from which the
    next sample is drawn is at least m. Then each factor has an expectation of at most 1, so M grows by at most 1 a
    sample in expectation, and so does the average over the bets. Let A be the number of alarms so far, each
    followed by a reset, and T the threshold. A reset takes away at least T, so T A + M too grows by at most 1 a
    sample in expectation. After n samples hence E[A] <= n / T: at most one false alarm in T samples, whatever the
    distribution of the scores. Nothing was assumed about it but its range.

    **Unequal inclusion probabilities** (the argument of Horvitz and Thompson). Let answer i of the population be
    judged with probability p_i, so that its weight is w_i = 1 / p_i. The next judged answer is i with probability
    p_i / P, where P is the sum of all p. Then

        E[w (m - x)] = sum over i of (p_i / P) (1 / p_i) (m - x_i) = (N / P) (m - mean of the population) <= 0

    whenever the population's mean is at least m: the weight takes away exactly what the sampling added. Dividing by
    a w_max known beforehand changes no sign, and u <= 1 with λ < 1 / (1 - m) keeps every factor positive. (With
    w in place of u, one answer that stands for many could make a factor negative.) The p may follow from the past,
    as when sampling is raised on suspicion; they may depend on an answer's labels too, since that is what the
    weight corrects.

    Args:
        tolerated_mean: m, the lowest mean that is still all right, scaled to [0, 1); 0 would leave nothing to fall to.
        threshold: T, samples for each false alarm that is allowed; at least 1.
        largest_weight: w_max, the inverse of the smallest inclusion probability that can occur. None takes the
            largest seen so far. Then, as for a weight that exceeds a given one, the sample that sets the record
            counts as u = 1, which is less than it stands for. The bound is then approximate for such samples; a
            policy of a few strata has only a few of them.

    Raises:
        ValueError: One of them is out of its range.
    """

    name = "shiryaev-roberts-e/1"

    __slots__ = ("_bets", "_largest_weight", "_m", "_samples", "_sums", "_threshold")

    def __init__(
        self, *, tolerated_mean: float, threshold: float, largest_weight: float | None = None
    ) -> None:
        if not 0 < tolerated_mean < 1:
            raise ValueError(f"tolerated_mean must be above 0 and below 1, got {tolerated_mean}")
        if not 1 <= threshold < CEILING:
            raise ValueError(f"threshold must be at least 1 and below {CEILING:g}, got {threshold}")
        if largest_weight is not None and not 1 <= largest_weight < CEILING:
            raise ValueError(f"largest_weight must be at least 1, got {largest_weight}")
        self._m = tolerated_mean
        self._threshold = threshold
        self._largest_weight = largest_weight or 0.0
        ratio = (LARGEST_BET / SMALLEST_BET) ** (1 / (BETS - 1))
        self._bets = tuple(SMALLEST_BET * ratio**k / (1 - tolerated_mean) for k in range(BETS))
        self.reset()

    def reset(self) -> None:
        """Forget the evidence; the tolerated mean and the largest weight stay."""
        self._samples = 0
        self._sums = [0.0] * BETS

    @property
    def state(self) -> DetectorState:
        """What it thinks now."""
        return DetectorState(
            statistic=min(sum(self._sums) / BETS, CEILING),
            threshold=self._threshold,
            samples=self._samples,
        )

    def update(self, value: float, weight: float = 1.0) -> DetectorState:
        """Take one sample.

        Args:
            value: The sample, scaled to [0, 1].
            weight: The inverse of its inclusion probability; at least 1.

        Raises:
            ValueError: One of them is out of its range.
        """
        if not 0 <= value <= 1:
            raise ValueError(f"value must be between 0 and 1, got {value}; scale the score first")
        if not 1 <= weight < CEILING:
            raise ValueError(f"weight must be at least 1, got {weight}")
        self._largest_weight = max(self._largest_weight, weight)
        gain = weight / self._largest_weight * (self._m - value)
        self._sums = [
            (evidence + 1) * (1 + bet * gain) for evidence, bet in zip(self._sums, self._bets, strict=True)
        ]
        if max(self._sums) > CEILING:
            self._sums = [min(evidence, CEILING) for evidence in self._sums]
        self._samples += 1
        return self.state
