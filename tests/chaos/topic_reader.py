from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Self

from aiokafka import AIOKafkaConsumer, TopicPartition

from tests.chaos.checker import Record

_WAIT_MS = 200


class TopicReader:
    """Keeps every record of the topics, which must exist, including partitions added later."""

    def __init__(self, bootstrap_servers: str, topics: Iterable[str]) -> None:
        self._consumer = AIOKafkaConsumer(
            bootstrap_servers=bootstrap_servers,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
        )
        self._topics = tuple(topics)
        self._next: dict[TopicPartition, int] = {}
        self._records: dict[str, list[Record]] = defaultdict(list)

    async def __aenter__(self) -> Self:
        await self._consumer.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._consumer.stop()

    def records(self, topic: str) -> Sequence[Record]:
        return self._records[topic]

    async def catch_up(self) -> dict[TopicPartition, int]:
        """Read up to the present ends of the topics; returns the end of each partition."""
        await self._see_partitions()
        ends = await self._consumer.end_offsets(list(self._next))
        while any(self._next[place] < end for place, end in ends.items()):
            for place, batch in (await self._consumer.getmany(timeout_ms=_WAIT_MS)).items():
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
