"""The baseline of a series: refined with every doubling, with daily and weekly swings and parts. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from itertools import product
from math import cos, exp, log, pi, sin, sqrt

from streams.monitoring.statistics.estimators import WeightedSums

_DAY_SECONDS = 86_400.0
_WEEK_SECONDS = 7 * _DAY_SECONDS
_HOUR_SECONDS = 3_600
_STEP_SECONDS = 900
"""Resolution of predictions: a quarter of an hour."""
_PERIODS = tuple(whole / k for whole in (_DAY_SECONDS, _WEEK_SECONDS) for k in (1, 2, 3))
_DEVIATIONS = (0.03, 0.015, 0.01, 0.008, 0.005, 0.003)
"""Prior standard deviation of each wave's sine and cosine coefficients, on the scale [0, 1]."""
_SIZE = 1 + 2 * len(_PERIODS)
_DAILY_SCALES = ((0.1, 0.5), (0.6, 0.3), (1.5, 0.2))
_WEEKLY_SCALES = ((0.1, 0.6), (0.6, 0.4))
"""Scales of the swings (nearly none, moderate, strong) with their prior probabilities.
A strong weekly swing would explain any drop of the first week."""
_WANDER = 0.0075
"""Random deviation of an hour's mean; limits the weight of a busy hour."""
_KEPT_AN_HOUR = 0.5 ** (1 / (24 * 7 * 8))
"""Half-life of past data: eight weeks."""
_LEAST_VARIANCE = 0.0025
_FIRST_VARIANCE = (0.5, 10.0)
"""Prior sum of squares and count: a variance of 0.05.
An hour's own variance would be 0 for equal scores, which would make its mean seem exact."""
_LEAST_CHANCE = 0.001

Waves = tuple[float, ...]
"""1, and sine and cosine of each wave at a time, or their mean over some traffic."""
EVEN: Waves = (1.0, *[0.0] * (_SIZE - 1))
"""The mean waves of traffic that is spread evenly over the week."""


@dataclass(frozen=True, slots=True)
class Swing:
    """The offset of a time's mean from that of some traffic; the error is large for an hour without data."""

    offset: float
    error: float


@dataclass
class Season:
    """Learns a daily and a weekly swing of the mean, and predicts it with its error.

    A ridge regression of the hourly means on sines and cosines (three of the day, three of the week): with
    m_h the mean of hour h from n_h effective samples of variance v (within hours, over all of them), and φ_h
    its sines and cosines, the precision of m_h is 1 / (v / n_h + 0.0075²), and each coefficient has prior
    mean 0 and the standard deviation in `_DEVIATIONS`. Source: Hoerl and Kennard, "Ridge regression"
    (Technometrics, 1970), in its Bayesian reading.

    An hour is used once it is over, so a prediction depends on the past. It is relative to the mean of some
    traffic, given by the mean of its waves (`waves`): that of the first morning differs from that of a week.
    """

    precision: list[list[float]] = field(default_factory=lambda: [[0.0] * _SIZE for _ in range(_SIZE)])
    weighted: list[float] = field(default_factory=lambda: [0.0] * _SIZE)
    hour: int | None = None
    open: list[float] = field(default_factory=lambda: [0.0] * 4)
    """Of the current hour, the sums of w, wy, wy², w²."""
    squares: list[float] = field(default_factory=lambda: [*_FIRST_VARIANCE])
    """Within hours, the sum of squared deviations, and of effective samples."""

    def __post_init__(self) -> None:
        self._swings: dict[tuple[int, int], tuple[Waves, Swing]] = {}
        self._models: list[tuple[float, list[float], list[list[float]]]] = []

    def add(self, at_seconds: float, value: float, weight: float) -> None:
        """Add one sample in [0, 1], with the inverse of its inclusion probability."""
        hour = int(at_seconds // _HOUR_SECONDS)
        if self.hour is None:
            self.hour = hour
        elif hour > self.hour:
            self._close(self.hour, hour)
            self.hour = hour
        w, wy, wyy, ww = self.open
        self.open = [w + weight, wy + weight * value, wyy + weight * value * value, ww + weight * weight]

    def forget_open_hour(self) -> None:
        """Discard the current hour's samples, because they belong to a fall."""
        self.open = [0.0] * 4

    def swing(self, at_seconds: float, usual: Waves) -> Swing:
        """Predict the offset of a time's mean from that of traffic with these mean waves."""
        key = step_of(at_seconds), id(usual)
        known = self._swings.get(key)
        if known is None or known[0] is not usual:
            known = self._swings[key] = usual, self.between(usual, waves(key[0]))
        return known[1]

    def between(self, usual: Waves, other: Waves) -> Swing:
        if not self._models:
            self._fit()
        # The intercept cancels.
        away = [one - base for one, base in zip(other, usual, strict=True)]
        offset = square = 0.0
        for chance, theta, covariance in self._models:
            one = sum(a * b for a, b in zip(away, theta, strict=True))
            spread = sum(
                a * sum(b * c for b, c in zip(row, away, strict=True))
                for a, row in zip(away, covariance, strict=True)
            )
            offset += chance * one
            square += chance * (spread + one * one)
        return Swing(offset, sqrt(max(square - offset * offset, 0.0)))

    def _close(self, hour: int, following: int) -> None:
        w, wy, wyy, ww = self.open
        self.open = [0.0] * 4
        if w <= 0:
            return
        keep = _KEPT_AN_HOUR ** min(following - hour, 10_000)
        mean, count = wy / w, w * w / ww
        self.squares = [
            self.squares[0] * keep + count * max(wyy / w - mean * mean, 0.0),
            self.squares[1] * keep + max(count - 1, 0.0),
        ]
        variance = max(self.squares[0] / self.squares[1], _LEAST_VARIANCE)
        information = 1 / (variance / count + _WANDER * _WANDER)
        middle = waves(hour * (_HOUR_SECONDS // _STEP_SECONDS) + 2)
        for i, one in enumerate(middle):
            row = self.precision[i]
            for j, other in enumerate(middle):
                row[j] = row[j] * keep + information * one * other
            self.weighted[i] = self.weighted[i] * keep + information * mean * one
        self._swings, self._models = {}, []

    def _fit(self) -> None:
        """Fit every scale, and weigh it by its evidence, exp(b·θ / 2) sqrt(|prior| / |prior + precision|)."""
        fits = []
        for (daily, chance), (weekly, other_chance) in product(_DAILY_SCALES, _WEEKLY_SCALES):
            prior = _prior(daily, weekly)
            covariance, log_determinant = _inverse(
                [
                    [value + (prior[i] if i == j else 0.0) for j, value in enumerate(row)]
                    for i, row in enumerate(self.precision)
                ]
            )
            theta = [sum(a * b for a, b in zip(row, self.weighted, strict=True)) for row in covariance]
            explained = sum(a * b for a, b in zip(theta, self.weighted, strict=True))
            evidence = log(chance * other_chance) + (explained + sum(map(log, prior)) - log_determinant) / 2
            fits.append((evidence, theta, covariance))
        best = max(evidence for evidence, _, _ in fits)
        chances = [exp(evidence - best) for evidence, _, _ in fits]
        total = sum(chances)
        self._models = [
            (chance / total, theta, covariance)
            for chance, (_, theta, covariance) in zip(chances, fits, strict=True)
            if chance / total > _LEAST_CHANCE
        ]


def step_of(at_seconds: float) -> int:
    """Return the number of a time's quarter of an hour in the week."""
    return int(at_seconds % _WEEK_SECONDS // _STEP_SECONDS)


@lru_cache(maxsize=16)
def _prior(daily: float, weekly: float) -> tuple[float, ...]:
    """Return the prior precision of each coefficient; 1 for the intercept, which is uninformative."""
    scaled = [deviation * (daily if number < 3 else weekly) for number, deviation in enumerate(_DEVIATIONS)]
    return (1.0, *(1 / deviation**2 for deviation in scaled for _ in range(2)))


@lru_cache(maxsize=1024)
def waves(step: int) -> Waves:
    """Return the intercept, and sine and cosine of each wave, at the middle of a step."""
    seconds = (step + 0.5) * _STEP_SECONDS
    angles = [2 * pi * seconds / period for period in _PERIODS]
    return (1.0, *(number for angle in angles for number in (cos(angle), sin(angle))))


def _inverse(matrix: list[list[float]]) -> tuple[list[list[float]], float]:
    """Invert a symmetric positive definite matrix, without pivoting; also its determinant's logarithm."""
    rows = matrix
    log_determinant = 0.0
    for k in range(len(rows)):
        pivot = rows[k][k]
        log_determinant += log(pivot)
        lead = rows[k] = [value / pivot for value in rows[k]]
        lead[k] = 1 / pivot
        for i, row in enumerate(rows):
            if i != k:
                factor = row[k]
                row[k] = 0.0
                rows[i] = [a - factor * b for a, b in zip(row, lead, strict=True)]
    return rows, log_determinant


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
