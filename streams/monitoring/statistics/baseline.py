"""What is normal for a series: learned from its first samples, and more exactly with every doubling. Pure."""

from __future__ import annotations

from streams.monitoring.statistics.estimators import WeightedSums

CHANCE_OF_HARM = 0.005
"""Chance that the tolerated mean is ever above the true one; half of it is spent at the first look."""


class GrowingBaseline:
    """The lowest mean that is all right, learned from samples in [0, 1].

    At n = first * 2^k samples:

        m <- max(m, min(mean - min_drop, lower end of the mean's interval at 0.005 / 2^(k+1)))

    A few samples know the mean badly, so m starts low; it rises as they become more, and is never lowered:
    neither a slow decline nor an undetected drop talks it down. The chances of all looks add up to 0.005.

    Args:
        first: Samples of the first look, at least 10.
        min_drop: Smallest fall that matters, above 0.
        sums: Of samples taken earlier.
        tolerated: m as it stood with them.
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
        """Whether there is a mean below which a fall can be seen."""
        return self.tolerated > 0

    @property
    def margin(self) -> float:
        """How far the tolerated mean is below the normal one: the smallest fall that can be seen."""
        return self.mean - self.tolerated

    def add(self, value: float, probability: float) -> bool:
        """Take one sample.

        Args:
            value: The sample, in [0, 1].
            probability: Its inclusion probability; in (0, 1].

        Returns:
            Whether this was the time of a look.
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
