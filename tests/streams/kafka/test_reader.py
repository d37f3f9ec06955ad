"""Reading of an offset range terminates."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from datetime import UTC, datetime

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from streams.embedded.broker import EmbeddedBroker
from streams.kafka.reader import TopicReader, stop_consumer
from streams.settings.broker import KafkaSettings
from tests.threaded_broker import broker_in_thread


async def test_a_reader_stops_while_it_gives_up_its_partitions() -> None:
    """A reader stops although it has nothing to read, in which case aiokafka's stop would wait forever."""
    async with EmbeddedBroker(topics={"t": 2}) as broker:
        producer = AIOKafkaProducer(bootstrap_servers=broker.bootstrap_servers)
        await producer.start()
        await producer.send_and_wait("t", b"one", partition=0)
        await producer.stop()
        reader = TopicReader(KafkaSettings(bootstrap_servers=broker.bootstrap_servers))

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
    assert connections
    assert not any(one.connected() for one in connections)


async def test_a_consumer_that_did_not_start_is_stopped() -> None:
    with broker_in_thread() as servers:
        await stop_consumer(AIOKafkaConsumer("events", bootstrap_servers=servers, group_id=None))


async def test_every_way_of_reading() -> None:
    """Partition 0 has a, b and c at 1, 2 and 3 s, partition 1 has d at 2.5 s."""
    async with (
        EmbeddedBroker(topics={"t": 2}) as broker,
        AIOKafkaProducer(bootstrap_servers=broker.bootstrap_servers) as producer,
    ):
        for value, partition, ms in (
            (b"a", 0, 1_000),
            (b"b", 0, 2_000),
            (b"c", 0, 3_000),
            (b"d", 1, 2_500),
        ):
            await producer.send_and_wait("t", value, partition=partition, timestamp_ms=ms)
        reader = TopicReader(KafkaSettings(bootstrap_servers=broker.bootstrap_servers))
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
