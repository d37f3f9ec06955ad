"""Count and drain the tasks of metrics that were removed from the settings.

A metric that is removed or renamed leaves its backlog on a task topic that no worker reads.
"""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, RecordsToDelete
from aiokafka.errors import KafkaError, MessageSizeTooLargeError
from pydantic import TypeAdapter, ValidationError

from schemas import JudgeTask
from schemas.base import MetricName
from streams.errors import TopicsError
from streams.kafka.access.access import client_options
from streams.kafka.letters import KEPT_KEY_BYTES, letter_forms
from streams.kafka.topics.admin import CONNECT_SECONDS, admin_client
from streams.kafka.topics.flow import AGENTS, AgentName, group_of
from streams.kafka.transport.ranges import ask_bounds
from streams.settings import Settings

_METRIC: Final[TypeAdapter[str]] = TypeAdapter(MetricName)
_FETCH_MS: Final = 500
_AT_ONCE: Final = 500
"""Records per poll."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """The unread offset range of one partition.

    Args:
        start: The first offset.
        end: The end offset (exclusive).
    """

    start: int
    end: int

    @property
    def tasks(self) -> int:
        """Number of tasks, at most."""
        return max(self.end - self.start, 0)


async def removed_tasks(
    settings: Settings, *, connect_seconds: float = CONNECT_SECONDS, env: Mapping[str, str] | None = None
) -> dict[str, int]:
    """Return the number of waiting tasks of each removed metric that has some.

    Args:
        settings: The settings.
        connect_seconds: Connection timeout.
        env: Environment variables with secrets; those of the process by default.

    Raises:
        KafkaAccessError: The broker denies access.
        TopicsError: The broker does not answer.
    """
    prefix = settings.topics.tasks_prefix
    async with admin_client(settings.kafka, connect_seconds, env) as admin:
        counts = {}
        for topic in sorted(await admin.list_topics()):
            metric = topic.removeprefix(prefix)
            if topic == metric or metric in settings.metrics or not _is_metric(metric):
                continue
            waiting = await _waiting(admin, settings, topic)
            counts[metric] = sum(one.tasks for one in waiting.values())
    return {metric: tasks for metric, tasks in counts.items() if tasks}


async def drain(settings: Settings, metric: str, *, dry_run: bool = False) -> int:
    """Write every waiting task of a removed metric as a dead letter (`unknown_metric`).

    The tasks are then deleted from the task topic, so a second run does nothing. If a run is interrupted, the
    next one may write dead letters twice.

    Args:
        settings: The settings, without the metric.
        metric: The metric.
        dry_run: Change nothing.

    Returns:
        The number of dead letters written, or to be written.

    Raises:
        TopicsError: The metric is in the settings or has no topic, or the broker rejects a request.
        KafkaAccessError: The broker denies access.
    """
    topic = settings.topics.task_topic(metric)
    if metric in settings.metrics:
        raise TopicsError(
            f"metric {metric} is in the settings, and workers judge its tasks; remove it there first"
        )
    async with admin_client(settings.kafka) as admin:
        if topic not in await admin.list_topics():
            raise TopicsError(f"there is no topic {topic}; check the metric's name and topics.tasks_prefix")
        waiting = {place: one for place, one in (await _waiting(admin, settings, topic)).items() if one.tasks}
        if dry_run or not waiting:
            return sum(one.tasks for one in waiting.values())
        count = await _set_aside(settings, metric, waiting)
        await admin.delete_records(
            {place: RecordsToDelete(before_offset=one.end) for place, one in waiting.items()}
        )
        return count


def _is_metric(name: str) -> bool:
    try:
        _METRIC.validate_python(name)
    except ValidationError:
        return False
    return True


async def _waiting(
    admin: AIOKafkaAdminClient, settings: Settings, topic: str
) -> dict[TopicPartition, Waiting]:
    """Return the offset range of each partition that no group of this installation has read."""
    client: Any = admin._client  # noqa: SLF001 - the admin client has no request for a log's bounds
    await client.add_topic(topic)
    (described,) = await admin.describe_topics([topic])
    places = [TopicPartition(topic, one["partition"]) for one in described["partitions"]]
    read: dict[TopicPartition, int] = {}
    for group in _groups(settings):
        for place, committed in (await admin.list_consumer_group_offsets(group, partitions=places)).items():
            read[place] = max(read.get(place, 0), committed.offset)
    found = {}
    for place in places:
        bounds = await ask_bounds(client, place)
        found[place] = Waiting(max(bounds.begin, read.get(place, 0)), bounds.end)
    return found


def _groups(settings: Settings) -> list[str]:
    """Return every group that may have read tasks: `judge` alone and with each set of other agents."""
    others: list[AgentName] = [agent for agent in AGENTS if agent != "judge"]
    sets = itertools.chain.from_iterable(
        itertools.combinations(others, count) for count in range(len(others) + 1)
    )
    return [group_of(settings.kafka.group_id, ["judge", *agents]) for agents in sets]


async def _set_aside(settings: Settings, metric: str, waiting: Mapping[TopicPartition, Waiting]) -> int:
    options = client_options(settings.kafka)
    detail = f"metric {metric} was removed from the settings, and its tasks were drained"
    count = 0
    async with (
        _started(
            AIOKafkaProducer(**options, acks="all", enable_idempotence=True, max_request_size=32 << 20)
        ) as producer,
        _started(
            AIOKafkaConsumer(
                **options, group_id=None, enable_auto_commit=False, isolation_level="read_committed"
            )
        ) as consumer,
    ):
        consumer.assign(list(waiting))
        for place, one in waiting.items():
            consumer.seek(place, one.start)
        while [place for place, one in waiting.items() if await consumer.position(place) < one.end]:
            batches = await consumer.getmany(*waiting, timeout_ms=_FETCH_MS, max_records=_AT_ONCE)
            for place, records in batches.items():
                for record in records:
                    if record.offset < waiting[place].end:
                        await _write(producer, settings.topics.dead_letters, record, detail)
                        count += 1
    return count


async def _write(producer: AIOKafkaProducer, topic: str, record: Any, detail: str) -> None:
    try:
        event_id = JudgeTask.model_validate_json(record.value or b"").event_id
    except ValidationError:
        event_id = None
    key = record.key if record.key is None or len(record.key) <= KEPT_KEY_BYTES else None
    place = _Read(
        record.topic,
        record.partition,
        record.offset,
        record.timestamp / 1000,
        record.key,
        record.value,
        record.headers,
    )
    for letter in letter_forms(
        place, "unknown_metric", detail, event_id=event_id, failed_at=datetime.now(UTC)
    ):
        try:
            await producer.send_and_wait(topic, letter.model_dump_json().encode(), key=key)
        except MessageSizeTooLargeError:
            continue
        return
    raise TopicsError(
        f"every dead letter of {record.topic}-{record.partition} at offset {record.offset} is too large for "
        f"{topic}; raise its max.message.bytes"
    )


@dataclass(slots=True)
class _Read:
    """A record with its timestamp in seconds, as `letter_forms` expects it."""

    topic: str
    partition: int
    offset: int
    timestamp: float | None
    key: bytes | None
    value: bytes | None
    headers: Any


@asynccontextmanager
async def _started(client: Any) -> AsyncIterator[Any]:
    try:
        await client.start()
        yield client
    except KafkaError as error:
        raise TopicsError(f"tasks cannot be set aside: {error!r}") from error
    finally:
        await client.stop()
