"""A start that is cancelled leaves no connection open, at whichever step it is cancelled."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from functools import partial

import pytest
from aiokafka import AIOKafkaConsumer

from streams.embedded.broker import EmbeddedBroker
from streams.kafka.access.access import client_options
from streams.kafka.access.connection import BrokerConnection
from streams.kafka.reader import TopicReader, stop_consumer
from streams.kafka.topics.admin import ensure_topics
from streams.settings.broker import KafkaSettings

TURNS = range(150)
"""Turns of the event loop before the cancellation; a start takes some 70, the stop after it the rest."""


@pytest.fixture
async def kafka() -> AsyncIterator[KafkaSettings]:
    async with EmbeddedBroker(topics={"t": 2}) as broker:
        yield KafkaSettings(bootstrap_servers=broker.bootstrap_servers)


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[BrokerConnection]]:
    found: list[BrokerConnection] = []
    connect = BrokerConnection.connect

    async def noted(self: BrokerConnection) -> object:
        found.append(self)
        return await connect(self)

    monkeypatch.setattr(BrokerConnection, "connect", noted)
    yield found
    for one in found:
        one.close()


async def _consumer(kafka: KafkaSettings) -> None:
    consumer = AIOKafkaConsumer("t", **client_options(kafka))
    try:
        await consumer.start()
    finally:
        await stop_consumer(consumer)


async def _read(kafka: KafkaSettings) -> None:
    async for _ in TopicReader(kafka).read("t"):
        pass


@pytest.mark.parametrize(
    "start", [_consumer, _read, partial(ensure_topics, wanted=(), create=False)],
    ids=["consumer", "read", "topics"],
)  # fmt: skip
async def test_no_connection_is_left(
    start: Callable[[KafkaSettings], Awaitable[None]], kafka: KafkaSettings, opened: list[BrokerConnection]
) -> None:
    for turns in TURNS:
        task = asyncio.ensure_future(start(kafka))
        for _ in range(turns):
            await asyncio.sleep(0)
        is_through = task.done()
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        left = [one for one in opened if one.connected()]
        assert not left, f"cancelled after {turns} turns of the event loop"
        opened.clear()
        if is_through:
            return
