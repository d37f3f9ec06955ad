"""Read topics without a consumer group, from positions that the reader stores, and continue at their end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Self

import structlog
from aiokafka import AIOKafkaConsumer, TopicPartition

from streams.kafka.access.access import Access
from streams.kafka.access.stopping import stop_consumer
from streams.settings import KafkaSettings

_log = structlog.stdlib.get_logger(__name__)

Place = tuple[str, int]
"""A topic and a partition."""

MAX_RECORDS: Final = 8_000
"""Records written in one transaction; larger transactions write fewer index pages twice."""
FETCH_BYTES: Final = 8 * 1024 * 1024
POLL_MILLISECONDS: Final = 500
GATHER_SECONDS: Final = 0.1
PARTITIONS_SECONDS: Final = 30.0
"""Interval between lookups of added partitions."""


@dataclass(frozen=True, slots=True)
class Read:
    """The result of one poll.

    Attributes:
        records: Records, in order per partition.
        positions: The next offset of each partition that returned records.
        behind: Records on the broker that are not yet read.
    """

    records: Sequence[Any]
    positions: Mapping[Place, int]
    behind: int


class Following:
    """Reads all partitions of some topics, from given positions.

    Args:
        topics: Topics to read; a missing topic is ignored until it exists.
        positions: Start offsets; a partition without one, or whose offset is deleted, starts at its oldest
            record.

    Raises:
        SettingsError: A secret or certificate is missing.
    """

    def __init__(self, kafka: KafkaSettings, topics: Collection[str], positions: Mapping[Place, int]) -> None:
        self._topics = tuple(topics)
        self._positions = dict(positions)
        self._assigned: set[TopicPartition] = set()
        self._consumer = AIOKafkaConsumer(
            **Access(kafka).client_options(),
            client_id="judgestream-store",
            group_id=None,
            enable_auto_commit=False,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
            max_partition_fetch_bytes=FETCH_BYTES,
            metadata_max_age_ms=round(PARTITIONS_SECONDS * 1000),
        )

    async def __aenter__(self) -> Self:
        try:
            await self._consumer.start()
        except BaseException:
            await stop_consumer(self._consumer)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await stop_consumer(self._consumer)

    async def reads(self) -> AsyncIterator[Read]:
        """Yield polls forever; a yielded poll is not repeated.

        Raises:
            KafkaError: The broker returns an error.
        """
        loop = asyncio.get_running_loop()
        looked = -PARTITIONS_SECONDS
        while True:
            if loop.time() - looked >= PARTITIONS_SECONDS or not self._assigned:
                looked = loop.time()
                await self._assign()
            if not self._assigned:
                await asyncio.sleep(POLL_MILLISECONDS / 1000)
                continue
            found = await self._consumer.getmany(timeout_ms=POLL_MILLISECONDS, max_records=MAX_RECORDS)
            records = [record for some in found.values() for record in some]
            positions = {
                (partition.topic, partition.partition): some[-1].offset + 1
                for partition, some in found.items()
                if some
            }
            self._positions |= positions
            yield Read(records, positions, self._behind())
            if len(records) < MAX_RECORDS // 2:
                # Poll a slow topic a few times a second, not once per record.
                await asyncio.sleep(GATHER_SECONDS)

    async def _assign(self) -> None:
        """Assign every partition, each from its next offset."""
        cluster = await self._consumer._client.fetch_all_metadata()  # noqa: SLF001 - the consumer lists only assigned topics
        partitions = {
            TopicPartition(topic, number)
            for topic in self._topics
            for number in cluster.partitions_for_topic(topic) or ()
        }
        new = partitions - self._assigned
        if not new:
            return
        self._consumer.assign(sorted(partitions))
        self._assigned = partitions
        for one in partitions:
            start = self._positions.get((one.topic, one.partition))
            if start is not None:
                self._consumer.seek(one, start)

    def _behind(self) -> int:
        ends = {one: self._consumer.highwater(one) or 0 for one in self._assigned}
        return sum(
            max(end - self._positions.get((one.topic, one.partition), 0), 0) for one, end in ends.items()
        )
