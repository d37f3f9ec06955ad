"""What the status page shows, as plain values. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from streams.health import Report
from streams.monitor_snapshot import LastVerdict, MonitorSnapshot, SeriesSnapshot
from streams.offsets import PartitionState

SHOWN_VERDICTS = 20


def status_of(
    *,
    group_id: str,
    agents: Sequence[str],
    running_seconds: float,
    events: Mapping[tuple[str, str], int],
    partitions: Sequence[PartitionState],
    ready: Report,
    monitor: MonitorSnapshot | None,
) -> dict[str, Any]:
    """Put a worker's state together.

    Args:
        group_id: Its consumer group.
        agents: What runs.
        running_seconds: Since its start.
        events: Events by outcome and reason.
        partitions: As they stand.
        ready: Whether it can do its work.
        monitor: Where every series stands; None where no monitor runs.
    """
    lag: dict[str, int] = {}
    for state in partitions:
        lag[state.topic] = lag.get(state.topic, 0) + (state.lag_records or 0)
    outcomes: dict[str, int] = {}
    for (outcome, _), count in events.items():
        outcomes[outcome] = outcomes.get(outcome, 0) + count
    return {
        "group_id": group_id,
        "agents": list(agents),
        "running_seconds": round(running_seconds, 1),
        "ready": ready.ok,
        "reasons": list(ready.reasons),
        "notes": list(ready.notes),
        "events": outcomes,
        "lag_records": dict(sorted(lag.items())),
        "unfinished": sum(state.unfinished for state in partitions),
        "series": [] if monitor is None else [_series(one) for one in monitor.series],
        "verdicts": []
        if monitor is None
        else [_verdict(one) for one in monitor.last_verdicts[:SHOWN_VERDICTS]],
    }


def _series(one: SeriesSnapshot) -> dict[str, Any]:
    window = one.window
    return {
        "metric": one.metric,
        "labels": dict(one.labels),
        "model": one.model,
        "fingerprint": one.fingerprint,
        "state": one.state,
        "scored": one.scored,
        "unscored": one.unscored,
        "failed": one.failed,
        "mean": None if window is None else window.mean,
        "low": None if window is None else window.low,
        "high": None if window is None else window.high,
    }


def _verdict(one: LastVerdict) -> dict[str, Any]:
    return {
        "event_id": one.event_id,
        "metric": one.metric,
        "status": one.status,
        "score": one.score,
        "reason": one.reason,
        "judged_at": one.judged_at.isoformat(),
    }
