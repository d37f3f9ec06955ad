"""Choose where a consumer group starts on a partition without a committed offset.

A group that starts at the newest record does so once: partitions added to the topic later are read from their
beginning, because they have no backlog. A group is new to a topic if it has no committed offset on any of its
partitions. If two workers of a new group start one after the other, the second takes its partitions for added
ones; to limit the cost, an added partition is read from `ADDED_SECONDS` ago.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final, Literal, TypeAlias

import structlog
from aiokafka import TopicPartition

_log = structlog.stdlib.get_logger("streams.kafka.starts")
"""A fixed name: a filter drops the info log of this package's modules, for Faust's subclasses."""

Start: TypeAlias = Literal["earliest", "latest"] | datetime
ADDED_SECONDS: Final = 3600.0


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
            found[partition] = await _offset_at(consumer, partition, time.time() - ADDED_SECONDS)
        elif isinstance(start, datetime):
            found[partition] = await _offset_at(consumer, partition, start.timestamp())
        else:
            ask = consumer.end_offsets if start == "latest" else consumer.beginning_offsets
            found[partition] = (await ask([partition]))[partition]
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


async def _offset_at(consumer: Any, partition: TopicPartition, seconds: float) -> int:
    """Return the first offset whose record is not older than a time; the end offset if there is none."""
    found = (await consumer.offsets_for_times({partition: max(0, round(seconds * 1000))}))[partition]
    if found is not None:
        return int(found.offset)
    return int((await consumer.end_offsets([partition]))[partition])
