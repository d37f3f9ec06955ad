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
    """The state of one measure of a series.

    Attributes:
        name: "mean", "mix", or a share such as "share_at_most_2".
        state: learning, watching or dropped.
        baseline: The baseline; None while learning.
        tolerated: The worst tolerated level, in the measure's units; None while learning.
        statistic: Evidence for a drop; while dropped, the evidence at the alert.
        threshold: Value of the statistic at which a drop is reported.
        dropped_at: Estimated start of the drop; None unless dropped.
    """

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

    Estimates are None without data, never zero.

    Attributes:
        metric: The metric.
        fingerprint: The evaluator's.
        model: The judge model.
        labels: The part of the traffic; empty for all of it.
        scored: Results with a number since the start.
        unscored: Results without one, because there was nothing to judge.
        failed: Results without one, because judging failed.
        overall: The estimate over all scores since the start.
        window: The estimate over the answers of the latest hour.
        recent: The estimate over the latest 50 scores.
        measures: Its measures, the mean first.
        heard_at: Time of its latest result.
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
    overall: Estimate | None
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
    """A result for the live view.

    Attributes:
        result_id: The result.
        event_id: The answer's event.
        metric: The metric.
        status: The result's status.
        score: None unless scored.
        reason: The first words of the verdict's reason, or why there is no score; safe to print.
        labels: The event's labels.
        judged_at: When it was judged.
    """

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
    """The states of all series, with the latest verdicts and alerts.

    Attributes:
        taken_at: Time of the snapshot.
        series: By metric, fingerprint and labels; the whole traffic before its parts.
        last_verdicts: The latest first.
        last_alerts: The latest first.
        ignored: Number of ignored results by reason.
        state_problems: Problems of the saved state since the start.
    """

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
