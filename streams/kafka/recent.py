"""Read the latest results on the scores topic, so that a worker does not count them again."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from functools import partial
from typing import Any, Final

from aiokafka import AIOKafkaConsumer, TopicPartition

from streams.kafka.access.access import client_options
from streams.kafka.counted import OnceCounter, Place
from streams.kafka.reader import stop_consumer
from streams.settings import KafkaSettings, TopicSettings

MOST_RESULTS: Final = 20_000
"""Results read per lookup, divided among the partitions."""
LEAST_RESULTS: Final = 200
"""Results read per partition, at least."""
RESULT_ID: Final = "result_id"
"""The header with a result's id."""
_POLL_MILLISECONDS: Final = 500


class RecentResults:
    """Reads, at every assignment of task partitions, which results of their events were already written.

    The previous worker may have written results without committing their tasks, which are redelivered.
    """

    def __init__(self, kafka: KafkaSettings, topics: TopicSettings, counter: OnceCounter) -> None:
        self._kafka = kafka
        self._topics = topics
        self._counter = counter
        self._learning: asyncio.Task[None] | None = None

    def on_assigned(self, committed: Collection[Any]) -> None:
        """Start to read the results of assigned partitions.

        Args:
            committed: Topics and partitions with a committed offset; the others have no earlier results.
        """
        prefix = self._topics.tasks_prefix
        tasks = {(topic, number) for topic, number in committed if topic.startswith(prefix)}
        self._break_off()  # the read for the previous assignment
        if tasks:
            self._learning = asyncio.create_task(self._counter.learn(partial(self._read, tasks)))

    async def close(self) -> None:
        """Cancel the read and wait until its consumer is closed."""
        self._break_off()
        if self._learning is not None:
            await asyncio.gather(self._learning, return_exceptions=True)

    def _break_off(self) -> None:
        if self._learning is not None:
            self._learning.cancel()

    async def _read(self, tasks: Collection[tuple[str, int]]) -> list[tuple[Place, str]]:
        consumer = AIOKafkaConsumer(
            **client_options(self._kafka),
            group_id=None,
            enable_auto_commit=False,
            isolation_level="read_committed",
        )
        ids: list[tuple[Place, str]] = []
        try:
            await consumer.start()
            places = await self._places(consumer, tasks)
            if not places:
                return ids
            consumer.assign(places)
            begins, ends = await consumer.beginning_offsets(places), await consumer.end_offsets(places)
            each = max(MOST_RESULTS // len(places), LEAST_RESULTS)
            for place in places:
                consumer.seek(place, max(begins[place], ends[place] - each))
            while [place for place in places if await consumer.position(place) < ends[place]]:
                for records in (await consumer.getmany(timeout_ms=_POLL_MILLISECONDS)).values():
                    ids += [
                        ((record.partition, record.offset), (value or b"").decode(errors="replace"))
                        for record in records
                        for name, value in record.headers
                        if name == RESULT_ID
                    ]
        finally:
            await stop_consumer(consumer)
        return ids

    async def _places(
        self, consumer: AIOKafkaConsumer, tasks: Collection[tuple[str, int]]
    ) -> list[TopicPartition]:
        """Return the partitions to read: those of the tasks if both topics have equally many, else all."""
        scores = self._topics.scores
        client: Any = consumer._client  # noqa: SLF001 - nothing public asks for the partitions of a topic that is not read
        cluster = await client.fetch_all_metadata()
        there: set[int] = cluster.partitions_for_topic(scores) or set()
        wanted: set[int] = set()
        for topic, number in tasks:
            alike = cluster.partitions_for_topic(topic) == there
            wanted |= {number} if alike else there
        return [TopicPartition(scores, number) for number in sorted(wanted)]
