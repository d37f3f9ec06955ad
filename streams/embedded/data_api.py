"""Handlers of Produce, Fetch, ListOffsets, DeleteRecords and InitProducerId."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any, Final

from aiokafka.errors import (
    BrokerResponseError,
    FetchSessionIdNotFound,
    InvalidRequiredAcksError,
    TransactionalIdAuthorizationFailed,
)
from aiokafka.protocol.admin import DeleteRecordsRequest_v0
from aiokafka.protocol.fetch import FetchRequest_v7
from aiokafka.protocol.offset import OffsetRequest_v2
from aiokafka.protocol.produce import ProduceRequest_v5
from aiokafka.protocol.transaction import InitProducerIdRequest_v0

from streams.embedded.topics import Topics
from streams.embedded.wire import Api, Request, attempt, by_topic

_LATEST: Final = -1
_EARLIEST: Final = -2
_UNKNOWN: Final = -1


class DataApis:
    def __init__(self, topics: Topics) -> None:
        self._topics = topics
        self._producer_ids = itertools.count(1000)

    def table(self) -> tuple[Api, ...]:
        return (
            Api(ProduceRequest_v5, 7, self.produce),
            Api(FetchRequest_v7, 8, self.fetch),
            Api(OffsetRequest_v2, 3, self.list_offsets),
            Api(DeleteRecordsRequest_v0, 1, self.delete_records),
            Api(InitProducerIdRequest_v0, 1, self.init_producer_id),
        )

    async def produce(self, request: Request) -> tuple[Any, ...] | None:
        acks, transactional_id = request.body.required_acks, request.body.transactional_id

        def append(topic: str, number: int, data: bytes | None) -> tuple[int, int]:
            if acks not in {-1, 0, 1}:
                raise InvalidRequiredAcksError(f"acks must be -1, 0 or 1, got {acks}")
            _refuse_transactions(transactional_id)
            partition = self._topics.partition(topic, number)
            return self._topics.get(topic).append(partition, data or b""), partition.start_offset

        def answer(topic: str, number: int, data: bytes | None) -> tuple[int, ...]:
            code, _, (base, start) = attempt(lambda: append(topic, number, data), (_UNKNOWN, _UNKNOWN))
            # The append time is unknown: records keep the producer's time.
            return number, code, base, _UNKNOWN, start

        answers = by_topic(request.body.topics, answer)
        return None if acks == 0 else (answers, 0)

    async def fetch(self, request: Request) -> tuple[Any, ...]:
        body = request.body  # the isolation level has no effect without transactions
        if body.session_id != 0:  # no fetch sessions exist, so each request names all its partitions
            return 0, FetchSessionIdNotFound.errno, 0, []
        loop = asyncio.get_running_loop()
        deadline = loop.time() + max(body.max_wait_time, 0) / 1000
        while True:
            found, size, refused = self._look(body)
            left_seconds = deadline - loop.time()
            if size >= body.min_bytes or refused or left_seconds <= 0:
                return 0, 0, 0, found
            # No other task runs between `_look` and `watch`, so no append is missed.
            woken = asyncio.Event()
            watched = [
                self._topics.partition(topic, number)
                for topic, partitions in body.topics or ()
                for number, *_ in partitions or ()
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

    def _look(self, body: Any) -> tuple[list[tuple[str, list[Any]]], int, bool]:
        """Return what the partitions hold now, its size in bytes, and whether a partition was refused."""
        size, any_refused = 0, False

        def read(topic: str, number: int, offset: int, _: int, most_bytes: int) -> tuple[Any, ...]:
            nonlocal size, any_refused
            code, start, end, data = 0, _UNKNOWN, _UNKNOWN, b""
            try:
                log = self._topics.partition(topic, number)
                start, end = log.start_offset, log.end_offset
                room = min(most_bytes, body.max_bytes - size)
                data = b"".join(log.read(offset, room, at_least_one=size == 0))
            except BrokerResponseError as error:
                code, any_refused = error.errno, True
            size += len(data)
            # The last stable offset is the end, and none is aborted: there are no transactions.
            return number, code, end, end, start, [], data

        return by_topic(body.topics, read), size, any_refused

    async def list_offsets(self, request: Request) -> tuple[Any, ...]:
        def find(topic: str, number: int, timestamp_ms: int) -> tuple[int, int]:
            partition = self._topics.partition(topic, number)
            if timestamp_ms == _LATEST:
                return _UNKNOWN, partition.end_offset
            if timestamp_ms == _EARLIEST:
                return _UNKNOWN, partition.start_offset
            return partition.find_time(timestamp_ms) or (_UNKNOWN, _UNKNOWN)

        def answer(topic: str, number: int, timestamp_ms: int) -> tuple[int, ...]:
            code, _, found = attempt(lambda: find(topic, number, timestamp_ms), (_UNKNOWN, _UNKNOWN))
            return number, code, *found

        return 0, by_topic(request.body.topics, answer)

    async def delete_records(self, request: Request) -> tuple[Any, ...]:
        def answer(topic: str, number: int, offset: int) -> tuple[int, ...]:
            code, _, start = attempt(
                lambda: self._topics.partition(topic, number).delete_before(offset), _UNKNOWN
            )
            return number, start, code

        return 0, by_topic(request.body.topics, answer)

    async def init_producer_id(self, request: Request) -> tuple[Any, ...]:
        code, *_ = attempt(lambda: _refuse_transactions(request.body.transactional_id), None)
        return 0, code, *((_UNKNOWN, _UNKNOWN) if code else (next(self._producer_ids), 0))


def _refuse_transactions(transactional_id: str | None) -> None:
    if transactional_id is not None:
        raise TransactionalIdAuthorizationFailed(
            "the embedded broker has no transactions: leave transactional_id unset, or use Apache Kafka"
        )
