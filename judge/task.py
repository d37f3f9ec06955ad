"""Build judge tasks from events."""

from __future__ import annotations

from datetime import datetime

from judge.metric import Metric, further_texts
from judge.text.normal import compared_chars
from schemas import JudgeTask, QAEvent, Sampling, Source, result_id

WEIGHT_BEYOND_ASCII = 10
"""Non-ASCII characters take about ten times as long to process (`benchmarks/verification.py`)."""

READ_AT_ONCE = 16_000
"""Texts up to this total size are processed in the event loop, because that takes milliseconds in the worst
case."""


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
    """Build a metric's task from an event, with only the texts that the metric needs.

    Args:
        event: The event.
        metric: The metric that will judge it.
        source: The event's record; its topic is part of the result's id.
        sampling: Why the event is in the sample.
        recorded_at: The record's timestamp, used if the event has no time.
        sampled_at: Now.
        replay_id: The id of the replay; None for the live stream.
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
        **inputs.of_task(),
        sampling=sampling,
        occurred_at=event.occurred_at or recorded_at,
        sampled_at=sampled_at,
    )


def unsampled_task(
    event: QAEvent,
    metric: Metric,
    *,
    source: str,
    now: datetime,
    number: int = 0,
    policy: str = "every event",
) -> JudgeTask:
    """Build the task of an event that was not sampled; its sampling probability is 1.

    Args:
        event: The event.
        metric: The metric that judges it.
        source: Used as topic, such as a file's name.
        now: Time of the task, and of the event if it has none.
        number: Used as offset, from 0.
        policy: Name of the sampling policy.
    """
    return build_task(
        event,
        metric,
        source=Source(topic=source, partition=0, offset=number),
        sampling=Sampling(probability=1.0, stratum="default", policy=policy),
        recorded_at=now,
        sampled_at=now,
    )


def with_named_texts(task: JudgeTask, text: str) -> JudgeTask:
    """Return a made-up event's task with a text for each empty named text that the metric uses."""
    if task.fields is None:
        return task
    return task.model_copy(update={"fields": {name: given or text for name, given in task.fields.items()}})


def reading_size(texts: QAEvent | JudgeTask) -> int:
    """Return the size of all texts in ASCII characters; others are weighted by processing time."""
    pages = texts.context or {}
    return sum(
        size_of(text)
        for text in (
            texts.question,
            texts.answer,
            texts.reference or "",
            *pages,
            *pages.values(),
            *further_texts(texts),
        )
    )


def size_of(text: str) -> int:
    """Return the size of one text; see `reading_size`."""
    if text.isascii() or len(text) > READ_AT_ONCE:
        return len(text)  # beyond the limit already; counting exactly would take time
    plain = len(text.encode("ascii", "ignore"))
    # Invisible characters are not compared, but processed.
    return plain + WEIGHT_BEYOND_ASCII * (max(compared_chars(text), len(text)) - plain)
