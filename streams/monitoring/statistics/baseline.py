"""The baseline of a series, refined with every doubling, and the offsets of its parts. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field

from streams.monitoring.statistics.estimators import WeightedSums
from streams.monitoring.statistics.season import EVEN, Season, Waves, step_of, waves

ERRORS_TOLERATED = 2.6
"""Tolerated standard errors of the season's prediction; one-sided 0.5%."""

NONE = WeightedSums()

CHANCE_OF_HARM = 0.005
"""Probability that the tolerated mean ever exceeds the true one; the first look spends half of it."""


@dataclass
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
    """

    first: int = 60
    min_drop: float = 0.02
    sums: WeightedSums = NONE
    looked_at: WeightedSums = NONE
    """The sums at the latest look."""
    basis: WeightedSums = NONE
    """The sums at the look that set m."""
    tolerated: float = 0.0
    """m; 0 before it is learned."""
    usual: Waves = EVEN
    """Mean waves of the samples that set m."""
    _times: Waves = (0.0,) * len(EVEN)
    _latest: dict[int, float] = field(default_factory=dict)  # the weight by step, not in the times yet

    def __post_init__(self) -> None:
        self.configure(self.first, self.min_drop)

    def configure(self, first: int, min_drop: float) -> None:
        """Set the samples of the first look, at least 10, and the smallest relevant fall, above 0."""
        self.first = self._next = first
        self.min_drop = min_drop
        while self._next <= self.sums.count:
            self._next *= 2

    @property
    def times(self) -> Waves:
        for step, weight in self._latest.items():
            self._times = tuple(
                one + weight * other for one, other in zip(self._times, waves(step), strict=True)
            )
        self._latest.clear()
        return self._times

    @property
    def learned(self) -> bool:
        return self.tolerated > 0

    @property
    def mean(self) -> float:
        return self.basis.mean or 0.0

    @property
    def margin(self) -> float:
        """The smallest detectable fall."""
        return self.mean - self.tolerated

    def add(self, value: float, probability: float, at_seconds: float, season: Season) -> bool:
        """Add a sample in [0, 1], at a time since the epoch; return whether this was a look."""
        self.sums = self.sums.add(value, probability)
        step = step_of(at_seconds)
        self._latest[step] = self._latest.get(step, 0.0) + 1 / probability
        if self.sums.count < self._next:
            return False
        chance = CHANCE_OF_HARM * self.first / self._next / 2
        self._next *= 2
        self.looked_at = self.sums
        mean, ends = self.sums.mean, self.sums.interval(lowest=0, highest=1, confidence=1 - 2 * chance)
        if mean is not None and ends is not None:
            self._replace(min(mean - self.min_drop, ends[0]), season)
        return True

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


@dataclass(slots=True)
class Mix:
    """Learns the offset of each part's mean from that of the whole.

    With these offsets a test of the whole asks whether answers got worse *within* the parts: a change of the
    mix alone (more traffic of an app that was always weaker) is not a fall. This is post-stratification by
    the mix of the baseline, answer by answer. A part's offset is shrunk to 0 by n / (n + 30), n its effective
    sample size.

    The offset of a part that appears later, such as a new model, is at least 0 until the whole has four times
    the samples it had then. Otherwise a bad release would be learned as a part that was always weaker.
    """

    parts: dict[str, list[float]] = field(default_factory=dict)
    """For each part the sums of w, wy and w², and samples of the whole when it was first seen."""
    offsets: dict[str, float] = field(default_factory=dict)

    def offset(self, part: str) -> float:
        return self.offsets.get(part, 0.0)

    def add(self, part: str, value: float, weight: float, *, count: int) -> None:
        """Add one sample of the `count` so far; offsets change at the next `refit`."""
        sums = self.parts.get(part)
        if sums is None:
            if len(self.parts) >= MOST_PARTS:
                return
            sums = self.parts[part] = [0.0, 0.0, 0.0, float(count)]
        sums[0] += weight
        sums[1] += weight * value
        sums[2] += weight * weight

    def refit(self, count: int) -> None:
        total = sum(sums[0] for sums in self.parts.values())
        self.offsets = {}
        if total <= 0 or len(self.parts) < 2:
            return
        mean = sum(sums[1] for sums in self.parts.values()) / total
        for name, (w, wy, ww, since) in self.parts.items():
            effective = w * w / ww
            offset = (wy / w - mean) * effective / (effective + _PRIOR_COUNT)
            is_new = since > _KNOWN_COUNT and count < _PROBATION * since
            self.offsets[name] = max(offset, 0.0) if is_new else offset
        # Centre the offsets: shrinking moves their weighted mean away from 0.
        centre = sum(self.parts[name][0] * offset for name, offset in self.offsets.items()) / total
        self.offsets = {name: offset - centre for name, offset in self.offsets.items()}
