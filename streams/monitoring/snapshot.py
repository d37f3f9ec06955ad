"""The states of all series, for the live view and as Prometheus gauges. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType
from typing import Final, Literal, Self, get_args

from schemas import Alert, Estimate
from streams.monitoring.watch import Watch
from streams.telemetry.exposition import MonitorGauge

Labels = tuple[tuple[str, str], ...]
"""The part of the traffic of a series: names and values; empty for all of it."""

IgnoredReason = Literal[
    "duplicate",  # a result with this id was already counted
    "replay",  # a replayed judgement is no live result
    "unknown_metric",  # it has no score range
    "out_of_range",  # the score is outside that range
    "series_limit",  # a label value beyond `max_series`; the whole traffic still includes it
]
StateProblem = Literal[
    "ahead",  # the saved state was ahead of the observations, which were recreated or restored
    "incomplete",  # a saved record was lost or damaged; its partition learned again
    "too_large",  # a series' record is too large to save; it learns again after a restart
]
SILENT_SECONDS: Final = 86_400
"""A series without a result for this long is not exported, and may be replaced by a new one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesSnapshot:
    """The state of one series.

    Counts are since the start; estimates over the latest hour and the latest 50 scores are None without
    data, never zero. The mean is the first measure.

    Attributes:
        expected_answers: Judged answers until a fall of the mean by 0.088 of the scale would be called; None
            if not watching.
        expected_days: The same in days, at the rate of its latest answers.
        missing_strata: Sampling rules that had answers in the past week and none in the window.
    """

    metric: str
    fingerprint: str
    model: str
    labels: Labels
    scored: int
    unscored: int
    failed: int
    window: Estimate | None
    recent: Estimate | None
    measures: tuple[Watch, ...]
    heard_at: datetime
    expected_answers: float | None
    expected_days: float | None
    missing_strata: tuple[str, ...]

    @property
    def mean(self) -> Watch:
        return self.measures[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class LastVerdict:
    """A result for the live view; its texts are safe to print, and its reason says why there is no score."""

    result_id: str
    event_id: str
    metric: str
    status: Literal["scored", "unscored", "failed"]
    score: float | None
    reason: str
    labels: Mapping[str, str]
    judged_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class MonitorSnapshot:
    """The states of all series, the whole traffic before its parts, and what came last, the latest first."""

    taken_at: datetime
    series: tuple[SeriesSnapshot, ...]
    last_verdicts: tuple[LastVerdict, ...]
    last_alerts: tuple[Alert, ...]
    ignored: Mapping[IgnoredReason, int]
    state_problems: Mapping[StateProblem, int] = field(default_factory=dict)

    @classmethod
    def merged(
        cls, parts: Sequence[MonitorSnapshot], taken_at: datetime, problems: Mapping[StateProblem, int]
    ) -> Self:
        """Merge the snapshots of several monitors with different metrics."""
        ignored: Counter[IgnoredReason] = Counter()
        for part in parts:
            ignored.update(part.ignored)
        series = [one for part in parts for one in part.series]
        verdicts = [one for part in parts for one in part.last_verdicts]
        alerts = [one for part in parts for one in part.last_alerts]
        return cls(
            taken_at=taken_at,
            series=tuple(sorted(series, key=lambda one: (one.metric, one.fingerprint, one.labels))),
            last_verdicts=tuple(sorted(verdicts, key=lambda one: one.judged_at, reverse=True)),
            last_alerts=tuple(sorted(alerts, key=lambda one: one.raised_at, reverse=True)),
            ignored=MappingProxyType(dict(ignored)),
            state_problems=dict(problems),
        )


def gauges_of(snapshot: MonitorSnapshot) -> Iterator[MonitorGauge]:
    """Return all gauges, except of series without a result for a day, which would stay dropped."""
    for series in snapshot.series:
        if (snapshot.taken_at - series.heard_at).total_seconds() > SILENT_SECONDS:
            continue
        slice_ = ",".join(f"{name}={value}" for name, value in series.labels) or "all"
        where = (series.metric, series.fingerprint, slice_)
        for watch in series.measures:
            for name, value in watch.numbers.items():
                if value is not None:
                    yield MonitorGauge(name, (*where, watch.measure.name), value)
        if series.window is not None:
            yield MonitorGauge("window_mean", where, series.window.mean)
            yield MonitorGauge("window_low", where, series.window.low)
            yield MonitorGauge("window_high", where, series.window.high)
        yield MonitorGauge("missing_strata", where, float(len(series.missing_strata)))
    for problem in get_args(StateProblem):
        yield MonitorGauge("state_problems", (problem,), float(snapshot.state_problems.get(problem, 0)))
