"""Build the tasks of a sampled event."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache

from judge.metric import Metric
from judge.task import build_task, reading_size
from judge.verdict import aside
from schemas import JudgeTask, QAEvent, Sampling, Source
from schemas.base import CLUSTERED_POLICY
from streams.intake.decision import Before, Decision, inclusion
from streams.intake.reading.trace import is_plausible
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
        record: The record with the event, or the first of several.
        event: The event.
        routing: The metrics that judge it.
        metrics: The metrics, by name.
        now: The time of sampling.
        verification_seconds: Limit on the time to read the event's texts; above 0.
        replay_id: Id of the replay; None for the live stream.

    Raises:
        EventError: Reading the texts exceeds the limit.
    """
    recorded_at = moment(record.timestamp) or now
    if event.occurred_at is not None and not is_plausible(event.occurred_at, recorded_at):
        event = event.model_copy(update={"occurred_at": None})  # the time of a span
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
            sampling=_sampling(one.decision),
            recorded_at=recorded_at,
            sampled_at=now,
            replay_id=replay_id,
        )
        for one in routing.assignments
    ]


def _sampling(decision: Decision) -> Sampling:
    sampling = _of_stratum(decision.threshold, decision.before, decision.stratum, decision.policy)
    if not decision.policy.startswith(CLUSTERED_POLICY):
        return sampling
    return sampling.model_copy(update={"cluster": f"{decision.randomness:014x}"})


@lru_cache(maxsize=1024)
def _of_stratum(threshold: int, before: Before | None, stratum: str, policy: str) -> Sampling:
    """Return the sampling of a stratum's events; cached, because computing a fraction is slow."""
    return Sampling(probability=float(inclusion(threshold, before)), stratum=stratum, policy=policy)


def texts_chars(task: JudgeTask) -> int:
    """Return the number of characters of all texts of a task."""
    pages = sum(len(name) + len(text) for name, text in (task.context or {}).items())
    return len(task.question) + len(task.answer) + len(task.reference or "") + pages
