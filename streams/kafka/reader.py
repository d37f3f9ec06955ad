"""Read topics without a consumer group: a range of offsets, the newest records, or on without an end.

Nothing is committed, and only committed records are read. Every operation opens its own connection.
"""

from __future__ import annotations

import asyncio
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Iterable,
    Mapping,
    Sequence,
)
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, TypeAlias

import structlog
from aiokafka import AIOKafkaConsumer, TopicPartition

from streams.errors import StreamsError
from streams.kafka.access.access import client_options
from streams.kafka.offsets import Start, offsets_at
from streams.kafka.record import Record
from streams.kafka.topics.admin import admin_client
from streams.settings.broker import KafkaSettings
from streams.telemetry.logs import where

_log = structlog.stdlib.get_logger(__name__)

FETCH_BYTES: Final = 8 * 1024 * 1024
MAX_RECORDS: Final = 8_000
"""Records of one followed batch, which the store writes in one transaction."""
SILENT_SECONDS: Final = 60.0
STOP_SECONDS: Final = 3
AGAIN_SECONDS: Final = 5.0
"""Pause before a topic is read again after an error."""
PARTITIONS_SECONDS: Final = 30.0
"""Interval between lookups of added partitions."""
_POLL_MILLISECONDS: Final = 500

Place: TypeAlias = tuple[str, int]
"""A topic and a partition."""
Ranges: TypeAlias = Mapping[int, tuple[int, int]]
"""The first offset and the end offset (exclusive) of each partition."""


@dataclass(frozen=True, slots=True)
class TopicBatch:
    """One poll of followed topics; `behind` counts the records on the broker that are not yet read."""

    records: Sequence[Record]
    positions: Mapping[Place, int]
    behind: int


class TopicReader:
    """Reads topics. `start` starts the client in place of its own method, to explain failures."""

    def __init__(
        self,
        kafka: KafkaSettings,
        env: Mapping[str, str] | None = None,
        *,
        fetch_bytes: int = FETCH_BYTES,
        start: Callable[[Any], Awaitable[None]] | None = None,
    ) -> None:
        self._kafka = kafka
        self._env = env
        self._fetch_bytes = fetch_bytes
        self._start = start or AIOKafkaConsumer.start
        self._places = asyncio.Semaphore(2)  # of `read_since`

    @asynccontextmanager
    async def _open(self) -> AsyncIterator[Any]:
        consumer = AIOKafkaConsumer(
            **client_options(self._kafka, self._env),
            client_id="judgestream-reader",
            group_id=None,
            enable_auto_commit=False,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
            max_partition_fetch_bytes=self._fetch_bytes,
        )
        try:
            await self._start(consumer)
            yield consumer
        finally:
            await stop_consumer(consumer)

    async def topics(self) -> set[str]:
        async with self._open() as consumer:
            return set(await consumer.topics())

    async def partitions(self, topic: str) -> int:
        """Return the number of a topic's partitions; 0 if it does not exist."""
        async with self._open() as consumer:
            return len(await _partitions(consumer, [topic]))

    async def ends(self, topic: str) -> dict[int, int]:
        async with self._open() as consumer:
            places = await _partitions(consumer, [topic])
            return {
                place.partition: end for place, end in (await offsets_at(consumer, places, "latest")).items()
            }

    async def between(
        self, topic: str, since: datetime | None = None, until: datetime | None = None
    ) -> Ranges:
        """Return the offsets of a time range, by record timestamps, of the partitions that have any."""
        async with self._open() as consumer:
            return await _between(consumer, topic, since or "earliest", until or "latest")

    async def read(self, topic: str, ranges: Ranges | None = None) -> AsyncGenerator[Record, None]:
        """Yield the records that a topic, or ranges of it, hold now, in order per partition."""
        if ranges is not None and not ranges:
            return
        async with self._open() as consumer:
            wanted = await _between(consumer, topic)
            if ranges is not None:
                wanted = {
                    number: (max(start, wanted[number][0]), min(end, wanted[number][1]))
                    for number, (start, end) in ranges.items()
                    if number in wanted
                }
            async for record in _read(consumer, topic, wanted):
                yield record

    async def read_at(self, topic: str, places: Iterable[tuple[int, int]]) -> AsyncGenerator[Record, None]:
        """Yield the single records at these partitions and offsets, as far as the topic still has them."""
        async with self._open() as consumer:
            held = await _between(consumer, topic)
            for partition, offset in places:
                start, end = held.get(partition, (0, 0))
                if start <= offset < end:
                    async for record in _read(consumer, topic, {partition: (offset, offset + 1)}):
                        yield record

    async def read_since(
        self, topic: str, partition: int, *, since: float, before: int
    ) -> AsyncGenerator[Record, None]:
        """Yield the records of a partition from a time, in seconds since the epoch, up to an offset."""
        async with self._places, self._open() as consumer:
            place = TopicPartition(topic, partition)
            consumer.assign([place])
            at = (await consumer.offsets_for_times({place: max(round(since * 1000), 0)}))[place]
            if at is not None:
                async for record in _read(consumer, topic, {partition: (at.offset, before)}):
                    yield record

    async def newest(self, topic: str, number: int, *, seconds: float) -> list[Record]:
        """Return the newest records of a topic, oldest first, as far as they are read within the seconds."""
        records: list[Record] = []
        async with self._open() as consumer:
            ranges = {
                partition: (max(start, end - number), end)
                for partition, (start, end) in (await _between(consumer, topic)).items()
            }
            try:
                async with asyncio.timeout(seconds):
                    async for record in _read(consumer, topic, ranges):
                        records.append(record)  # noqa: PERF401 - what is read before the timeout is kept
            except TimeoutError:
                pass
        return sorted(records, key=lambda record: record.timestamp or 0.0)[-number:]

    async def follow(
        self,
        topics: Collection[str],
        positions: Mapping[Place, int] | None = None,
        *,
        start: Start = "earliest",
    ) -> AsyncGenerator[TopicBatch, None]:
        """Yield polls of all partitions of some topics, without an end; a yielded poll is not repeated.

        Args:
            topics: Topics to read; a missing topic is ignored until it exists.
            positions: Start offsets; a partition whose offset is deleted starts at its oldest record.
            start: Start of a partition without a position; of one that is added later, its oldest record.
        """
        at, assigned, looked = dict(positions or {}), set[TopicPartition](), 0.0
        clock = asyncio.get_running_loop().time
        async with self._open() as consumer:
            while True:
                if not assigned or clock() - looked >= PARTITIONS_SECONDS:
                    looked = clock()
                    places = await _partitions(consumer, topics)
                    if set(places) - assigned:
                        if not assigned and start != "earliest":
                            consumer.assign(places)
                            at = await offsets_at(consumer, places, start) | at
                        assigned = set(places)
                        _assign(consumer, places, at)
                if not assigned:
                    await asyncio.sleep(_POLL_MILLISECONDS / 1000)
                    continue
                polled = await consumer.getmany(timeout_ms=_POLL_MILLISECONDS, max_records=MAX_RECORDS)
                read: dict[Place, int] = {
                    place: found[-1].offset + 1 for place, found in polled.items() if found
                }
                at |= read
                behind = sum(
                    max((consumer.highwater(place) or 0) - at.get(place, 0), 0) for place in assigned
                )
                records = [_record(record) for found in polled.values() for record in found]
                yield TopicBatch(records, read, behind)
                if len(records) < MAX_RECORDS // 2:
                    # Poll a slow topic a few times a second, not once per record.
                    await asyncio.sleep(0.1)

    async def keep_up(self, topic: str, take: Callable[[TopicBatch], None]) -> None:
        """Pass polls of a topic to a function, without an end; after an error, from the last one it took."""
        positions: dict[Place, int] = {}
        while True:
            try:
                async with aclosing(self.follow([topic], positions)) as batches:
                    async for batch in batches:
                        take(batch)
                        positions |= batch.positions
            except Exception as error:  # noqa: BLE001 - what depends on the topic would stand still
                _log.error(
                    "a topic cannot be read; retrying", topic=topic, error=repr(error), where=where(error)
                )
            await asyncio.sleep(AGAIN_SECONDS)

    async def committed(self, topic: str, group_id: str) -> dict[int, int]:
        async with admin_client(self._kafka, env=self._env) as admin:
            (described,) = await admin.describe_topics([topic])
            places = [TopicPartition(topic, one["partition"]) for one in described["partitions"]]
            offsets = await admin.list_consumer_group_offsets(group_id, partitions=places)
        return {place.partition: at.offset for place, at in offsets.items() if at.offset > 0}


async def _partitions(consumer: Any, topics: Collection[str]) -> list[TopicPartition]:
    """Return the partitions of the topics that exist. A request for one by name could create it."""
    cluster = await consumer._client.fetch_all_metadata()  # noqa: SLF001 - the consumer lists only assigned topics
    return [
        TopicPartition(topic, number)
        for topic in topics
        for number in sorted(cluster.partitions_for_topic(topic) or ())
    ]


async def _between(
    consumer: Any, topic: str, since: Start = "earliest", until: Start = "latest"
) -> dict[int, tuple[int, int]]:
    places = await _partitions(consumer, [topic])
    if not places:
        return {}
    consumer.assign(list(places))
    starts, ends = await offsets_at(consumer, places, since), await offsets_at(consumer, places, until)
    return {place.partition: (starts[place], ends[place]) for place in places if starts[place] < ends[place]}


def _assign(consumer: Any, places: Collection[TopicPartition], positions: Mapping[Place, int]) -> None:
    consumer.assign(list(places))
    for place in places:
        if place in positions:
            consumer.seek(place, positions[place])


async def _read(consumer: Any, topic: str, ranges: Ranges) -> AsyncIterator[Record]:
    ends = {TopicPartition(topic, number): end for number, (start, end) in ranges.items() if start < end}
    if not ends:
        return
    _assign(consumer, ends, {(topic, number): start for number, (start, _) in ranges.items()})
    clock = asyncio.get_running_loop().time
    heard = clock()
    while ends:
        polled = await consumer.getmany(*ends, timeout_ms=_POLL_MILLISECONDS)
        if polled:
            heard = clock()
        elif clock() - heard > SILENT_SECONDS:
            raise StreamsError(f"the broker has sent no records of {topic} for a minute; check the broker")
        for place, records in polled.items():
            for record in records:
                if record.offset < ends[place]:
                    yield _record(record)
        for place in list(ends):
            if await consumer.position(place) >= ends[place]:
                del ends[place]


def _record(record: Any) -> Record:
    milliseconds = record.timestamp
    return Record(
        topic=record.topic,
        partition=record.partition,
        offset=record.offset,
        timestamp=None if milliseconds is None or milliseconds < 0 else milliseconds / 1000,
        key=record.key,
        value=record.value,
        headers=tuple(record.headers),
    )


async def stop_consumer(consumer: Any) -> None:
    """Stop a consumer without a group, also where aiokafka's `stop` does not complete.

    While partitions are given up, its fetcher takes the cancellation for that of a fetch and waits forever; a
    second one ends it. If a fetch was waiting after an error, `stop` raises that fetch's cancellation.
    """
    stopping = asyncio.ensure_future(consumer.stop())
    cancelled: asyncio.CancelledError | None = None
    while not stopping.done():
        try:
            if not (await asyncio.wait({stopping}, timeout=STOP_SECONDS))[0]:
                stopping.cancel()
        except asyncio.CancelledError as error:  # of the caller, who would leave the connections open
            cancelled = error
    if stopping.cancelled():
        await consumer._client.close()  # noqa: SLF001 - aiokafka has no public way to close the client
    if cancelled is not None:
        raise cancelled
    if not stopping.cancelled():
        stopping.result()
