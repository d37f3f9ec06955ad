"""Reads topics without a consumer group, from positions kept by the reader, to their end and on."""

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
"""A topic and a partition of it."""

MAX_RECORDS: Final = 8_000
"""Written in one transaction: the more there are, the fewer pages of an index are written twice."""
FETCH_BYTES: Final = 8 * 1024 * 1024
POLL_MILLISECONDS: Final = 500
GATHER_SECONDS: Final = 0.1
PARTITIONS_SECONDS: Final = 30.0
"""How often partitions that were added are looked for."""


@dataclass(frozen=True, slots=True)
class Read:
    """What one poll brought.

    Attributes:
        records: In the order of each partition.
        positions: By partition, the offset that comes next; also of partitions whose oldest records are gone.
        behind: Records that are there and were not read yet.
    """

    records: Sequence[Any]
    positions: Mapping[Place, int]
    behind: int


class Following:
    """All partitions of some topics, from given positions on.

    Args:
        kafka: Where the broker is.
        topics: What to read; one that is not there is left out until it is.
        positions: Offsets to begin with; a partition that is not named, or whose offset is gone, from its
            oldest record.

    Raises:
        SettingsError: A secret or certificate is not where the settings say.
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
        """Read forever; what was yielded has been read, whatever becomes of it.

        Raises:
            KafkaError: The broker refuses.
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
                # What trickles in is taken a few times a second, not record by record.
                await asyncio.sleep(GATHER_SECONDS)

    async def _assign(self) -> None:
        """Take every partition there is, each from where it was read to."""
        cluster = await self._consumer._client.fetch_all_metadata()  # noqa: SLF001 - the consumer knows assigned ones alone
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
