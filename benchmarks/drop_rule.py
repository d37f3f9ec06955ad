"""The drop alerts of helm/files/alerts.yaml in plain Python: same windows, same formulas, same limits.

A test runs both over one scenario. Scores come as sums a bin; all positions are bins, and a full hour of the clock is a
multiple of `bins_an_hour`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import sqrt
from typing import Final

Sums = tuple[float, float, float, float, float]
"""Sums of w, wx, w^2, w^2 x and w^2 x^2; w is 1 / inclusion probability, x the score."""

WEEK_HOURS: Final = 168
GAP_HOURS: Final = 6
"""The baseline leaves out the last hours, which are what is compared with it."""
FEWEST_BASELINE: Final = 50
"""Effective answers below which an app has no baseline."""
LEAST_VARIANCE: Final = 0.25
EVERYDAY_WANDER: Final = 0.05
"""Points that a mean moves without a reason and without sampling explaining it; a standard deviation."""
FEWEST_ANSWERS: Final = 30


@dataclass(frozen=True, slots=True)
class Limits:
    """What a drop must reach.

    Args:
        hour: Points, over the last hour.
        six_hours: Points, over the last six hours.
        z: Standard errors, over either.
    """

    hour: float
    six_hours: float
    z: float


WHOLE: Final = Limits(hour=0.3, six_hours=0.2, z=4)
"""Of all traffic."""
PART: Final = Limits(hour=0.4, six_hours=0.3, z=4.5)
"""Of one label value."""


@dataclass(frozen=True, slots=True)
class Baseline:
    """An app's past week: mean, variance of one effective answer, effective sample size."""

    mean: float
    variance: float
    count: float


@dataclass(frozen=True, slots=True)
class Drop:
    """How far a window is below its baseline, app by app: points, their standard error, effective sample size."""

    points: float
    standard_error: float
    count: float

    @property
    def z(self) -> float:
        """Points in units of their error, everyday wander included."""
        return self.points / sqrt(self.standard_error**2 + EVERYDAY_WANDER**2)

    def significant(self, points: float, z: float) -> bool:
        """Whether it is large and sure enough."""
        return self.points >= points and self.z >= z and self.count >= FEWEST_ANSWERS


class AppHistory:
    """The scores of one app.

    Args:
        bins: Sums of each bin, from the first on.
        bins_an_hour: How many bins make an hour.
    """

    def __init__(self, bins: Iterable[Sums], bins_an_hour: int) -> None:
        self._totals = list(accumulate(bins, _add, initial=(0.0, 0.0, 0.0, 0.0, 0.0)))
        self._bins_an_hour = bins_an_hour
        self._baseline: tuple[int, Baseline | None] = (-1, None)

    def window(self, end: int, hours: int) -> Sums:
        """The sums of the hours before bin `end`."""
        return self._between(end - hours * self._bins_an_hour, end)

    def baseline(self, end: int) -> Baseline | None:
        """The past week as seen at bin `end`: full hours of the clock; None where there is too little."""
        hour = max(end // self._bins_an_hour - GAP_HOURS, 0)
        if self._baseline[0] != hour:
            self._baseline = (hour, self._learn(hour))
        return self._baseline[1]

    def _learn(self, hour: int) -> Baseline | None:
        last = hour * self._bins_an_hour
        w, w_x, w2, w2_x, w2_x2 = self._between(last - WEEK_HOURS * self._bins_an_hour, last)
        if w2 <= 0 or w * w / w2 < FEWEST_BASELINE:
            return None
        mean = w_x / w
        return Baseline(
            mean, max((w2_x2 - 2 * mean * w2_x + mean * mean * w2) / w2, LEAST_VARIANCE), w * w / w2
        )

    def _between(self, start: int, end: int) -> Sums:
        a, b = self._totals[max(start, 0)], self._totals[max(end, 0)]
        return b[0] - a[0], b[1] - a[1], b[2] - a[2], b[3] - a[3], b[4] - a[4]


def drop(apps: Sequence[AppHistory], end: int, hours: int) -> Drop | None:
    """Compare the hours before bin `end` with the past week, app by app, in the mix of now.

    Returns:
        The drop (below 0: a rise), or None where no app has both answers and a baseline.
    """
    total = points = variance = squares = 0.0
    for app in apps:
        w, w_x, w2, _, _ = app.window(end, hours)
        base = app.baseline(end) if w > 0 else None
        if base is None:
            continue
        total += w
        squares += w2
        points += w * (base.mean - w_x / w)
        variance += w * w * base.variance * (w2 / (w * w) + 1 / base.count)
    if total <= 0:
        return None
    return Drop(points / total, sqrt(variance) / total, total * total / squares)


def condition(apps: Sequence[AppHistory], end: int, limits: Limits) -> bool:
    """Whether the alert's expression holds at bin `end`."""
    hour = drop(apps, end, 1)
    if hour is not None and hour.significant(limits.hour, limits.z):
        return True
    if hour is not None and hour.points < limits.six_hours / 2:
        return False
    six = drop(apps, end, 6)
    return six is not None and six.significant(limits.six_hours, limits.z)


def _add(a: Sums, b: Sums) -> Sums:
    return a[0] + b[0], a[1] + b[1], a[2] + b[2], a[3] + b[3], a[4] + b[4]
