"""From an event to the task that a judge works on."""

from __future__ import annotations

from datetime import datetime

from judge.metric import Metric, further_texts
from judge.text.index import compared_chars
from schemas import JudgeTask, QAEvent, Sampling, Source, result_id

WEIGHT_BEYOND_ASCII = 10
"""What is decomposed and traced to its place takes about ten times as long to read
(`benchmarks/verification.py`)."""

READ_AT_ONCE = 16_000
"""Texts whose size together is no more are read in the event loop, because that takes milliseconds whatever
they hold."""


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
    """Build the task of an event that was chosen, not sampled from a topic; its probability is 1.

    Args:
        event: The event.
        metric: The metric that judges it.
        source: What stands in the place of the topic, such as a file's name.
        now: Time of the event, where it has none, and of the task.
        number: What stands in the place of the offset, from 0.
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
    """The task of a made-up event with a text under each name that the metric uses."""
    if task.fields is None:
        return task
    return task.model_copy(update={"fields": {name: given or text for name, given in task.fields.items()}})


def reading_size(texts: QAEvent | JudgeTask) -> int:
    """How much there is to read: ASCII characters; others count by the time they take to read."""
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
    """The same for one text."""
    if text.isascii() or len(text) > READ_AT_ONCE:
        return len(text)  # how much more it is makes no difference, and counting would take its time
    plain = len(text.encode("ascii", "ignore"))
    # What nobody sees is not compared, but it is read.
    return plain + WEIGHT_BEYOND_ASCII * (max(compared_chars(text), len(text)) - plain)
