"""The history on the status page: about an hour, in a bounded number of points."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from streams.monitoring.snapshot import MonitorSnapshot

STEP_SECONDS: Final = 2.0
"""Initial interval between points."""
LONGEST_STEP_SECONDS: Final = 16.0
"""Final interval between points: 256 points are 68 minutes."""
MAX_POINTS: Final = 256
MAX_LINES: Final = 12
"""Series of the whole traffic: one per metric and evaluator."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """The worker's state at one time.

    Attributes:
        lines: Mean, lower and upper bound of the latest judged answers, by metric and fingerprint.
    """

    at: float
    events: Mapping[str, int]
    lag: int
    lines: Mapping[str, tuple[float, float, float]] = field(default_factory=dict)


def line_name(metric: str, fingerprint: str) -> str:
    """Return the name of the line of a metric and an evaluator."""
    return f"{metric} {fingerprint}"


def lines_of(snapshot: MonitorSnapshot | None) -> dict[str, tuple[float, float, float]]:
    """Return the means of the whole traffic in a monitor snapshot."""
    if snapshot is None:
        return {}
    whole = [one for one in snapshot.series if not one.labels and one.recent is not None]
    return {
        line_name(one.metric, one.fingerprint): (
            round(one.recent.mean, 4),
            round(one.recent.low, 4),
            round(one.recent.high, 4),
        )
        for one in whole[:MAX_LINES]
        if one.recent is not None
    }


class History:
    """Points at equal intervals.

    If it is full, half of the points are dropped and the interval doubles, up to the longest interval; then
    the oldest point is dropped.
    """

    def __init__(self) -> None:
        self._points: list[Point] = []
        self.step_seconds = STEP_SECONDS

    def add(self, point: Point) -> None:
        """Add a point, unless the interval has not passed."""
        if self._points and point.at - self._points[-1].at < self.step_seconds * 0.9:
            return
        self._points.append(point)
        if len(self._points) <= MAX_POINTS:
            return
        if self.step_seconds < LONGEST_STEP_SECONDS:
            self._points = self._points[::-2][::-1]
            self.step_seconds *= 2
        else:
            del self._points[0]

    def begin_with(self, points: Sequence[Point]) -> None:
        """Start with points from before the start, at the longest interval."""
        if points and not self._points:
            self._points = list(points[-MAX_POINTS:])
            self.step_seconds = LONGEST_STEP_SECONDS

    def as_values(self) -> dict[str, Any]:
        """Return the history as plain values, one list per line."""
        names = list(dict.fromkeys(name for point in self._points for name in point.lines))[:MAX_LINES]
        outcomes = sorted({name for point in self._points for name in point.events})
        return {
            "step": self.step_seconds,
            "at": [round(point.at, 1) for point in self._points],
            "lag": [point.lag for point in self._points],
            "events": {name: [point.events.get(name, 0) for point in self._points] for name in outcomes},
            "lines": {name: [point.lines.get(name) for point in self._points] for name in names},
        }
