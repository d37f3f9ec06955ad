"""What a reader reads; the positions of a consumer's partitions, where one resumes, and its thread."""

from __future__ import annotations

import asyncio
import io
import json
import threading
import time
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaError
from aiokafka.structs import OffsetAndTimestamp
from hypothesis import given
from hypothesis import strategies as st

from streams.embedded.broker import EmbeddedBroker
from streams.kafka import consumer_thread
from streams.kafka.delivery import OffsetBook
from streams.kafka.offsets import CHECKS, Bounds, Start, confirmed_bounds, decide, first_offsets
from streams.kafka.reader import TopicBatch, TopicReader, stop_consumer
from streams.settings.broker import KafkaSettings
from streams.settings.outputs import TelemetrySettings
from streams.telemetry.logs import set_up_logs
from tests.threaded_broker import broker_in_thread


def test_passed_over_records_move_the_position_but_not_past_the_head() -> None:
    """With 10 unfinished and all up to 500 skipped, 10 is committable."""
    book = OffsetBook(10)
    book.deliver(10, timestamp=1.5)
    book.advance(500)
    assert (book.committable, book.position, book.oldest_timestamp) == (10, 500, 1.5)
    book.finish(10)
    assert (book.committable, book.unfinished, book.oldest_timestamp) == (500, 0, None)
    with pytest.raises(ValueError, match="at least the position 500, got 499"):
        book.deliver(499)


@given(st.data())
def test_agrees_with_the_obvious_model(data: st.DataObject) -> None:
    position = data.draw(st.integers(0, 9))
    book = OffsetBook(position)
    unfinished: list[int] = []
    for _ in range(data.draw(st.integers(0, 60))):
        action = data.draw(st.sampled_from(["deliver", "advance", "finish", "finish_any"]))
        if action == "deliver":
            offset = position + data.draw(st.integers(0, 3))
            book.deliver(offset)
            unfinished.append(offset)
            position = offset + 1
        elif action == "advance":
            target = data.draw(st.integers(0, 200))
            book.advance(target)
            position = max(position, target)
        elif action == "finish" and unfinished:
            offset = data.draw(st.sampled_from(unfinished))
            unfinished.remove(offset)
            assert book.finish(offset)
        else:
            offset = data.draw(st.integers(0, 200))
            known = offset in unfinished
            assert book.finish(offset) is known
            if known:
                unfinished.remove(offset)
        assert book.position == position
        assert book.unfinished == len(unfinished)
        assert book.committable == (min(unfinished) if unfinished else position)


@pytest.mark.parametrize(
    ("offset", "bounds", "expected"),
    [
        (1184, Bounds(0, 2000, 1100), 1184),  # in range
        (2000, Bounds(0, 2000, 1100), 2000),  # the end of the log is in range
        (100, Bounds(1638, 1800, 100), 1638),  # retention
        (1184, Bounds(0, 1150, 1100), 1100),  # shorter; the committed offset exists
        (1184, Bounds(0, 20, 1100), 0),  # recreated
        (1184, Bounds(5, 20), 5),
    ],
)
def test_where_it_goes_on(offset: int, bounds: Bounds, expected: int) -> None:
    assert decide(offset, bounds) == expected


@given(st.integers(0, 50), st.integers(0, 50), st.integers(0, 50), st.one_of(st.none(), st.integers(0, 50)))
def test_where_it_goes_on_is_in_the_log(offset: int, begin: int, length: int, committed: int | None) -> None:
    bounds = Bounds(begin, begin + length, committed)
    assert decide(offset, bounds) in bounds


SHORT, STALE = Bounds(0, 20), Bounds(0, 1000)


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        ([STALE, STALE, Bounds(0, 2000)], Bounds(0, 2000)),  # in range once
        ([SHORT, SHORT, KafkaError(), *[SHORT] * CHECKS], SHORT),  # an error resets the count
    ],
)
async def test_an_offset_is_out_of_range_after_equal_answers(
    answers: list[Bounds | KafkaError], expected: Bounds
) -> None:
    async def ask() -> Bounds:
        answer = answers.pop(0)
        if isinstance(answer, KafkaError):
            raise answer
        return answer

    async def at_once(_: float) -> None:
        """Do not wait."""

    assert await confirmed_bounds(1184, ask, sleep=at_once) == expected
    assert answers == []


class _Group:
    """Partition 0 ends at 7 and 1 at 9; offset 4 is the first since any time; on "known" 0 is committed."""

    def partitions_for_topic(self, _: str) -> set[int]:
        return {0, 1}

    async def committed(self, place: TopicPartition) -> int | None:
        return 0 if place.topic == "known" and place.partition == 0 else None

    async def end_offsets(self, places: list[TopicPartition]) -> dict[TopicPartition, int]:
        return {place: 7 + 2 * place.partition for place in places}

    async def beginning_offsets(self, places: list[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(places, 0)

    async def offsets_for_times(self, times: dict[TopicPartition, int]) -> dict[TopicPartition, Any]:
        asked.extend(times.values())
        return dict.fromkeys(times, OffsetAndTimestamp(4, 0))


asked: list[int] = []


async def test_where_a_group_without_offsets_starts() -> None:
    """A topic of which it has committed another partition has an added one: it is read since an hour ago."""
    stream = io.StringIO()
    set_up_logs(TelemetrySettings(), stream)
    topics = [("qa.events", 1), ("qa.events", 0), ("x", 0), ("since", 1), ("known", 1)]
    since = datetime(2026, 1, 1, tzinfo=UTC)
    starts: dict[str, Start] = {"qa.events": "latest", "since": since, "known": "latest"}
    found = await first_offsets(_Group(), [TopicPartition(*place) for place in topics], starts)
    assert [found[TopicPartition(*place)] for place in topics] == [9, 7, 0, 4, 4]
    added, at_since = asked
    assert at_since == since.timestamp() * 1000
    assert added / 1000 == pytest.approx(time.time() - 3_600, abs=60)
    told = {line["topic"]: line for line in map(json.loads, stream.getvalue().splitlines())}
    assert told.keys() == starts.keys()
    line = told["qa.events"]
    assert line["event"] == "the group has no offsets on this topic and starts at kafka.start"
    assert (line["start"], line["offsets"]) == ("latest", {"0": 7, "1": 9})


def test_a_hanging_thread_does_not_block_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumer_thread, "THREAD_END_SECONDS", 0.01)
    go_on = threading.Event()
    service: Any = SimpleNamespace(_start_thread=go_on.wait)
    thread = consumer_thread.ConsumerThread.Worker(service)
    thread.start()
    try:
        thread.stop()
        assert thread.is_alive()
        assert thread.daemon
    finally:
        go_on.set()
        thread.join()


@asynccontextmanager
async def _topic(partitions: int) -> AsyncIterator[tuple[AIOKafkaProducer, TopicReader]]:
    async with EmbeddedBroker(topics={"t": partitions}) as broker:
        kafka = KafkaSettings(bootstrap_servers=broker.bootstrap_servers)
        async with AIOKafkaProducer(bootstrap_servers=broker.bootstrap_servers) as producer:
            yield producer, TopicReader(kafka)


async def test_a_reader_stops_while_it_gives_up_its_partitions() -> None:
    """Although it has nothing to read, in which case aiokafka's stop would wait forever."""
    async with _topic(partitions=2) as (producer, reader):
        await producer.send_and_wait("t", b"one", partition=0)

        async def read(ranges: dict[int, tuple[int, int]]) -> list[bytes | None]:
            return [record.value async for record in reader.read("t", ranges)]

        # The topic has no partition 5: nothing is read, and the reader stops at once.
        assert await asyncio.wait_for(read({5: (0, 1)}), 60) == []
        assert await asyncio.wait_for(read({}), 60) == []
        assert await asyncio.wait_for(read({0: (0, 1), 1: (0, 0)}), 60) == [b"one"]


async def test_a_fetch_that_waits_after_an_error_leaves_no_connection_open() -> None:
    with broker_in_thread() as servers:
        consumer = AIOKafkaConsumer("events", bootstrap_servers=servers, group_id=None)
        await consumer.start()
        connections = list(consumer._client._conns.values())
        consumer._fetcher._pending_tasks.add(asyncio.create_task(asyncio.sleep(600)))
        await stop_consumer(consumer)
        await stop_consumer(
            AIOKafkaConsumer("events", bootstrap_servers=servers, group_id=None)
        )  # not started
    assert connections
    assert not any(one.connected() for one in connections)


async def test_every_way_of_reading() -> None:
    """Partition 0 has a, b and c at 1, 2 and 3 s, partition 1 has d at 2.5 s."""
    async with _topic(partitions=2) as (producer, reader):
        for value, partition, ms in ((b"a", 0, 1_000), (b"b", 0, 2_000), (b"c", 0, 3_000), (b"d", 1, 2_500)):
            await producer.send_and_wait("t", value, partition=partition, timestamp_ms=ms)
        assert (await reader.partitions("t"), await reader.partitions("none")) == (2, 0)
        assert await reader.ends("t") == {0: 3, 1: 1}
        since = datetime.fromtimestamp(2, UTC)
        assert await reader.between("t", since) == {0: (1, 3), 1: (0, 1)}
        assert await reader.between("t", since, datetime.fromtimestamp(2.2, UTC)) == {0: (1, 2)}
        assert await reader.between("none") == {}
        newest = await reader.newest("t", 2, seconds=30)
        assert [(record.value, record.timestamp, record.timestamp_ms) for record in newest] == [
            (b"d", 2.5, 2_500),
            (b"c", 3.0, 3_000),
        ]
        assert [one.value async for one in reader.read("t", {0: (-5, 2), 1: (0, 99)})] in (
            [b"a", b"b", b"d"],
            [b"d", b"a", b"b"],
        )
        assert [one.value async for one in reader.read_since("t", 0, since=2.0, before=3)] == [b"b", b"c"]
        async with (
            aclosing(reader.follow(["t", "none"], {("t", 0): 2})) as rest,
            aclosing(reader.follow(["t"], start="latest")) as later,
        ):
            batch = await anext(rest)
            assert {record.value for record in batch.records} <= {b"c", b"d"}
            assert not (await anext(later)).records
            await producer.send_and_wait("t", b"e", partition=1)
            seen = [record.value or b"" for record in batch.records]
            while len(seen) < 3:
                batch = await anext(rest)
                seen += [record.value or b"" for record in batch.records]
            assert (sorted(seen), batch.behind) == ([b"c", b"d", b"e"], 0)
            while not (batch := await anext(later)).records:
                pass
            assert [record.value for record in batch.records] == [b"e"]
            assert batch.positions == {("t", 1): 2}


async def test_what_could_not_be_taken_is_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streams.kafka.reader.AGAIN_SECONDS", 0.01)
    taken: list[bytes | None] = []
    has_a, has_b = asyncio.Event(), asyncio.Event()
    failures = [ValueError("cannot be taken")]

    def take(batch: TopicBatch) -> None:
        values = [record.value for record in batch.records]
        if b"b" in values and failures:
            raise failures.pop()
        taken.extend(values)
        for value, event in ((b"a", has_a), (b"b", has_b)):
            if value in taken:
                event.set()

    async with _topic(partitions=1) as (producer, reader), asyncio.timeout(30):
        await producer.send_and_wait("t", b"a")
        following = asyncio.create_task(reader.keep_up("t", take))
        await has_a.wait()
        await producer.send_and_wait("t", b"b")
        await has_b.wait()
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
    assert (taken, failures) == ([b"a", b"b"], [])
