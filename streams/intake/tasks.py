"""From a sampled event to the tasks of the metrics that judge it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache

from judge.metric import Metric
from judge.task import build_task, reading_size
from judge.verdict import aside
from schemas import JudgeTask, QAEvent, Sampling, Source
from streams.intake.decision import Before, inclusion
from streams.intake.routing import Routing
from streams.kafka.letters import Incoming, moment


async def tasks_of(
    record: Incoming,
    event: QAEvent,
    routing: Routing,
    metrics: Mapping[str, Metric],
    *,
    now: datetime,
    verification_seconds: float,
    replay_id: str | None = None,
) -> list[JudgeTask]:
    """Build a task for each metric that judges an event.

    Args:
        record: The record that it came in, or the first of them.
        event: The event.
        routing: Which metrics judge it.
        metrics: The metrics, by name.
        now: The time of sampling.
        verification_seconds: Bound on the time that reading the event's texts may take; above 0.
        replay_id: The replay that asks, or None for the live stream.

    Raises:
        EventError: The texts take longer than that to read.
    """
    recorded_at = moment(record.timestamp) or now
    size = reading_size(event)
    source = Source(topic=record.topic, partition=record.partition, offset=record.offset)
    return [
        await aside.read(
            size,
            verification_seconds,
            build_task,
            event,
            metrics[one.metric],
            source=source,
            sampling=_sampling(
                one.decision.threshold, one.decision.before, one.decision.stratum, one.decision.policy
            ),
            recorded_at=recorded_at,
            sampled_at=now,
            replay_id=replay_id,
        )
        for one in routing.assignments
    ]


@lru_cache(maxsize=1024)
def _sampling(threshold: int, before: Before | None, stratum: str, policy: str) -> Sampling:
    """Why an event is in the sample.

    The same for all events of a stratum, and a fraction is slow to work out.
    """
    return Sampling(probability=float(inclusion(threshold, before)), stratum=stratum, policy=policy)


def texts_chars(task: JudgeTask) -> int:
    """Characters of all texts of a task."""
    pages = sum(len(name) + len(text) for name, text in (task.context or {}).items())
    return len(task.question) + len(task.answer) + len(task.reference or "") + pages
