"""Choose where a consumer group starts on a partition without a committed offset.

A group that starts at the newest record does so once: partitions added to the topic later are read from their
beginning, because they have no backlog. A group is new to a topic if it has no committed offset on any of its
partitions. If two workers of a new group start one after the other, the second takes its partitions for added
ones; to limit the cost, an added partition is read from `ADDED` ago.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal, TypeAlias

import structlog
from aiokafka import TopicPartition

_log = structlog.stdlib.get_logger("streams.kafka.starts")
"""A fixed name: a filter drops the info log of this package's modules, for Faust's subclasses."""

Start: TypeAlias = Literal["earliest", "latest"] | datetime
ADDED: Final = timedelta(hours=1)


async def offsets_at(
    consumer: Any, partitions: Collection[TopicPartition], start: Start
) -> dict[TopicPartition, int]:
    """Return the first offset of each partition whose record is not older than a time, or its end offset."""
    if start == "earliest":
        return dict(await consumer.beginning_offsets(partitions))
    ends = dict(await consumer.end_offsets(partitions))
    if isinstance(start, datetime):
        milliseconds = max(0, round(start.timestamp() * 1000))
        found = await consumer.offsets_for_times(dict.fromkeys(partitions, milliseconds))
        ends |= {place: at.offset for place, at in found.items() if at is not None}
    return ends


async def first_offsets(
    consumer: Any, partitions: Iterable[TopicPartition], starts: Mapping[str, Start]
) -> dict[TopicPartition, int]:
    """Return the start offsets.

    Args:
        partitions: Partitions without a committed offset.
        starts: Start by topic; by default the oldest record.

    Raises:
        KafkaError: The broker does not answer.
    """
    found: dict[TopicPartition, int] = {}
    for partition in partitions:
        start = starts.get(partition.topic, "earliest")
        if start == "latest" and not await _is_new(consumer, partition.topic):
            start = datetime.now(UTC) - ADDED
        found |= await offsets_at(consumer, [partition], start)
    return found


def tell_starts(
    partitions: Iterable[TopicPartition], offsets: Mapping[TopicPartition, int], starts: Mapping[str, Start]
) -> None:
    """Log the start offsets of each topic with a configured start.

    Args:
        partitions: Partitions without a committed offset.
    """
    numbers: dict[str, dict[int, int]] = {}
    for partition in sorted(partitions):
        if partition.topic in starts:
            numbers.setdefault(partition.topic, {})[partition.partition] = offsets[partition]
    for topic, begins in numbers.items():
        _log.info(
            "the group has no offsets on this topic and starts at kafka.start",
            topic=topic,
            start=str(starts[topic]),
            offsets=begins,
        )


async def _is_new(consumer: Any, topic: str) -> bool:
    numbers = consumer.partitions_for_topic(topic) or ()
    for number in sorted(numbers):
        if await consumer.committed(TopicPartition(topic, number)) is not None:
            return False
    return True
