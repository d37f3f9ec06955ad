from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager

from aiokafka import AIOKafkaConsumer, TopicPartition

from tests.chaos.checker import Record


class TopicReader:
    """Keeps every record of the topics, which must exist, including partitions added later."""

    def __init__(self, consumer: AIOKafkaConsumer, topics: Iterable[str]) -> None:
        self._consumer = consumer
        self._topics = tuple(topics)
        self._next: dict[TopicPartition, int] = {}
        self._records: dict[str, list[Record]] = defaultdict(list)

    def records(self, topic: str) -> Sequence[Record]:
        return self._records[topic]

    async def catch_up(self) -> dict[TopicPartition, int]:
        """Read up to the present ends of the topics; returns the end of each partition."""
        await self._see_partitions()
        ends = await self._consumer.end_offsets(list(self._next))
        while any(self._next[place] < end for place, end in ends.items()):
            for place, batch in (await self._consumer.getmany(timeout_ms=200)).items():
                self._records[place.topic].extend(
                    Record(place.topic, place.partition, record.offset, record.value) for record in batch
                )
            for place in ends:
                # Past transaction markers, which are not records.
                self._next[place] = await self._consumer.position(place)
            await asyncio.sleep(0)
        return dict(ends)

    async def _see_partitions(self) -> None:
        """Add new partitions and keep the positions of the others."""
        client = self._consumer._client  # no public method refreshes metadata
        client.set_topics(self._topics)
        await client.force_metadata_update()
        places = {
            TopicPartition(topic, number)
            for topic in self._topics
            for number in client.cluster.partitions_for_topic(topic) or ()
        }
        new = places - self._next.keys()
        if not new:
            return
        self._consumer.assign(list(places | self._next.keys()))
        beginnings = await self._consumer.beginning_offsets(list(new))
        self._next |= beginnings
        for place, offset in self._next.items():
            self._consumer.seek(place, offset)


@asynccontextmanager
async def reading(bootstrap_servers: str, topics: Iterable[str]) -> AsyncIterator[TopicReader]:
    async with AIOKafkaConsumer(
        bootstrap_servers=bootstrap_servers,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
    ) as consumer:
        yield TopicReader(consumer, topics)
