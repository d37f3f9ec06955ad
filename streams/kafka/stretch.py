"""Read an offset range of a topic without a consumer group, so no offsets are committed."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, TypeAlias

from aiokafka import AIOKafkaConsumer, TopicPartition

from streams.errors import StreamsError
from streams.kafka.access.access import client_options
from streams.kafka.access.stopping import stop_consumer
from streams.kafka.topics.admin import admin_client
from streams.settings import KafkaSettings

FETCH_BYTES: Final = 8 * 1024 * 1024
_WAIT_MS: Final = 1_000
_SILENT_WAITS: Final = 60
"""Consecutive empty polls until the read fails: one minute."""


Stretch: TypeAlias = Mapping[int, tuple[int, int]]
"""The first offset and the end offset (exclusive) of each partition."""


@dataclass(slots=True)
class PastRecord:
    """A record read from an offset range.

    Attributes:
        topic: Its topic.
        partition: Its partition.
        offset: Its offset.
        timestamp: Seconds since the epoch; None if the record has none.
        key: Its key.
        value: Its value; None for a tombstone.
        headers: Its headers.
    """

    topic: str
    partition: int
    offset: int
    timestamp: float | None
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


class StretchReader:
    """Reads the records that topics hold now. Each read opens its own connection, so use it rarely.

    Args:
        env: Environment variables; those of the process by default.
    """

    def __init__(self, kafka: KafkaSettings, env: Mapping[str, str] | None = None) -> None:
        self._kafka = kafka
        self._env = env

    async def between(self, topic: str, since: datetime | None, until: datetime | None) -> Stretch:
        """Return the offset range of a time range, by record timestamps.

        Args:
            since: Start at the first record of this time or later; None for the oldest record.
            until: End before the first record of this time or later; None for the current end.

        Raises:
            KafkaError: The broker returns an error.
        """
        async with self._consumer(topic) as (consumer, tps):
            if not tps:
                return {}
            starts, ends = await consumer.beginning_offsets(tps), await consumer.end_offsets(tps)
            if since is not None:
                starts = await _offsets_at(consumer, tps, since, otherwise=ends)
            if until is not None:
                ends = await _offsets_at(consumer, tps, until, otherwise=ends)
            return {tp.partition: (starts[tp], ends[tp]) for tp in tps if starts[tp] < ends[tp]}

    async def ends(self, topic: str) -> dict[int, int]:
        """Return the end offset of each partition."""
        async with self._consumer(topic) as (consumer, tps):
            return {tp.partition: end for tp, end in (await consumer.end_offsets(tps)).items()}

    async def read(
        self, topic: str, *, partition: int | None = None, start: int = 0, end: int | None = None
    ) -> AsyncIterator[PastRecord]:
        """Yield the records that a topic holds now, in order per partition.

        Args:
            partition: One partition; None for all.
            start: The first offset; deleted records are skipped.
            end: The end offset (exclusive); None for the current end.

        Raises:
            StreamsError: The broker sends no records for a minute.
            KafkaError: The broker returns an error.
        """
        async with self._consumer(topic) as (consumer, tps):
            wanted = {tp: (start, end) for tp in tps if partition in {None, tp.partition}}
            async for record in self._read(consumer, topic, wanted):
                yield record

    async def read_stretch(self, topic: str, stretch: Stretch) -> AsyncGenerator[PastRecord, None]:
        """Yield the records of an offset range, as `read` does."""
        if not stretch:
            return
        async with self._consumer(topic) as (consumer, tps):
            wanted = {tp: stretch[tp.partition] for tp in tps if tp.partition in stretch}
            async for record in self._read(consumer, topic, wanted):
                yield record

    @asynccontextmanager
    async def _consumer(self, topic: str) -> AsyncIterator[tuple[Any, list[TopicPartition]]]:
        consumer = AIOKafkaConsumer(
            topic,  # without a group: all its partitions are assigned at the start
            **client_options(self._kafka, self._env),
            group_id=None,
            enable_auto_commit=False,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
            max_partition_fetch_bytes=FETCH_BYTES,
        )
        try:
            await consumer.start()
            tps = sorted(consumer.assignment())
            consumer.unsubscribe()
            yield consumer, tps
        finally:
            await stop_consumer(consumer)

    async def _read(
        self, consumer: Any, topic: str, wanted: Mapping[TopicPartition, tuple[int, int | None]]
    ) -> AsyncIterator[PastRecord]:
        ends = await self._seek(consumer, wanted)
        silent = 0
        while ends:
            found = await consumer.getmany(*ends, timeout_ms=_WAIT_MS)
            silent = 0 if found else silent + 1
            if silent > _SILENT_WAITS:
                raise StreamsError(
                    f"the broker has sent no records of {topic} for a minute; check the broker"
                )
            for tp, records in found.items():
                for record in records:
                    if record.offset < ends[tp]:
                        yield _past(record)
            for tp in list(ends):
                if await consumer.position(tp) >= ends[tp]:
                    del ends[tp]

    async def committed(self, topic: str, group_id: str) -> dict[int, int]:
        """Return a group's committed offset for each partition of a topic that has one.

        Raises:
            KafkaError: The broker returns an error.
            TopicsError: The broker does not answer.
        """
        async with admin_client(self._kafka, env=self._env) as admin:
            (described,) = await admin.describe_topics([topic])
            places = [TopicPartition(topic, one["partition"]) for one in described["partitions"]]
            found = await admin.list_consumer_group_offsets(group_id, partitions=places)
        return {place.partition: one.offset for place, one in found.items() if one.offset > 0}

    async def _seek(
        self, consumer: Any, wanted: Mapping[TopicPartition, tuple[int, int | None]]
    ) -> dict[TopicPartition, int]:
        tps = list(wanted)
        if not tps:
            return {}
        consumer.assign(tps)
        first, last = await consumer.beginning_offsets(tps), await consumer.end_offsets(tps)
        ends = {}
        for tp, (start, end) in wanted.items():
            begin = max(start, first[tp])
            stop = last[tp] if end is None else min(end, last[tp])
            if begin < stop:
                consumer.seek(tp, begin)
                ends[tp] = stop
        return ends


async def _offsets_at(
    consumer: Any, tps: list[TopicPartition], moment: datetime, *, otherwise: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    found = await consumer.offsets_for_times(dict.fromkeys(tps, round(moment.timestamp() * 1000)))
    return {tp: otherwise[tp] if (at := found.get(tp)) is None else at.offset for tp in tps}


def _past(record: Any) -> PastRecord:
    milliseconds = record.timestamp
    return PastRecord(
        topic=record.topic,
        partition=record.partition,
        offset=record.offset,
        timestamp=None if milliseconds is None or milliseconds < 0 else milliseconds / 1000,
        key=record.key,
        value=record.value,
        headers=tuple(record.headers),
    )
