"""Daily and weekly variation of the baseline mean. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from itertools import product
from math import cos, exp, log, pi, sin, sqrt

_DAY_SECONDS = 86_400.0
_WEEK_SECONDS = 7 * _DAY_SECONDS
_HOUR_SECONDS = 3_600
_STEP_SECONDS = 900
"""Resolution of predictions: a quarter of an hour."""

_PERIODS = tuple(whole / k for whole in (_DAY_SECONDS, _WEEK_SECONDS) for k in (1, 2, 3))
_DEVIATIONS = (0.03, 0.015, 0.01, 0.008, 0.005, 0.003)
"""Prior standard deviation of each wave's sine and cosine coefficients, on the scale [0, 1]."""
_SIZE = 1 + 2 * len(_PERIODS)
_DAILY = range(1, 7)
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
    scaled = [
        deviation * (daily if 2 * number + 1 in _DAILY else weekly)
        for number, deviation in enumerate(_DEVIATIONS)
    ]
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
