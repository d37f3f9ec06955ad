"""The worker's progress by its committed offsets, independent of its own metrics."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from aiokafka import TopicPartition

POLL_SECONDS = 0.1


class Progress:
    """Compares a consumer group's committed offsets with the ends of its topics.

    Args:
        admin: A started aiokafka admin client.
        consumer: A started aiokafka consumer, to read the ends of partitions.
        group_id: The worker's consumer group.
        events_topic: The first topic of the chain.
        later_topics: The following topics: tasks and results.
        partitions: Partitions of each topic.
    """

    def __init__(
        self,
        admin: Any,
        consumer: Any,
        *,
        group_id: str,
        events_topic: str,
        later_topics: Sequence[str],
        partitions: int,
    ) -> None:
        self._admin = admin
        self._consumer = consumer
        self._group_id = group_id
        self._events = [TopicPartition(events_topic, number) for number in range(partitions)]
        self._later = [
            TopicPartition(topic, number) for topic in later_topics for number in range(partitions)
        ]
        self.finished_events = 0
        self.waiting_later = 0
        self.finished = 0
        """Finished records of all topics; grows while anything moves."""

    async def run(self) -> None:
        """Poll until cancelled."""
        while True:
            await self.look()
            await asyncio.sleep(POLL_SECONDS)

    async def look(self) -> None:
        """Poll once."""
        known = await self._admin.list_consumer_group_offsets(self._group_id)
        # Commits before ends: records written in between count as waiting, never as done.
        ends = await self._consumer.end_offsets(self._later)
        committed = {
            tp: max(known[tp].offset, 0) if tp in known else 0 for tp in (*self._events, *self._later)
        }
        self.finished_events = sum(committed[tp] for tp in self._events)
        self.waiting_later = sum(max(ends[tp] - committed[tp], 0) for tp in self._later)
        self.finished = sum(committed.values())

    def unfinished(self, sent: int) -> int:
        """Return the number of records waiting for the worker.

        Args:
            sent: Number of events sent so far.
        """
        return max(sent - self.finished_events, 0) + self.waiting_later

    def is_done(self, sent: int) -> bool:
        """Return whether all events and the records derived from them are finished.

        Args:
            sent: Number of events sent in total.
        """
        return self.finished_events >= sent and self.waiting_later == 0
