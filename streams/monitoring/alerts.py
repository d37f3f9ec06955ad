"""Builds the alert of a change in a series. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256

from judge.text.printable import printable
from schemas import Alert, Scored
from streams.monitoring.config import MEAN, MIX, SHARE_OF, Measure
from streams.monitoring.snapshot import Labels
from streams.monitoring.watch import Change


@dataclass(frozen=True, slots=True)
class SeriesKey:
    """The key of a series: metric, evaluator and part of the traffic."""

    metric: str
    fingerprint: str
    labels: Labels


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
    measure, current = change.measure, change.current
    of = ", ".join(f"{printable(name, 40)}={printable(value, 60)}" for name, value in key.labels)
    form = "{:.1%}" if measure.is_share else "{:.2f}"
    normal, mean, low, high = map(
        form.format, (change.baseline.mean, current.mean, current.low, current.high)
    )
    learned, up, note = change.baseline.count > 0, measure.worse == "up", ""
    if change.kind == "recovered":
        moved = f"has recovered from its drop: {mean}"
        note = f", {normal} before the drop" if learned else f", target {normal}"
    elif learned:
        learning = " (still being learned as it began)" if change.learning else ""
        further = " further" if change.further else ""
        moved = f"{'rose' if up else 'fell'}{further} from {normal}{learning} to {mean}"
        if measure.name == MIX:
            note = ", because the mix of labels changed, not within any label value"
    else:
        moved = f"{'rose above' if up else 'fell below'} its target {normal} to {mean}"
    began = change.began_at.astimezone(UTC)
    same_day = began.date() == now.astimezone(UTC).date()
    clock = began.strftime("%H:%M UTC" if same_day else "%Y-%m-%d %H:%M UTC")
    return (
        f"{_subject(measure, key.metric)} of {of or 'all answers'} {moved} (95% interval {low}-{high}, "
        f"{current.count} {'judged answer' if current.count == 1 else 'judged answers'}) "
        f"since {f'{clock} or earlier' if change.or_earlier else f'about {clock}'}{note}; "
        f"judge model {printable(model, 80)}"
    )


def _subject(measure: Measure, metric: str) -> str:
    if measure.at_most is not None:
        return f"share of {metric} at most {measure.at_most:g}"
    if measure.is_share:
        return f"share of {printable(measure.name.removeprefix(SHARE_OF), 60)} in {metric}"
    return metric
