"""The baseline of a series, refined with every doubling, and the offsets of its parts. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from streams.monitoring.statistics.estimators import WeightedSums
from streams.monitoring.statistics.season import EVEN, Season, Waves, step_of, waves

ERRORS_TOLERATED = 2.6
"""Tolerated standard errors of the season's prediction; one-sided 0.5%."""

CHANCE_OF_HARM = 0.005
"""Probability that the tolerated mean ever exceeds the true one; the first look spends half of it."""


class GrowingBaseline:
    """The lowest tolerated mean, learned from samples in [0, 1].

    At n = first * 2^k samples:

        candidate = min(mean - min_drop, lower end of the mean's interval at 0.005 / 2^(k+1))
        m <- candidate if it is above m + offset - 2.6 errors

    with the season's offset of the mean of all samples so far from that of the samples that set m, and its
    error. The interval is of the traffic so far: a first look at a good morning says nothing about the night,
    so m holds relative to the times of its own samples (`usual`).

    With few samples the interval is wide, so m starts low; it rises with more samples and, but for the
    season, never falls, so a slow decline or an undetected drop does not lower it. The error probabilities of
    all looks add up to 0.005.

    Args:
        first: Samples of the first look, at least 10.
        min_drop: Smallest relevant fall, above 0.

    Attributes:
        sums: Of all samples.
        looked_at: The sums at the latest look.
        basis: The sums at the look that set m.
        tolerated: m; 0 before it is learned.
        usual: Mean waves of the samples that set m.
    """

    def __init__(self, *, first: int, min_drop: float) -> None:
        self._first = self._next = first
        self._min_drop = min_drop
        self.sums = self.looked_at = self.basis = WeightedSums()
        self.tolerated = 0.0
        self.usual = EVEN
        self._times: Waves = (0.0,) * len(EVEN)
        self._latest: dict[int, float] = {}  # the weight by step, not in the times yet

    @property
    def times(self) -> Waves:
        """The weighted sum of all samples' waves."""
        for step, weight in self._latest.items():
            self._times = tuple(
                one + weight * other for one, other in zip(self._times, waves(step), strict=True)
            )
        self._latest.clear()
        return self._times

    @property
    def learned(self) -> bool:
        """Whether a fall can be detected."""
        return self.tolerated > 0

    @property
    def mean(self) -> float:
        """The mean at the look that set m."""
        return self.basis.mean or 0.0

    @property
    def margin(self) -> float:
        """Difference of baseline and tolerated mean: the smallest detectable fall."""
        return self.mean - self.tolerated

    def add(self, value: float, probability: float, at_seconds: float, season: Season) -> bool:
        """Add one sample.

        Args:
            value: The sample, in [0, 1].
            probability: Its inclusion probability; in (0, 1].
            at_seconds: Time of its answer, in seconds since the epoch.
            season: The season of the series.

        Returns:
            Whether the baseline was recomputed.
        """
        self.sums = self.sums.add(value, probability)
        step = step_of(at_seconds)
        self._latest[step] = self._latest.get(step, 0.0) + 1 / probability
        if self.sums.count < self._next:
            return False
        chance = CHANCE_OF_HARM * self._first / self._next / 2
        self._next *= 2
        self.looked_at = self.sums
        mean, ends = self.sums.mean, self.sums.interval(lowest=0, highest=1, confidence=1 - 2 * chance)
        if mean is not None and ends is not None:
            self._replace(min(mean - self._min_drop, ends[0]), season)
        return True

    def dump(self) -> dict[str, Any]:
        """Return the whole state as JSON values."""
        return {
            "sums": self.sums.numbers,
            "looked_at": self.looked_at.numbers,
            "basis": self.basis.numbers,
            "tolerated": self.tolerated,
            "times": self.times,
            "usual": self.usual,
        }

    def load(self, state: Mapping[str, Any]) -> None:
        """Restore the state that `dump` returned."""
        self.sums = WeightedSums.from_numbers(state["sums"])
        self.looked_at = WeightedSums.from_numbers(state["looked_at"])
        self.basis = WeightedSums.from_numbers(state["basis"])
        self.tolerated = float(state["tolerated"])
        self._times = tuple(map(float, state["times"]))
        self.usual = tuple(map(float, state["usual"]))
        self._next = self._first
        while self._next <= self.sums.count:
            self._next *= 2

    def _replace(self, tolerated: float, season: Season) -> None:
        times = self.times
        usual = tuple(one / times[0] for one in times)
        moved = season.between(self.usual, usual)
        least = self.tolerated + moved.offset - ERRORS_TOLERATED * moved.error if self.learned else 0.0
        if tolerated > max(least, 0.0):
            self.tolerated, self.basis, self.usual = tolerated, self.sums, usual


MOST_PARTS = 50
"""Maximum parts with their own mean; others get the mean of the whole."""

_PRIOR_COUNT = 30.0
"""Effective answers at which a part's own mean has weight 1/2."""

_KNOWN_COUNT = 60
"""Samples of the whole after which a part seen for the first time is new."""
_PROBATION = 4
"""A new part is known once the whole has grown by this factor."""


class Mix:
    """Learns the offset of each part's mean from that of the whole.

    With these offsets a test of the whole asks whether answers got worse *within* the parts: a change of the
    mix alone (more traffic of an app that was always weaker) is not a fall. This is post-stratification by
    the mix of the baseline, answer by answer. A part's offset is shrunk to 0 by n / (n + 30), n its effective
    sample size.

    The offset of a part that appears later, such as a new model, is at least 0 until the whole has four times
    the samples it had then. Otherwise a bad release would be learned as a part that was always weaker.

    Args:
        parts: Earlier `parts`.
        offsets: Earlier `offsets`.
    """

    def __init__(
        self,
        parts: Iterable[tuple[str, float, float, float, float]] = (),
        offsets: Mapping[str, float] | None = None,
    ) -> None:
        self._parts = {name: [w, wy, ww, since] for name, w, wy, ww, since in parts}
        self._offsets = dict(offsets or {})

    @property
    def offsets(self) -> Mapping[str, float]:
        """The offset of each part as of the last `refit`."""
        return self._offsets

    @property
    def parts(self) -> tuple[tuple[str, float, float, float, float], ...]:
        """For each part: name, sums of w, wy and w², and samples of the whole when it was first seen."""
        return tuple((name, w, wy, ww, since) for name, (w, wy, ww, since) in self._parts.items())

    def offset(self, part: str) -> float:
        """Return a part's offset; 0 for an unknown part."""
        return self._offsets.get(part, 0.0)

    def add(self, part: str, value: float, weight: float, *, count: int) -> None:
        """Add one sample; offsets change at the next `refit`.

        Args:
            value: In [0, 1].
            weight: The inverse of its inclusion probability.
            count: Samples of the whole so far.
        """
        sums = self._parts.get(part)
        if sums is None:
            if len(self._parts) >= MOST_PARTS:
                return
            sums = self._parts[part] = [0.0, 0.0, 0.0, float(count)]
        sums[0] += weight
        sums[1] += weight * value
        sums[2] += weight * weight

    def refit(self, count: int) -> None:
        """Recompute the offsets from all `count` samples so far."""
        total = sum(sums[0] for sums in self._parts.values())
        self._offsets = {}
        if total <= 0 or len(self._parts) < 2:
            return
        mean = sum(sums[1] for sums in self._parts.values()) / total
        for name, (w, wy, ww, since) in self._parts.items():
            effective = w * w / ww
            offset = (wy / w - mean) * effective / (effective + _PRIOR_COUNT)
            is_new = since > _KNOWN_COUNT and count < _PROBATION * since
            self._offsets[name] = max(offset, 0.0) if is_new else offset
        # Centre the offsets: shrinking moves their weighted mean away from 0.
        centre = sum(self._parts[name][0] * offset for name, offset in self._offsets.items()) / total
        self._offsets = {name: offset - centre for name, offset in self._offsets.items()}
