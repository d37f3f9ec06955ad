"""From a change in a series to the alert that says so. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256

from schemas import Alert, Scored
from streams.monitoring.series import Change
from streams.text import printable


@dataclass(frozen=True, slots=True)
class SeriesKey:
    """Which series: a metric, by one evaluator, for one part of the traffic (empty labels: all of it)."""

    metric: str
    fingerprint: str
    labels: tuple[tuple[str, str], ...]


def build_alert(change: Change, key: SeriesKey, result: Scored, now: datetime) -> Alert:
    """Put a change into words.

    Args:
        change: What changed.
        key: In which series.
        result: The result that decided it. The alert's id follows from it, from the series and from the kind.
        now: The current time.
    """
    parts = [change.kind, key.metric, key.fingerprint, repr(key.labels), result.result_id]
    return Alert(
        alert_id=sha256("\n".join(parts).encode(errors="surrogatepass")).hexdigest()[:32],
        kind=change.kind,
        metric=key.metric,
        labels=dict(key.labels),
        fingerprint=key.fingerprint,
        model=result.evaluator.model,
        summary=_summary(change, key, result.evaluator.model, now),
        baseline=change.baseline,
        current=change.current,
        statistic=change.statistic,
        threshold=change.threshold,
        detector=change.detector,
        started_at=change.dropped_at,
        raised_at=now,
        example_event_ids=change.example_event_ids,
    )


def _summary(change: Change, key: SeriesKey, model: str, now: datetime) -> str:
    """One sentence for a person who has just been woken."""
    of = ", ".join(f"{printable(name, 40)}={printable(value, 60)}" for name, value in key.labels)
    normal, current = change.baseline, change.current
    if change.kind == "recovered":
        moved = f"is back from its drop: {current.mean:.2f}"
        before = f", {normal.mean:.2f} before the drop" if normal.count else f", target {normal.mean:.2f}"
    elif normal.count:
        moved, before = f"fell from {normal.mean:.2f} to {current.mean:.2f}", ""
    else:
        moved, before = f"fell below its target {normal.mean:.2f} to {current.mean:.2f}", ""
    answers = "judged answer" if current.count == 1 else "judged answers"
    began = change.began_at.astimezone(UTC)
    same_day = began.date() == now.astimezone(UTC).date()
    clock = began.strftime("%H:%M UTC" if same_day else "%Y-%m-%d %H:%M UTC")
    since = f"since {clock} or earlier" if change.or_earlier else f"since about {clock}"
    return (
        f"{key.metric} of {of or 'all answers'} {moved} (95% interval {current.low:.2f}-{current.high:.2f}, "
        f"{current.count} {answers}) {since}{before}; judge model {printable(model, 80)}"
    )
