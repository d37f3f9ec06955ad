"""The history on the status page: about an hour, in a bounded number of points."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from streams.errors import StoreError
from streams.monitoring.series import RECENT_SAMPLES
from streams.monitoring.snapshot import MonitorSnapshot
from streams.monitoring.statistics.estimators import WeightedSums
from streams.store.database import StoreReader
from streams.store.verdicts import scores_since

STEP_SECONDS: Final = 2.0
"""Initial interval between points."""
LONGEST_STEP_SECONDS: Final = 16.0
"""Final interval between points: 256 points are 68 minutes."""
MAX_POINTS: Final = 256
MAX_LINES: Final = 12
"""Series of the whole traffic: one per metric and evaluator."""
MAX_SCORES: Final = 200_000
"""Limit on scores from the store; with more, the charts start at the worker's start."""

Line = tuple[float, float, float]
"""Mean, lower and upper bound of the latest judged answers."""
Ranges = Mapping[str, tuple[float, float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """The worker's state at one time; its lines by metric and fingerprint."""

    at: float
    events: Mapping[str, int]
    lag: int
    lines: Mapping[str, Line] = field(default_factory=dict)


def line_name(metric: str, fingerprint: str) -> str:
    """Return the name of the line of a metric and an evaluator."""
    return f"{metric} {fingerprint}"


def lines_of(snapshot: MonitorSnapshot | None) -> dict[str, Line]:
    """Return the means of the whole traffic in a monitor snapshot."""
    series = () if snapshot is None else snapshot.series
    whole = [(one, one.recent) for one in series if not one.labels and one.recent is not None]
    return {
        line_name(one.metric, one.fingerprint): _line(recent.mean, recent.low, recent.high)
        for one, recent in whole[:MAX_LINES]
    }


def _line(mean: float, low: float, high: float) -> Line:
    return round(mean, 4), round(low, 4), round(high, 4)


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

    def begin_with(self, points: list[Point]) -> None:
        """Start with points from before the start, at the longest interval."""
        if points and not self._points:
            self._points = points[-MAX_POINTS:]
            self.step_seconds = LONGEST_STEP_SECONDS

    def as_values(self) -> dict[str, Any]:
        names = list(dict.fromkeys(name for point in self._points for name in point.lines))[:MAX_LINES]
        outcomes = sorted({name for point in self._points for name in point.events})
        return {
            "step": self.step_seconds,
            "at": [round(point.at, 1) for point in self._points],
            "lag": [point.lag for point in self._points],
            "events": {name: [point.events.get(name, 0) for point in self._points] for name in outcomes},
            "lines": {name: [point.lines.get(name) for point in self._points] for name in names},
        }


def earlier_points(reader: StoreReader, ranges: Ranges, now: float) -> list[Point]:
    """Return the running means before the worker's start, oldest first; empty without a store.

    Args:
        now: Seconds since 1970.
    """
    at = now - MAX_POINTS * LONGEST_STEP_SECONDS
    try:
        with reader.snapshot() as snapshot:
            scores = scores_since(snapshot, round(at * 1000), limit=MAX_SCORES)
    except StoreError:
        return []
    latest: dict[tuple[str, str], deque[tuple[float, float]]] = {}
    points: list[Point] = []
    for judged, metric, fingerprint, score, probability in scores:
        while judged / 1000 > at + LONGEST_STEP_SECONDS:
            at += LONGEST_STEP_SECONDS
            if latest:
                points.append(Point(at=at, events={}, lag=0, lines=_running_means(latest, ranges)))
        if metric in ranges:
            samples = latest.setdefault((metric, fingerprint), deque(maxlen=RECENT_SAMPLES))
            samples.append((score, probability))
    return points


def _running_means(
    latest: Mapping[tuple[str, str], deque[tuple[float, float]]], ranges: Ranges
) -> dict[str, Line]:
    lines = {}
    for (metric, fingerprint), samples in latest.items():
        sums = WeightedSums.of(samples)
        ends = sums.interval(lowest=ranges[metric][0], highest=ranges[metric][1])
        if sums.mean is not None and ends is not None:
            lines[line_name(metric, fingerprint)] = _line(sums.mean, *ends)
    return lines
