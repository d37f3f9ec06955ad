"""Reading of an offset range terminates."""

from __future__ import annotations

import asyncio

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from streams.embedded.broker import EmbeddedBroker
from streams.kafka.reader import TopicReader, stop_consumer
from streams.settings import KafkaSettings
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
    """A stop cancels a waiting fetch and closes all connections."""
    with broker_in_thread() as servers:
        consumer = AIOKafkaConsumer("events", bootstrap_servers=servers, group_id=None)
        await consumer.start()
        connections = list(consumer._client._conns.values())
        consumer._fetcher._pending_tasks.add(asyncio.create_task(asyncio.sleep(600)))
        await stop_consumer(consumer)
    assert connections
    assert not any(one.connected() for one in connections)


async def test_a_consumer_that_did_not_start_is_stopped() -> None:
    """A consumer that was not started can be stopped."""
    with broker_in_thread() as servers:
        await stop_consumer(AIOKafkaConsumer("events", bootstrap_servers=servers, group_id=None))
