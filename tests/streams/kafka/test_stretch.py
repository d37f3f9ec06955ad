"""Reading of an offset range terminates."""

from __future__ import annotations

import asyncio

from aiokafka import AIOKafkaProducer

from streams.embedded.broker import EmbeddedBroker
from streams.kafka.stretch import StretchReader
from streams.settings import KafkaSettings


async def test_a_reader_stops_while_it_gives_up_its_partitions() -> None:
    """A reader stops although it has nothing to read, in which case aiokafka's stop would wait forever."""
    async with EmbeddedBroker(topics={"t": 2}) as broker:
        producer = AIOKafkaProducer(bootstrap_servers=broker.bootstrap_servers)
        await producer.start()
        await producer.send_and_wait("t", b"one", partition=0)
        await producer.stop()
        reader = StretchReader(KafkaSettings(bootstrap_servers=broker.bootstrap_servers))

        async def read(stretch: dict[int, tuple[int, int]]) -> list[bytes | None]:
            return [record.value async for record in reader.read_stretch("t", stretch)]

        # The topic has no partition 5: nothing is read, and the reader stops at once.
        assert await asyncio.wait_for(read({5: (0, 1)}), 60) == []
        assert await asyncio.wait_for(read({}), 60) == []
        assert await asyncio.wait_for(read({0: (0, 1), 1: (0, 0)}), 60) == [b"one"]
