"""From an event to the task that a judge works on."""

from __future__ import annotations

from datetime import datetime

from judge.metric import Metric
from schemas import JudgeTask, QAEvent, Sampling, Source, result_id


def build_task(
    event: QAEvent,
    metric: Metric,
    *,
    source: Source,
    sampling: Sampling,
    recorded_at: datetime,
    sampled_at: datetime,
    replay_id: str | None = None,
) -> JudgeTask:
    """Take from an event what one metric needs, and nothing more.

    Args:
        event: The event.
        metric: The metric that will judge it.
        source: The record that the event came in; its topic is part of the result's id.
        sampling: Why the event is in the sample.
        recorded_at: The record's timestamp, which stands in for an event without a time of its own.
        sampled_at: Now.
        replay_id: The replay that asks, or None for the live stream.
    """
    inputs = metric.select(event)
    return JudgeTask(
        result_id=result_id(
            topic=source.topic, event_id=event.event_id, metric=metric.name, replay_id=replay_id
        ),
        event_id=event.event_id,
        metric=metric.name,
        replay_id=replay_id,
        source=source,
        trace_id=event.trace_id,
        span_id=event.span_id,
        labels=event.labels,
        question=inputs.question,
        answer=inputs.answer,
        reference=inputs.reference,
        context=None if inputs.context is None else dict(inputs.context),
        sampling=sampling,
        occurred_at=event.occurred_at or recorded_at,
        sampled_at=sampled_at,
    )


def text_bytes(texts: QAEvent | JudgeTask) -> int:
    """Bytes of all texts in UTF-8."""
    pages = texts.context or {}
    return sum(
        len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
        for text in (texts.question, texts.answer, texts.reference or "", *pages, *pages.values())
    )
