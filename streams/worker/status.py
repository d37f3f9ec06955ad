"""The data of the status page: the state of one worker as plain values, with its history."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from math import inf, isfinite
from typing import Any, Final

from prometheus_client.metrics_core import Metric as MetricFamily

from schemas import Alert
from streams.kafka.topics.table import AgentName
from streams.monitoring.snapshot import LastVerdict, MonitorSnapshot, SeriesSnapshot
from streams.settings import Settings
from streams.store.database import StoreReader
from streams.store.views.incidents import group, summary_of
from streams.store.views.report import card
from streams.telemetry.exposition import PartitionState
from streams.telemetry.instruments import Metrics
from streams.worker.health import Health
from streams.worker.history import History, Point, Ranges, earlier_points, line_name, lines_of

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


@dataclass(slots=True, kw_only=True)
class Status:
    """Collects the data of the status page."""

    settings: Settings
    group_id: str
    agents: tuple[AgentName, ...]
    metrics: Metrics
    health: Health
    ranges: Ranges
    partitions: Callable[[], Sequence[PartitionState]]
    monitor: Callable[[], MonitorSnapshot | None]
    """Returns a snapshot of the monitor; None without one."""
    _history: History = field(default_factory=History)
    _started_at: float = field(default_factory=time.monotonic)

    def values(self) -> dict[str, Any]:
        partitions, health, ready = self.partitions(), self.health, self.health.ready()
        lag: Counter[str] = Counter()
        for state in partitions:
            lag[state.topic] += state.lag_records or 0
        return {
            "group_id": self.group_id,
            "agents": list(self.agents),
            "running_seconds": round(time.monotonic() - self._started_at, 1),
            "ready": ready.ok,
            "reasons": list(ready.reasons),
            "notes": list(ready.notes),
            "events": self._events(),
            "lag_records": dict(sorted(lag.items())),
            "unfinished": sum(state.unfinished for state in partitions),
            **_monitored(self.monitor()),
            "ranges": {name: list(ends) for name, ends in self.ranges.items()},
            "history": self._history.as_values(),
            **totals_of(self.metrics.registry.collect()),
            "judge": {
                "trouble": health.judge_trouble(),
                "deferred": health.deferred(),
                "endpoints": [asdict(one) for one in health.endpoints()],
            },
        }

    def _events(self) -> dict[str, int]:
        """Return the number of events by outcome, over all reasons."""
        outcomes: Counter[str] = Counter()
        for (outcome, _), count in self.metrics.event_counts().items():
            outcomes[outcome] += count
        return dict(outcomes)

    async def remember(self) -> None:
        """Add a point to the history every few seconds."""
        if "store" in self.agents:
            reader = StoreReader(self.settings.store.path)
            points = await asyncio.to_thread(earlier_points, reader, self.ranges, time.time())
            self._history.begin_with(points)
        while True:
            lag = sum(state.lag_records or 0 for state in self.partitions())
            lines = lines_of(self.monitor())
            self._history.add(Point(at=time.time(), events=self._events(), lag=lag, lines=lines))
            await asyncio.sleep(self._history.step_seconds)


def _monitored(monitor: MonitorSnapshot | None) -> dict[str, Any]:
    series, verdicts, alerts = (
        ((), (), ()) if monitor is None else (monitor.series, monitor.last_verdicts, monitor.last_alerts)
    )
    # Alerts of the whole traffic come before those of parts, incidents latest first.
    foremost = sorted(alerts, key=lambda one: bool(one.labels))[:SHOWN_ALERTS]
    return {
        "series": [_series(one) for one in series],
        "verdicts": [_verdict(one) for one in verdicts[:SHOWN_VERDICTS]],
        "incidents": [summary_of(one) | {"card": list(card(one))} for one in reversed(group(alerts))],
        "alerts": [_alert(one) for one in foremost],
        "alerts_left_out": max(len(alerts) - SHOWN_ALERTS, 0),
    }


def _series(one: SeriesSnapshot) -> dict[str, Any]:
    baseline, recent, window = one.mean.baseline, one.recent, one.window
    return {
        "metric": one.metric,
        "labels": dict(one.labels),
        "model": one.model,
        "fingerprint": one.fingerprint,
        "line": line_name(one.metric, one.fingerprint),
        "state": one.mean.state,
        "baseline": None if baseline is None else baseline.mean,
        "recent": None if recent is None else recent.mean,
        "recent_low": None if recent is None else recent.low,
        "recent_high": None if recent is None else recent.high,
        "expected_answers": _finite(one.expected_answers),
        "expected_days": _finite(one.expected_days),
        "scored": one.scored,
        "unscored": one.unscored,
        "failed": one.failed,
        "mean": None if window is None else window.mean,
        "low": None if window is None else window.low,
        "high": None if window is None else window.high,
    }


def _finite(number: float | None) -> float | None:
    return number if number is not None and isfinite(number) else None


def _alert(one: Alert) -> dict[str, Any]:
    return {
        "alert_id": one.alert_id,
        "kind": one.kind,
        "metric": one.metric,
        "labels": dict(one.labels),
        "summary": one.summary,
        "raised_at": one.raised_at.isoformat(),
    }


def _verdict(one: LastVerdict) -> dict[str, Any]:
    return {
        "result_id": one.result_id,
        "event_id": one.event_id,
        "metric": one.metric,
        "status": one.status,
        "score": one.score,
        "reason": one.reason,
        "labels": dict(one.labels),
        "at": round(one.judged_at.timestamp() * 1000),
        "judged_at": one.judged_at.isoformat(),
    }


def totals_of(families: Iterable[MetricFamily]) -> dict[str, Any]:
    """Return the totals of a worker's metrics since its start, over all event labels."""
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
