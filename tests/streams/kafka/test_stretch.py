"""Reading a stretch of a topic ends, whatever lies there."""

from __future__ import annotations

import asyncio

from aiokafka import AIOKafkaProducer

from streams.embedded.broker import EmbeddedBroker
from streams.kafka.stretch import StretchReader
from streams.settings import KafkaSettings


async def test_a_reader_stops_while_it_gives_up_its_partitions() -> None:
    """As where there is nothing to read between two offsets: aiokafka's own stop then waits forever."""
    async with EmbeddedBroker(topics={"t": 2}) as broker:
        producer = AIOKafkaProducer(bootstrap_servers=broker.bootstrap_servers)
        await producer.start()
        await producer.send_and_wait("t", b"one", partition=0)
        await producer.stop()
        reader = StretchReader(KafkaSettings(bootstrap_servers=broker.bootstrap_servers))

        async def read(stretch: dict[int, tuple[int, int]]) -> list[bytes | None]:
            return [record.value async for record in reader.read_stretch("t", stretch)]

        # Partition 5 is none of the topic's: nothing is read, and the reader stops at once.
        assert await asyncio.wait_for(read({5: (0, 1)}), 60) == []
        assert await asyncio.wait_for(read({}), 60) == []
        assert await asyncio.wait_for(read({0: (0, 1), 1: (0, 0)}), 60) == [b"one"]
