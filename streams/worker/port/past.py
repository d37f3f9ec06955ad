"""Read the hour before the worker's start from the verdict store, for the charts of its page."""

from __future__ import annotations

from collections import deque

from streams.errors import StoreError
from streams.monitoring.series import RECENT_SAMPLES
from streams.monitoring.statistics.estimators import WeightedSums
from streams.store.database import Reader
from streams.store.verdicts import scores_since
from streams.worker.port.history import LONGEST_STEP_SECONDS, MAX_POINTS, Point, line_name

MAX_SCORES = 200_000
"""Limit on scores; with more, the charts start at the worker's start."""


def earlier_points(reader: Reader, ranges: dict[str, tuple[float, float]], now: float) -> list[Point]:
    """Return the running mean of the judged answers, oldest first; empty without a store.

    Args:
        now: Seconds since 1970.
    """
    begin = now - MAX_POINTS * LONGEST_STEP_SECONDS
    try:
        with reader.snapshot() as snapshot:
            scores = scores_since(snapshot, round(begin * 1000), limit=MAX_SCORES)
    except StoreError:
        return []
    latest: dict[tuple[str, str], deque[tuple[float, float]]] = {}
    points: list[Point] = []
    at = begin
    for judged, metric, fingerprint, score, probability in scores:
        while judged / 1000 > at + LONGEST_STEP_SECONDS:
            at += LONGEST_STEP_SECONDS
            if latest:
                points.append(Point(at=at, events={}, lag=0, lines=_lines(latest, ranges)))
        if metric in ranges:
            latest.setdefault((metric, fingerprint), deque(maxlen=RECENT_SAMPLES)).append(
                (score, probability)
            )
    return points


def _lines(
    latest: dict[tuple[str, str], deque[tuple[float, float]]], ranges: dict[str, tuple[float, float]]
) -> dict[str, tuple[float, float, float]]:
    lines = {}
    for (metric, fingerprint), samples in latest.items():
        sums = WeightedSums.of(samples)
        ends = sums.interval(lowest=ranges[metric][0], highest=ranges[metric][1])
        if sums.mean is not None and ends is not None:
            lines[line_name(metric, fingerprint)] = (
                round(sums.mean, 4),
                round(ends[0], 4),
                round(ends[1], 4),
            )
    return lines
