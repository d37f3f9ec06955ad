"""Handlers of Produce, Fetch, ListOffsets, DeleteRecords and InitProducerId."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence
from typing import Final, NamedTuple, TypeAlias

from streams.embedded.topics import Topics
from streams.embedded.wire import Api, ApiKey, ErrorCode, RefusedError, Request, Writer

_LATEST: Final = -1
_EARLIEST: Final = -2
_UNKNOWN: Final = -1


class _Found(NamedTuple):
    partition: int
    error: ErrorCode = ErrorCode.NONE
    start_offset: int = _UNKNOWN
    end_offset: int = _UNKNOWN
    batches: Sequence[bytearray] = ()


_Wanted: TypeAlias = tuple[int, int, int]
"""A partition in a fetch request, its offset, and the most bytes."""


class DataApis:
    def __init__(self, topics: Topics) -> None:
        self._topics = topics
        self._producer_ids = itertools.count(1000)

    def table(self) -> tuple[Api, ...]:
        return (
            Api(ApiKey.PRODUCE, 5, 7, self.produce),
            Api(ApiKey.FETCH, 7, 8, self.fetch),
            Api(ApiKey.LIST_OFFSETS, 2, 3, self.list_offsets),
            Api(ApiKey.DELETE_RECORDS, 0, 1, self.delete_records),
            Api(ApiKey.INIT_PRODUCER_ID, 0, 1, self.init_producer_id),
        )

    async def produce(self, request: Request) -> Writer | None:
        body = request.body
        transactional_id = body.nullable_string()
        acks = body.int16()
        body.int32()  # timeout for replicas: there are none
        topics = body.by_topic(lambda: (body.int32(), body.byte_string()))

        reply = Writer()

        def write_partition(topic: str, item: tuple[int, memoryview]) -> None:
            index, data = item
            base_offset = start_offset = _UNKNOWN
            error = ErrorCode.NONE
            try:
                _check_produce(acks, transactional_id)
                partition = self._topics.partition(topic, index)
                base_offset = self._topics.get(topic).append(partition, data)
                start_offset = partition.start_offset
            except RefusedError as refused:
                error = refused.code
            # The append time is unknown: records keep the producer's time.
            reply.numbers("ihqqq", index, error, base_offset, _UNKNOWN, start_offset)

        reply.by_topic(topics, write_partition)
        reply.int32(0)
        return None if acks == 0 else reply

    async def fetch(self, request: Request) -> Writer:
        body = request.body
        # The isolation level has no effect without transactions.
        _replica, wait_ms, min_bytes, max_bytes, _isolation = body.numbers("iiiib")
        session_id, _session_epoch = body.numbers("ii")

        def read_partition() -> _Wanted:
            partition, offset, _start, most_bytes = body.numbers("iqqi")
            return partition, offset, most_bytes

        wanted = body.by_topic(read_partition)
        if session_id != 0:  # no fetch sessions exist, so each request names all its partitions
            return _fetch_reply(request, ErrorCode.FETCH_SESSION_ID_NOT_FOUND, [])
        found = await self._wait_for(wanted, min_bytes, max_bytes, max(wait_ms, 0) / 1000)
        return _fetch_reply(request, ErrorCode.NONE, found)

    async def _wait_for(
        self, wanted: list[tuple[str, list[_Wanted]]], min_bytes: int, max_bytes: int, wait_seconds: float
    ) -> list[tuple[str, list[_Found]]]:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + wait_seconds
        while True:
            found, size, refused = self._look(wanted, max_bytes)
            left_seconds = deadline - loop.time()
            if size >= min_bytes or refused or left_seconds <= 0:
                return found
            # No other task runs between `_look` and `watch`, so no append is missed.
            woken = asyncio.Event()
            watched = [
                self._topics.partition(topic, number) for topic, ones in wanted for number, _, _ in ones
            ]
            for partition in watched:
                partition.watchers.add(woken.set)
            try:
                async with asyncio.timeout(left_seconds):
                    await woken.wait()
            except TimeoutError:
                pass
            finally:
                for partition in watched:
                    partition.watchers.discard(woken.set)

    def _look(
        self, wanted: list[tuple[str, list[_Wanted]]], max_bytes: int
    ) -> tuple[list[tuple[str, list[_Found]]], int, bool]:
        """Return the batches, their size in bytes, and whether a partition was refused."""
        size = 0
        any_refused = False
        topics = []
        for topic, ones in wanted:
            found = []
            for number, offset, most_bytes in ones:
                bounds = (_UNKNOWN, _UNKNOWN)
                try:
                    partition = self._topics.partition(topic, number)
                    bounds = (partition.start_offset, partition.end_offset)
                    room = min(most_bytes, max_bytes - size)
                    batches = partition.read(offset, room, at_least_one=size == 0)
                except RefusedError as refused:
                    any_refused = True
                    found.append(_Found(number, refused.code, *bounds))
                else:
                    size += sum(map(len, batches))
                    found.append(_Found(number, ErrorCode.NONE, *bounds, batches))
            topics.append((topic, found))
        return topics, size, any_refused

    async def list_offsets(self, request: Request) -> Writer:
        body = request.body
        body.numbers("ib")  # replica, isolation level
        topics = body.by_topic(lambda: (body.int32(), body.int64()))
        reply = request.reply()

        def write_partition(topic: str, item: tuple[int, int]) -> None:
            index, timestamp_ms = item
            error, found_ms, offset = ErrorCode.NONE, _UNKNOWN, _UNKNOWN
            try:
                partition = self._topics.partition(topic, index)
                if timestamp_ms == _LATEST:
                    offset = partition.end_offset
                elif timestamp_ms == _EARLIEST:
                    offset = partition.start_offset
                else:
                    found_ms, offset = partition.find_time(timestamp_ms) or (_UNKNOWN, _UNKNOWN)
            except RefusedError as refused:
                error = refused.code
            reply.numbers("ihqq", index, error, found_ms, offset)

        reply.by_topic(topics, write_partition)
        return reply

    async def delete_records(self, request: Request) -> Writer:
        body = request.body
        topics = body.by_topic(lambda: (body.int32(), body.int64()))
        reply = request.reply()

        def write_partition(topic: str, item: tuple[int, int]) -> None:
            index, offset = item
            error, start_offset = ErrorCode.NONE, _UNKNOWN
            try:
                start_offset = self._topics.partition(topic, index).delete_before(offset)
            except RefusedError as refused:
                error = refused.code
            reply.numbers("iqh", index, start_offset, error)

        reply.by_topic(topics, write_partition)
        return reply

    async def init_producer_id(self, request: Request) -> Writer:
        transactional_id = request.body.nullable_string()
        reply = request.reply()
        if transactional_id is not None:
            reply.numbers("hqh", _no_transactions().code, _UNKNOWN, _UNKNOWN)
        else:
            reply.numbers("hqh", ErrorCode.NONE, next(self._producer_ids), 0)
        return reply


def _fetch_reply(request: Request, error: ErrorCode, topics: list[tuple[str, list[_Found]]]) -> Writer:
    reply = request.reply()

    def write_partition(_: str, found: _Found) -> None:
        # The last stable offset is the end: there are no transactions.
        end = found.end_offset
        reply.numbers("ihqqq", found.partition, found.error, end, end, found.start_offset)
        reply.array((), reply.int64)  # aborted transactions
        reply.buffers(found.batches)

    reply.numbers("hi", error, 0)  # no session
    reply.by_topic(topics, write_partition)
    return reply


def _check_produce(acks: int, transactional_id: str | None) -> None:
    if acks not in {-1, 0, 1}:
        raise RefusedError(ErrorCode.INVALID_REQUIRED_ACKS, f"acks must be -1, 0 or 1, got {acks}")
    if transactional_id is not None:
        raise _no_transactions()


def _no_transactions() -> RefusedError:
    return RefusedError(
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        "the embedded broker has no transactions: leave transactional_id unset, or use Apache Kafka",
    )
