"""The transport on a broker: commits, delivery, late acknowledgements, and where a new group starts."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from aiokafka import TopicPartition
from aiokafka.errors import RebalanceInProgressError
from faust.types import TP

from streams.kafka import consumer, consumer_thread
from streams.kafka.consumer import ConsumerOptions
from streams.kafka.delivery import BufferLimit
from tests.integration.bench import Bench
from tests.integration.deadlines import until


async def test_a_late_acknowledgement_after_a_rebalance_changes_nothing(bench: Bench) -> None:
    await bench.produce(2)
    place = TP(bench.topic, 0)
    async with bench.app() as (app, hands):
        consumer = app.consumer

        def are_in_hand() -> bool:
            # The number of deliveries depends on which partition was revoked.
            return len(consumer._books) == 2 and consumer._books[place].unfinished == 2

        await until(are_in_hand, "two records")
        first = consumer._books[place]
        async with bench.app():
            await until(lambda: len(consumer._books) == 1, "one partition given away")
        await until(are_in_hand, "both partitions back and both records again")
        now = consumer._books[place]
        assert now is not first
        await until(
            lambda: sum(event.message.book is now for _, event in hands.taken) == 2, "both taken by the agent"
        )
        late = [one for one in hands.taken if one[1].message.book is not now]
        assert len(late) >= 2
        for stream, event in late:
            assert await stream.ack(event) is False
        assert now.unfinished == 2
        await hands.ack(0, 0)
        await bench.commits(1)


async def test_skipped_records_are_committed_and_never_delivered(bench: Bench) -> None:
    seen: list[int] = []

    def keep(record: Any) -> bool:
        seen.append(record.offset)
        return bool(record.offset % 10 == 0)

    await bench.produce(100)
    async with bench.app(ConsumerOptions(predicates={bench.topic: keep})) as (_, hands):
        await until(lambda: len(hands.taken) == 10, "the kept records")
        assert hands.places == [(0, offset) for offset in range(0, 100, 10)]
        for offset in range(0, 100, 10):
            await hands.ack(0, offset)
        await bench.commits(100)
    assert seen == list(range(100))


# The third of three records of 400 bytes crosses the limit.
@pytest.mark.parametrize(("records", "size_bytes", "most"), [(7, 1_000_000, 7), (100, 1_000, 3)])
async def test_a_topic_has_at_most_its_room_in_flight(
    bench: Bench, records: int, size_bytes: int, most: int
) -> None:
    await bench.produce(50, value=b"x" * 400)
    await bench.produce(50, value=b"x" * 400, partition=1)
    room = BufferLimit(records=records, bytes=size_bytes)
    async with bench.app(ConsumerOptions(limits={bench.topic: room})) as (app, hands):
        done = 0

        def is_full() -> bool:
            return len(hands.taken) in {done + most, 100}

        while done < 100:
            await until(is_full, "as many records as there is room for")
            assert sum(state.unfinished for state in app.consumer.partitions()) <= most
            # The last of them stays: there is room again before all are done.
            last = len(hands.taken) - (len(hands.taken) < 100)
            for partition, offset in hands.places[done:last]:
                await hands.ack(partition, offset)
                done += 1
        await bench.commits(50)
        await bench.commits(50, partition=1)
    for partition in (0, 1):
        assert [offset for at, offset in hands.places if at == partition] == list(range(50))


async def test_reading_again_from_an_earlier_offset(bench: Bench) -> None:
    await bench.produce(6)
    async with bench.app() as (app, hands):
        await until(lambda: len(hands.taken) == 6, "six records")
        for offset in range(6):
            await hands.ack(0, offset)
        await bench.commits(6)
        await app.consumer.seek(TP(bench.topic, 0), 2)
        await until(lambda: len(hands.taken) == 10, "four again")
        assert hands.places[6:] == [(0, 2), (0, 3), (0, 4), (0, 5)]
        await bench.commits(2)
        for stream, event in hands.taken[6:]:
            assert await stream.ack(event) is True
        await bench.commits(6)


async def test_start_offsets_that_come_after_the_next_assignment_move_nothing(bench: Bench) -> None:
    """A paused broker answers the lookup of an earlier assignment last; no record is read again for it."""
    await bench.produce(4)
    async with bench.app() as (app, hands):
        await until(lambda: len(hands.taken) == 4, "four records")
        await hands.ack(0, 0)
        await hands.ack(0, 1)
        await bench.commits(2)
        thread = app.consumer._thread
        client = thread._ensure_consumer()
        committed = client.committed
        asked, answer, answered = threading.Event(), threading.Event(), threading.Event()

        async def late(place: TopicPartition) -> int | None:
            offset: int | None = await committed(place)
            asked.set()
            await asyncio.to_thread(answer.wait)
            answered.set()
            return offset

        client.committed = late
        overtaken = asyncio.create_task(app.consumer.perform_seek())
        await until(asked.is_set, "a lookup of start offsets")
        overtaken.cancel()
        client.committed = committed
        await app.consumer.perform_seek()
        await until(lambda: len(hands.taken) == 6, "two records again")
        answer.set()
        await until(answered.is_set, "the late answer")
        await bench.produce(1)
        await until(lambda: len(hands.taken) == 7 or app._crashed.is_set(), "the next record")
        assert hands.places[4:] == [(0, 2), (0, 3), (0, 4)]


async def test_a_rebalance_that_falls_into_a_stop_does_not_hold_it_up(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumer_thread, "LEAVE_SECONDS", 50.0)
    await bench.produce(1)
    async with bench.app() as (app, hands):
        await until(lambda: len(hands.taken) == 1, "the record")
        thread = app.consumer._thread
        client = thread._ensure_consumer()
        stop = client.stop
        revoked = asyncio.Event()

        async def refuse(_: Any) -> None:
            raise RebalanceInProgressError

        async def be_asked_and_stop() -> None:
            await thread._rebalance_listener.on_partitions_revoked(client.assignment())
            revoked.set()
            await stop()

        client.commit, client.stop = refuse, be_asked_and_stop
        await hands.ack(0, 0)
        await asyncio.wait_for(app.stop(), 60)
        assert revoked.is_set()
    assert client._coordinator.generation == -1, "the group was not left"


async def test_a_stop_does_not_wait_for_the_leave_group_response(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumer_thread, "LEAVE_SECONDS", 0.2)
    async with bench.app() as (app, _):
        client = app.consumer._thread._ensure_consumer()

        async def never() -> None:
            await asyncio.Event().wait()

        client._coordinator.close = never
        await asyncio.wait_for(app.stop(), 60)
    assert not any(connection.connected() for connection in client._client._conns.values())


class _StuckConnection:
    closed: asyncio.Future[None] | None = None

    def close(self, **_: Any) -> asyncio.Future[None]:
        self.closed = self.closed or asyncio.get_running_loop().create_future()
        return self.closed

    def connected(self) -> bool:
        return False


async def test_a_connection_that_does_not_close_is_left(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumer_thread, "LEAVE_SECONDS", 0.2)
    errors: list[object] = []
    monkeypatch.setattr(threading, "excepthook", errors.append)
    async with bench.app() as (app, _):
        client = app.consumer._thread._ensure_consumer()
        stuck = client._client._conns["stuck"] = _StuckConnection()
        await asyncio.wait_for(app.stop(), 60)
    assert stuck.closed is not None
    assert stuck.closed.cancelled()
    assert errors == []


async def test_a_last_commit_that_does_not_end_is_left(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumer, "LAST_COMMIT_SECONDS", 0.2)
    monkeypatch.setattr(consumer_thread, "LEAVE_SECONDS", 50.0)
    await bench.produce(1)
    async with bench.app() as (app, hands):
        await until(lambda: len(hands.taken) == 1, "the record")
        client = app.consumer._thread._ensure_consumer()
        asked = asyncio.Event()

        async def never(_: Any) -> None:
            asked.set()
            await asyncio.Event().wait()

        client.commit = never
        await hands.ack(0, 0)
        await until(asked.is_set, "a commit")
        await asyncio.wait_for(app.stop(), 60)
    assert client._coordinator.generation == -1, "the group was not left"


async def test_a_record_that_finishes_during_a_commit_is_committed(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    under_way, go_on = asyncio.Event(), asyncio.Event()
    commit = consumer_thread.ConsumerThread.commit

    async def slow(self: consumer_thread.ConsumerThread, offsets: Any) -> bool:
        under_way.set()
        await go_on.wait()
        return await commit(self, offsets)

    monkeypatch.setattr(consumer_thread.ConsumerThread, "commit", slow)
    async with bench.app() as (app, hands):
        await bench.produce(2)
        await until(lambda: len(hands.taken) == 2, "two records")
        await hands.ack(0, 0)
        await asyncio.wait_for(under_way.wait(), 60)
        await hands.ack(0, 1)
        stopping = asyncio.create_task(app.stop())
        await until(lambda: app.consumer.should_stop, "the stop")
        go_on.set()
        await asyncio.wait_for(stopping, 60)
    assert await bench.committed() == 2


async def test_a_new_group_passes_over_the_backlog_alone(bench: Bench) -> None:
    options = ConsumerOptions(finish_seconds=0.1, starts={bench.topic: "latest"})
    await bench.produce(3)
    async with bench.app(options) as (_, hands):
        await bench.commits(3)
        await bench.produce(1)
        await until(lambda: hands.places == [(0, 3)], "the new record")
        await hands.ack(0, 3)
    await bench.produce(2)
    async with bench.app(options) as (_, hands):
        await until(lambda: len(hands.taken) == 2, "the records that came meanwhile")
        assert hands.places == [(0, 4), (0, 5)]
