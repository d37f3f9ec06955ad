"""Read the records before a worker's first offset, without a consumer group."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, Final

from aiokafka import AIOKafkaConsumer, TopicPartition

from streams.kafka.access.access import client_options
from streams.kafka.access.stopping import stop_consumer
from streams.settings import KafkaSettings

FETCH_BYTES: Final = 8 * 1024 * 1024
METADATA_SECONDS: Final = 20.0
METADATA_STEP_SECONDS: Final = 0.02
AT_ONCE: Final = 2
"""Partitions read concurrently."""


async def partitions_of(consumer: Any, topic: str) -> list[TopicPartition]:
    """Return a topic's partitions; empty if it does not exist. Does not create the topic.

    Args:
        consumer: A started consumer without a group; it is assigned to the topic.
    """
    if topic not in await consumer.topics():
        return []
    consumer.assign([TopicPartition(topic, 0)])  # makes the client fetch the topic's metadata
    async with asyncio.timeout(METADATA_SECONDS):
        while (found := consumer.partitions_for_topic(topic)) is None:  # noqa: ASYNC110 - the client has no event for it
            await asyncio.sleep(METADATA_STEP_SECONDS)
    return [TopicPartition(topic, number) for number in sorted(found)]


async def newest(consumer: Any, topic: str, number: int, *, seconds: float) -> list[Any]:
    """Return the newest records of a topic over all its partitions, oldest first.

    Args:
        consumer: A started consumer without a group; it is assigned to the topic.
        topic: The topic; no records if it does not exist.
        number: Maximum number of records.
    """
    partitions = await partitions_of(consumer, topic)
    if not partitions:
        return []
    consumer.assign(partitions)
    starts, ends = await consumer.beginning_offsets(partitions), await consumer.end_offsets(partitions)
    for one in partitions:
        consumer.seek(one, max(starts[one], ends[one] - number))
    found: list[Any] = []
    deadline = asyncio.get_running_loop().time() + seconds
    left = {one for one in partitions if ends[one] > starts[one]}
    while left and asyncio.get_running_loop().time() < deadline:
        for batch in (await consumer.getmany(timeout_ms=500)).values():
            found += batch
        left = {one for one in left if await consumer.position(one) < ends[one]}
    return sorted(found, key=lambda record: record.timestamp)[-number:]


class TopicPast:
    """Reads earlier records of a topic."""

    def __init__(self, kafka: KafkaSettings) -> None:
        self._kafka = kafka
        self._places = asyncio.Semaphore(AT_ONCE)

    async def partitions(self, topic: str) -> int:
        """Return the number of a topic's partitions."""
        consumer = self._consumer()
        try:
            await consumer.start()
            return len(await partitions_of(consumer, topic))
        finally:
            await stop_consumer(consumer)

    async def read(self, topic: str, partition: int, *, since: float, before: int) -> AsyncIterator[Any]:
        """Yield the records of a partition from a time up to an offset.

        Args:
            since: Seconds since the epoch, by the records' timestamps.
        """
        place = TopicPartition(topic, partition)
        async with self._places:
            consumer = self._consumer()
            try:
                await consumer.start()
                consumer.assign([place])
                found = (await consumer.offsets_for_times({place: max(round(since * 1000), 0)}))[place]
                if found is None or found.offset >= before:
                    return
                consumer.seek(place, found.offset)
                while await consumer.position(place) < before:
                    for record in (await consumer.getmany(place, timeout_ms=500)).get(place, ()):
                        if record.offset < before:
                            yield record
            finally:
                await stop_consumer(consumer)

    def _consumer(self) -> Any:
        return AIOKafkaConsumer(
            **client_options(self._kafka),
            group_id=None,
            enable_auto_commit=False,
            isolation_level="read_committed",
            max_partition_fetch_bytes=FETCH_BYTES,
        )
