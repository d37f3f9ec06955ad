"""The baseline of a series, learned from its first samples and refined with every doubling. Pure."""

from __future__ import annotations

from streams.monitoring.statistics.estimators import WeightedSums

CHANCE_OF_HARM = 0.005
"""Probability that the tolerated mean ever exceeds the true one; the first look spends half of it."""


class GrowingBaseline:
    """The lowest tolerated mean, learned from samples in [0, 1].

    At n = first * 2^k samples:

        m <- max(m, min(mean - min_drop, lower end of the mean's interval at 0.005 / 2^(k+1)))

    With few samples the interval is wide, so m starts low; it rises with more samples and never falls, so a
    slow decline or an undetected drop does not lower it. The error probabilities of all looks add up to
    0.005.

    Args:
        first: Samples of the first look, at least 10.
        min_drop: Smallest relevant fall, above 0.
        sums: The sums of earlier samples.
        tolerated: m after them.
        mean: The mean at the look that set m.
        looked_at: The sums at the latest look.
    """

    __slots__ = ("_first", "_min_drop", "_next", "looked_at", "mean", "sums", "tolerated")

    def __init__(
        self,
        *,
        first: int,
        min_drop: float,
        sums: WeightedSums | None = None,
        tolerated: float = 0.0,
        mean: float = 0.0,
        looked_at: WeightedSums | None = None,
    ) -> None:
        self._first = first
        self._min_drop = min_drop
        self.sums = sums or WeightedSums()
        self.tolerated = tolerated
        self.mean = mean
        self.looked_at = looked_at or WeightedSums()
        self._next = first
        while self._next <= self.sums.count:
            self._next *= 2

    @property
    def learned(self) -> bool:
        """Whether a fall can be detected."""
        return self.tolerated > 0

    @property
    def margin(self) -> float:
        """Difference of baseline and tolerated mean: the smallest detectable fall."""
        return self.mean - self.tolerated

    def add(self, value: float, probability: float) -> bool:
        """Add one sample.

        Args:
            value: The sample, in [0, 1].
            probability: Its inclusion probability; in (0, 1].

        Returns:
            Whether the baseline was recomputed.
        """
        self.sums = self.sums.add(value, probability)
        if self.sums.count < self._next:
            return False
        chance = CHANCE_OF_HARM * self._first / self._next / 2
        self._next *= 2
        self.looked_at = self.sums
        mean, ends = self.sums.mean, self.sums.interval(lowest=0, highest=1, confidence=1 - 2 * chance)
        if mean is not None and ends is not None:
            tolerated = min(mean - self._min_drop, ends[0])
            if tolerated > self.tolerated:
                self.tolerated, self.mean = tolerated, mean
        return True
