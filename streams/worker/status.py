"""The data of the status page: the state of one worker as plain values, with its history."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from math import inf
from typing import TYPE_CHECKING, Any, Final

from prometheus_client.metrics_core import Metric as MetricFamily

from judge.text.printable import reason_of
from schemas import Alert, Result, Scored
from streams.monitoring.monitor import MonitorSnapshot
from streams.monitoring.series import Series
from streams.store.views.incidents import group, summary_of

if TYPE_CHECKING:
    from streams.worker.worker import Worker

STEP_SECONDS: Final = 2.0
"""Initial interval between points of the history."""
LONGEST_STEP_SECONDS: Final = 16.0
"""Final interval between points: 256 points are 68 minutes."""
MAX_POINTS: Final = 256
MAX_LINES: Final = 12
"""Series of the whole traffic: one per metric and evaluator."""

SHOWN_VERDICTS: Final = 20
SHOWN_ALERTS: Final = 6
_COUNTED: Final = {
    "judgestream_results_total": ("metric", "status"),
    "judgestream_scores_total": ("metric", "score"),
    "judgestream_dead_letters_total": ("reason",),
    "judgestream_verdict_corrections_total": ("kind",),
    "judgestream_verdict_suspicions_total": ("kind",),
    "judgestream_judge_call_seconds_count": ("endpoint", "model", "outcome"),
    "judgestream_judge_call_seconds_sum": ("endpoint", "model"),
    "judgestream_judge_call_seconds_bucket": ("endpoint", "model", "le"),
    "judgestream_judge_tokens_total": ("endpoint", "model", "kind"),
    "judgestream_judge_cost_usd_total": ("endpoint", "model"),
}
"""The samples that the page totals, and the labels by which it does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """The worker's state at one time; its lines by metric and fingerprint: mean, lower and upper bound."""

    at: float
    events: Mapping[str, int]
    lag: int
    lines: Mapping[str, tuple[float, float, float]] = field(default_factory=dict)


class History:
    """Points at equal intervals. When full, the interval doubles, up to a limit; then the oldest goes."""

    def __init__(self) -> None:
        self._points: list[Point] = []
        self.step_seconds = STEP_SECONDS

    def add(self, point: Point) -> None:
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


class Status:
    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._history = History()
        self._started_at = time.monotonic()

    def values(self) -> dict[str, Any]:
        worker, budget = self._worker, self._worker.spending
        partitions, ready = worker.partitions(), worker.health.ready()
        lag: Counter[str] = Counter()
        for state in partitions:
            lag[state.topic] += state.lag_records or 0
        return {
            "group_id": worker.group_id,
            "agents": list(worker.agents),
            "running_seconds": round(time.monotonic() - self._started_at, 1),
            "ready": ready.ok,
            "reasons": list(ready.reasons),
            "notes": list(ready.notes),
            "events": self._events(),
            "lag_records": dict(sorted(lag.items())),
            "unfinished": sum(state.unfinished for state in partitions),
            **_monitored(worker.snapshot()),
            "ranges": {name: list(metric.score_range) for name, metric in worker.judged_by.items()},
            "history": self._history.as_values(),
            **totals_of(worker.metrics.registry.collect()),
            "judge": {
                "trouble": worker.judge_trouble,
                "deferred": budget.deferring,
                "endpoints": [asdict(one) for one in worker.endpoints],
                # JSON has null for infinity.
                "budget": [
                    {"cap": cap, "spent": budget.spent_ratio(cap), "left_seconds": budget.left_seconds(cap)}
                    for cap in budget.caps
                ],
                "rates": {} if worker.rates is None else {n: worker.rates.rate(n) for n in worker.rates.most},
            },
        }

    def _events(self) -> dict[str, int]:
        outcomes: Counter[str] = Counter()
        for (outcome, _), count in self._worker.metrics.event_counts().items():
            outcomes[outcome] += count
        return dict(outcomes)

    async def remember(self) -> None:
        while True:
            lag = sum(state.lag_records or 0 for state in self._worker.partitions())
            series = self._worker.snapshot().series
            whole = [(one.key, recent) for one in series if not one.key.labels and (recent := one.recent)]
            lines = {
                f"{key.metric} {key.fingerprint}": (round(one.mean, 4), round(one.low, 4), round(one.high, 4))
                for key, one in whole[:MAX_LINES]
            }
            self._history.add(Point(at=time.time(), events=self._events(), lag=lag, lines=lines))
            await asyncio.sleep(self._history.step_seconds)


def _monitored(monitor: MonitorSnapshot) -> dict[str, Any]:
    from streams.store.views.report import card  # noqa: PLC0415 - only who looks at the page needs it

    alerts = monitor.last_alerts
    # Alerts of the whole traffic come before those of parts, incidents latest first.
    foremost = sorted(alerts, key=lambda one: bool(one.labels))[:SHOWN_ALERTS]
    return {
        "series": [_series(one, monitor.taken_at) for one in monitor.series],
        "verdicts": [_verdict(one) for one in monitor.last_results[:SHOWN_VERDICTS]],
        "incidents": [summary_of(one) | {"card": list(card(one))} for one in reversed(group(alerts))],
        "alerts": [_alert(one) for one in foremost],
        "alerts_left_out": max(len(alerts) - SHOWN_ALERTS, 0),
    }


def _series(one: Series, now: datetime) -> dict[str, Any]:
    baseline, recent, window = one.mean.baseline, one.recent, one.window(now)
    return {
        "metric": one.key.metric,
        "labels": dict(one.key.labels),
        "model": one.model,
        "fingerprint": one.key.fingerprint,
        "line": f"{one.key.metric} {one.key.fingerprint}",
        "state": one.mean.state,
        "baseline": None if baseline is None else baseline.mean,
        "recent": None if recent is None else recent.mean,
        "recent_low": None if recent is None else recent.low,
        "recent_high": None if recent is None else recent.high,
        "expected_answers": one.mean.expected_answers,
        "expected_days": one.expected_days,
        **{status: one.statuses[status] for status in ("scored", "unscored", "failed")},
        "mean": None if window is None else window.mean,
        "low": None if window is None else window.low,
        "high": None if window is None else window.high,
    }


def _alert(one: Alert) -> dict[str, Any]:
    said = {"summary": one.summary if one.word is None else f"{one.summary}; {one.word.text}"}
    names = {"alert_id", "kind", "metric", "labels"}
    return one.model_dump(include=names) | said | {"raised_at": one.raised_at.isoformat()}


def _verdict(one: Result) -> dict[str, Any]:
    judged_at = one.times.judged_at
    return one.model_dump(include={"result_id", "event_id", "metric", "status", "labels"}) | {
        "score": one.amount if isinstance(one, Scored) else None,
        "reason": reason_of(one),
        "at": round(judged_at.timestamp() * 1000),
        "judged_at": judged_at.isoformat(),
    }


def totals_of(families: Iterable[MetricFamily]) -> dict[str, Any]:
    counted: dict[str, Counter[tuple[str, ...]]] = defaultdict(Counter)
    for family in families:
        for sample in family.samples:
            if (labels := _COUNTED.get(sample.name)) is not None:
                counted[sample.name][tuple(sample.labels[name] for name in labels)] += sample.value  # type: ignore[assignment]  # costs are no whole numbers
    judges = {key[:2] for name, counts in counted.items() if "_judge_" in name for key in counts}
    return {
        "results": _nested(counted["judgestream_results_total"]),
        "scores": _nested(counted["judgestream_scores_total"]),
        "dead_letters": _below(counted["judgestream_dead_letters_total"]),
        "corrections": _below(counted["judgestream_verdict_corrections_total"]),
        "suspicions": _below(counted["judgestream_verdict_suspicions_total"]),
        "judges": [_judge_totals(one, counted) for one in sorted(judges)],
    }


def _nested(counts: Mapping[tuple[str, ...], float]) -> dict[str, dict[str, int]]:
    return {name: _below(counts, name) for name in sorted({key[0] for key in counts})}


def _below(counts: Mapping[tuple[str, ...], float], *above: str) -> dict[str, int]:
    """Return the counts by their last label, where the labels before it are these."""
    return {key[-1]: int(count) for key, count in counts.items() if key[:-1] == above}


def _judge_totals(
    judge: tuple[str, ...], counted: Mapping[str, Mapping[tuple[str, ...], float]]
) -> dict[str, Any]:
    prefix = "judgestream_judge_"
    outcomes = _below(counted[f"{prefix}call_seconds_count"], *judge)
    buckets = _below(counted[f"{prefix}call_seconds_bucket"], *judge)
    calls = sum(outcomes.values())
    bounds = sorted(float(bound) for bound, count in buckets.items() if calls and count >= 0.95 * calls)
    return {
        "endpoint": judge[0],
        "model": judge[1],
        "calls": calls,
        "failed": calls - outcomes.get("scored", 0) - outcomes.get("unscored", 0),
        "mean_seconds": counted[f"{prefix}call_seconds_sum"][judge] / calls if calls else None,
        "p95_below_seconds": bounds[0] if bounds and bounds[0] != inf else None,
        "tokens": _below(counted[f"{prefix}tokens_total"], *judge),
        "cost_usd": counted[f"{prefix}cost_usd_total"].get(judge),
    }
