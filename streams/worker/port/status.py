"""Build the data of the status page as plain values. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any

from schemas import Alert
from streams.monitoring.snapshot import LastVerdict, MonitorSnapshot, SeriesSnapshot
from streams.store.views.card import card
from streams.store.views.incidents import group, summary_of
from streams.telemetry.partitions import PartitionState
from streams.worker.health import Report
from streams.worker.port.history import History, line_name

SHOWN_VERDICTS = 20
SHOWN_ALERTS = 6


def status_of(
    *,
    group_id: str,
    agents: Sequence[str],
    running_seconds: float,
    events: Mapping[tuple[str, str], int],
    partitions: Sequence[PartitionState],
    ready: Report,
    monitor: MonitorSnapshot | None,
    ranges: Mapping[str, tuple[float, float]],
    history: History,
    totals: Mapping[str, Any],
) -> dict[str, Any]:
    """Return a worker's state as plain values.

    Args:
        monitor: Snapshot of every series; None without a monitor.
    """
    lag: dict[str, int] = {}
    for state in partitions:
        lag[state.topic] = lag.get(state.topic, 0) + (state.lag_records or 0)
    return {
        "group_id": group_id,
        "agents": list(agents),
        "running_seconds": round(running_seconds, 1),
        "ready": ready.ok,
        "reasons": list(ready.reasons),
        "notes": list(ready.notes),
        "events": by_outcome(events),
        "lag_records": dict(sorted(lag.items())),
        "unfinished": sum(state.unfinished for state in partitions),
        "series": [] if monitor is None else [_series(one) for one in monitor.series],
        "verdicts": []
        if monitor is None
        else [_verdict(one) for one in monitor.last_verdicts[:SHOWN_VERDICTS]],
        "incidents": [] if monitor is None else _incidents(monitor.last_alerts),
        "alerts": [] if monitor is None else [_alert(one) for one in _foremost(monitor.last_alerts)],
        "alerts_left_out": 0 if monitor is None else max(len(monitor.last_alerts) - SHOWN_ALERTS, 0),
        "ranges": {name: list(ends) for name, ends in ranges.items()},
        "history": history.as_values(),
        **totals,
    }


def by_outcome(events: Mapping[tuple[str, str], int]) -> dict[str, int]:
    """Return the number of events by outcome, over all reasons."""
    outcomes: dict[str, int] = {}
    for (outcome, _), count in events.items():
        outcomes[outcome] = outcomes.get(outcome, 0) + count
    return outcomes


def _series(one: SeriesSnapshot) -> dict[str, Any]:
    window = one.window
    return {
        "metric": one.metric,
        "labels": dict(one.labels),
        "model": one.model,
        "fingerprint": one.fingerprint,
        "line": line_name(one.metric, one.fingerprint),
        "state": one.mean.state,
        "baseline": None if one.mean.baseline is None else one.mean.baseline.mean,
        "recent": None if one.recent is None else one.recent.mean,
        "recent_low": None if one.recent is None else one.recent.low,
        "recent_high": None if one.recent is None else one.recent.high,
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


def _foremost(alerts: Sequence[Alert]) -> list[Alert]:
    """Return the first alerts: those of the whole traffic before those of parts, in the given order."""
    return sorted(alerts, key=lambda one: bool(one.labels))[:SHOWN_ALERTS]


def _incidents(alerts: Sequence[Alert]) -> list[dict[str, Any]]:
    """Return the incidents of the latest alerts, the latest first."""
    return [summary_of(one) | {"card": list(card(one))} for one in reversed(group(alerts))]


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
