"""Sequential tests for a fall of the mean, with a bound on false alarms for any distribution. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import exp, log
from typing import Any

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


def _weights() -> tuple[float, ...]:
    amounts = [0.1 + exp(-(log(size / _USUAL_BET) ** 2) / 2) for size in SIZES]
    return tuple(amount / sum(amounts) for amount in amounts)


WEIGHTS = _weights()
"""Weights of the bets; their sum is 1."""


class ShiryaevRobertsEDetector:
    """An e-detector in Shiryaev-Roberts form that bets on a fall of the mean.

    For each of K = 16 bets λ, with x the sample, m the mean tolerated for it and u in (0, 1] its relative
    weight:

        M <- (M + 1) (1 + λ u (m - x)),    alarm when the weighted mean of the K values reaches the threshold.

    The weights of the bets are fixed: bets for falls that need early detection weigh most, and none weighs
    less than a tenth of the largest, which delays its falls only by the logarithm of that.

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
    than its score (the hour, its labels): only each factor's own expectation must be bounded. So a growing
    baseline, a season and a mix of labels keep the bound; evidence collected at a lower m stays valid.

    **Unequal inclusion probabilities** (the argument of Horvitz and Thompson). Let answer i of the population
    be judged with probability p_i, so that its weight is w_i = 1 / p_i. The next judged answer is i with
    probability p_i / P, where P is the sum of all p. Then

        E[w (m - x)] = sum over i of (p_i / P) (1 / p_i) (m_i - x_i) = (N / P) (mean of m - mean of x) <= 0

    if the population's mean is at least the tolerated one: the weight cancels the sampling probability.
    Dividing by a scale that depends on the past changes no sign, and u <= 1 with λ < 1 / (1
    - m) keeps every factor positive. The p may depend on the past, for example when sampling is raised on
    suspicion, and on an answer's labels.

    Args:
        threshold: T, samples per allowed false alarm; at least 1.

    Raises:
        ValueError: The threshold is out of range.
    """

    name = "shiryaev-roberts-e/3"

    __slots__ = ("_evidence", "samples", "threshold")

    def __init__(self, *, threshold: float) -> None:
        if not 1 <= threshold < CEILING:
            raise ValueError(f"threshold must be at least 1 and below {CEILING:g}, got {threshold}")
        self.threshold = threshold
        self.reset()

    def reset(self) -> None:
        """Discard the evidence, after an alarm."""
        self.samples = 0
        self._evidence = [0.0] * BETS

    @property
    def statistic(self) -> float:
        """Evidence for a fall; at least 0."""
        return min(_mean(self._evidence), CEILING)

    def dump(self) -> dict[str, Any]:
        """Return the whole state as JSON values."""
        return {"evidence": self._evidence, "samples": self.samples}

    def load(self, state: Mapping[str, Any]) -> None:
        """Restore the state that `dump` returned; that of another number of bets starts over."""
        self.reset()
        if len(state["evidence"]) == BETS:
            self._evidence = [float(value) for value in state["evidence"]]
        self.samples = int(state["samples"])

    def update(self, value: float, *, tolerated_mean: float, share: float = 1.0) -> bool:
        """Add one sample.

        Args:
            value: The sample, scaled to [0, 1].
            tolerated_mean: m for this sample; in (0, 1). It must not depend on the value.
            share: u, the sample's weight on a scale that depends on the past; in [0, 1].

        Returns:
            Whether a fall is detected.

        Raises:
            ValueError: One of them is out of range.
        """
        if not 0 <= value <= 1:
            raise ValueError(f"value must be between 0 and 1, got {value}; scale the score first")
        if not 0 < tolerated_mean < 1:
            raise ValueError(f"tolerated_mean must be above 0 and below 1, got {tolerated_mean}")
        if not 0 <= share <= 1:
            raise ValueError(f"share must be at least 0 and at most 1, got {share}")
        gain = share * (tolerated_mean - value) / (1 - tolerated_mean)
        self._evidence = [
            (evidence + 1) * (1 + size * gain) for evidence, size in zip(self._evidence, SIZES, strict=True)
        ]
        mean = _mean(self._evidence)
        if mean > CEILING:
            self._evidence = [min(evidence, CEILING) for evidence in self._evidence]
        self.samples += 1
        return mean >= self.threshold


def _mean(evidence: Sequence[float]) -> float:
    return sum(weight * value for weight, value in zip(WEIGHTS, evidence, strict=True))
