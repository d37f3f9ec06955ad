"""One topic, one group and applications on them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

from aiokafka import AIOKafkaProducer, TopicPartition

from streams.kafka.app import App, add_agent, build_app
from streams.kafka.consumer import ConsumerOptions
from streams.settings.broker import KafkaSettings
from tests.integration.admin import committed_offsets
from tests.integration.deadlines import until


class Hands:
    """An agent that keeps its records until `ack`."""

    def __init__(self) -> None:
        self.taken: list[tuple[Any, Any]] = []

    async def run(self, stream: Any) -> None:
        manual = stream.noack()
        async for event in manual.events():
            self.taken.append((manual, event))

    @property
    def places(self) -> list[tuple[int, int]]:
        return [(event.message.partition, event.message.offset) for _, event in self.taken]

    async def ack(self, partition: int, offset: int) -> None:
        for stream, event in self.taken:
            if (event.message.partition, event.message.offset) == (partition, offset):
                await stream.ack(event)


class Bench:
    def __init__(self, bootstrap_servers: str, topic: str, *, session_timeout_seconds: int = 30) -> None:
        self.topic = topic
        self.kafka = KafkaSettings(
            bootstrap_servers=bootstrap_servers,
            group_id=f"{topic}-group",
            session_timeout_seconds=session_timeout_seconds,
        )

    @contextlib.asynccontextmanager
    async def app(self, options: ConsumerOptions | None = None) -> AsyncIterator[tuple[App, Hands]]:
        hands = Hands()
        app = build_app(
            self.kafka, group_id=self.kafka.group_id, options=options or ConsumerOptions(finish_seconds=0.1)
        )
        add_agent(app, self.topic, "hands", hands.run)
        await asyncio.wait_for(app.start(), 60)
        try:
            yield app, hands
        finally:
            await asyncio.wait_for(app.stop(), 60)

    async def produce(self, count: int, *, partition: int = 0, value: bytes = b"v") -> None:
        async with AIOKafkaProducer(bootstrap_servers=self.kafka.bootstrap_servers) as producer:
            sent = [await producer.send(self.topic, value, partition=partition) for _ in range(count)]
            await asyncio.gather(*sent)

    async def committed(self, partition: int = 0) -> int | None:
        places, servers = [TopicPartition(self.topic, partition)], self.kafka.bootstrap_servers
        (offset,) = await committed_offsets(self.kafka.group_id, places, bootstrap_servers=servers)
        return offset

    async def commits(self, offset: int, partition: int = 0) -> None:
        async def is_committed() -> bool:
            return await self.committed(partition) == offset

        await until(is_committed, f"offset {offset} committed on partition {partition}")
