"""How far the worker is, from what it has committed: independent of what it says about itself."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from aiokafka import TopicPartition

POLL_SECONDS = 0.1


class Progress:
    """Compares what a consumer group has committed with what its topics hold.

    Args:
        admin: A started aiokafka admin client.
        consumer: A started aiokafka consumer, for the ends of partitions.
        group_id: The worker's consumer group.
        events_topic: The first topic of the chain.
        later_topics: The topics behind it: tasks and results.
        partitions: Partitions that each of them has.
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
        """Look again and again, forever."""
        while True:
            await self.look()
            await asyncio.sleep(POLL_SECONDS)

    async def look(self) -> None:
        """Look once."""
        known = await self._admin.list_consumer_group_offsets(self._group_id)
        # Commits first, ends after: what is written between the two counts as waiting, never as done.
        ends = await self._consumer.end_offsets(self._later)
        committed = {
            tp: max(known[tp].offset, 0) if tp in known else 0 for tp in (*self._events, *self._later)
        }
        self.finished_events = sum(committed[tp] for tp in self._events)
        self.waiting_later = sum(max(ends[tp] - committed[tp], 0) for tp in self._later)
        self.finished = sum(committed.values())

    def unfinished(self, sent: int) -> int:
        """Count the records that wait for the worker.

        Args:
            sent: Events sent so far.
        """
        return max(sent - self.finished_events, 0) + self.waiting_later

    def is_done(self, sent: int) -> bool:
        """Say whether all events and all that followed from them is finished.

        Args:
            sent: Events sent in all.
        """
        return self.finished_events >= sent and self.waiting_later == 0
