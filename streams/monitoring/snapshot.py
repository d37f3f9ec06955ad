"""The states of all series, for the live view."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType
from typing import Final, Literal, Self, get_args

from schemas import Alert, Estimate
from streams.monitoring.watch import SeriesState, Watch

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
    "incomplete",  # a series' saved record was lost, old or damaged; it learned again
    "too_large",  # a series' record is too large to save; it learns again after a restart
]
STATE_PROBLEMS: Final[tuple[StateProblem, ...]] = get_args(StateProblem)
_STATES: Final = {"learning": 0.0, "watching": 1.0, "dropped": 2.0}


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureSnapshot:
    """The state of one measure of a series, as `Watch` has it."""

    name: str
    state: SeriesState
    baseline: Estimate | None
    tolerated: float | None
    statistic: float
    threshold: float
    dropped_at: datetime | None

    @classmethod
    def of(cls, watch: Watch) -> Self:
        """Return the state of a watched measure."""
        return cls(
            name=watch.measure.name,
            state=watch.state,
            baseline=watch.baseline,
            tolerated=watch.tolerated,
            statistic=watch.statistic,
            threshold=watch.threshold,
            dropped_at=watch.dropped_at,
        )

    @property
    def numbers(self) -> Mapping[str, float | None]:
        """Its numbers by the names of `MONITOR_GAUGES`; None if not known."""
        return {
            "state": _STATES[self.state],
            "evidence": self.statistic,
            "threshold": self.threshold,
            "baseline": None if self.baseline is None else self.baseline.mean,
            "tolerated": self.tolerated,
        }


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
    measures: tuple[MeasureSnapshot, ...]
    heard_at: datetime
    expected_answers: float | None
    expected_days: float | None
    missing_strata: tuple[str, ...]

    @property
    def mean(self) -> MeasureSnapshot:
        """The mean, which every series has."""
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
    def merged(cls, parts: Sequence[MonitorSnapshot], taken_at: datetime) -> Self:
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
        )
