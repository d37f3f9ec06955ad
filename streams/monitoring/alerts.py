"""Builds the alert of a change in a series. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256

from judge.text.printable import printable
from schemas import Alert, Scored
from streams.monitoring.measures import MEAN, MIX, SHARE_OF, Measure
from streams.monitoring.watch import Change


@dataclass(frozen=True, slots=True)
class SeriesKey:
    """The key of a series: metric, evaluator and part of the traffic (empty labels: all of it)."""

    metric: str
    fingerprint: str
    labels: tuple[tuple[str, str], ...]


def build_alert(
    change: Change, key: SeriesKey, result: Scored, now: datetime, *, explorer_url: str | None = None
) -> Alert:
    """Return the alert of a change that a result triggered; its id follows from both and the series."""
    measure = change.measure.name
    parts = [
        change.kind,
        *([] if measure == MEAN else [measure]),
        key.metric,
        key.fingerprint,
        repr(key.labels),
        result.result_id,
    ]
    alert_id = sha256("\n".join(parts).encode(errors="surrogatepass")).hexdigest()[:32]
    return Alert(
        alert_id=alert_id,
        kind=change.kind,
        metric=key.metric,
        labels=dict(key.labels),
        measure=measure,
        further=change.further,
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
        # The explorer finds an incident by any of its alerts; only the store knows the first one.
        link=None if explorer_url is None else f"{explorer_url.rstrip('/')}/explore/incident/{alert_id}",
    )


def _summary(change: Change, key: SeriesKey, model: str, now: datetime) -> str:
    """Return the alert's summary, one sentence."""
    of = ", ".join(f"{printable(name, 40)}={printable(value, 60)}" for name, value in key.labels)
    normal, current, measure = change.baseline, change.current, change.measure
    level = _share if measure.is_share else _points
    if change.kind == "recovered":
        moved = f"has recovered from its drop: {level(current.mean)}"
        before = f"{level(normal.mean)} before the drop" if normal.count else f"target {level(normal.mean)}"
        before = f", {before}"
    elif normal.count:
        verb = "rose" if measure.worse == "up" else "fell"
        learning = " (still being learned as it began)" if change.learning else ""
        moved = (
            f"{verb}{' further' if change.further else ''} from {level(normal.mean)}{learning} "
            f"to {level(current.mean)}"
        )
        before = (
            "because the mix of labels changed, not within any label value" if measure.name == MIX else ""
        )
    else:
        moved = "rose above" if measure.worse == "up" else "fell below"
        moved, before = f"{moved} its target {level(normal.mean)} to {level(current.mean)}", ""
    answers = "judged answer" if current.count == 1 else "judged answers"
    began = change.began_at.astimezone(UTC)
    same_day = began.date() == now.astimezone(UTC).date()
    clock = began.strftime("%H:%M UTC" if same_day else "%Y-%m-%d %H:%M UTC")
    since = f"since {clock} or earlier" if change.or_earlier else f"since about {clock}"
    return (
        f"{_subject(measure, key.metric)} of {of or 'all answers'} {moved} "
        f"(95% interval {level(current.low)}-{level(current.high)}, "
        f"{current.count} {answers}) {since}{before}; judge model {printable(model, 80)}"
    )


def _subject(measure: Measure, metric: str) -> str:
    if measure.at_most is not None:
        return f"share of {metric} at most {measure.at_most:g}"
    if measure.is_share:
        return f"share of {printable(measure.name.removeprefix(SHARE_OF), 60)} in {metric}"
    return metric


def _points(level: float) -> str:
    return f"{level:.2f}"


def _share(level: float) -> str:
    return f"{level:.1%}"
