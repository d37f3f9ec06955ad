"""An installation in this event loop: broker, judge, worker and adjustable traffic."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from aiokafka import AIOKafkaProducer

from judge.chat import OFFLINE_MODEL
from judge.offline.server import OfflineJudge
from streams.demo.events import EVERY, UNDECODABLE_AT, UNROUTABLE_AT, load_questions, make_record
from streams.demo.run import demo_settings, demo_topics
from streams.embedded.broker import EmbeddedBroker
from streams.kafka.topics.table import AGENTS
from streams.settings.judge import BudgetSettings, EndpointSettings
from streams.settings.tree import Settings
from tests.integration.stage import running_worker


@dataclass
class Traffic:
    """The demo's events, without the broken ones, which would raise another alert."""

    producer: AIOKafkaProducer
    topic: str
    url: str = ""
    """That of the worker's port."""
    worse: bool = False
    """Whether most further answers are bad."""
    paused: bool = False

    async def send(self, value: bytes) -> None:
        await self.producer.send_and_wait(self.topic, value)

    async def feed(self, rate: float) -> None:
        questions, loop = load_questions(), asyncio.get_running_loop()
        started, index = loop.time(), 0
        while True:
            if not self.paused and index % EVERY not in {UNDECODABLE_AT, UNROUTABLE_AT}:
                record = make_record(questions, index, worse=self.worse, occurred_at=datetime.now(UTC))
                await self.send(record.value)
            index += 1
            await asyncio.sleep(max(started + index / rate - loop.time(), 0.0))


@asynccontextmanager
async def traffic(servers: str, topic: str, *, rate: float) -> AsyncIterator[Traffic]:
    """Send events at this rate until the end of the block."""
    async with AIOKafkaProducer(bootstrap_servers=servers) as producer:
        made = Traffic(producer, topic)
        task = asyncio.create_task(made.feed(rate))
        try:
            yield made
            assert not task.done(), "the traffic ended by itself"
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task


@asynccontextmanager
async def installation(*, rate: float, store: Path) -> AsyncIterator[Traffic]:
    """Run an installation with a verdict store and a budget; it has ended after the block."""
    topics = demo_topics(Settings()) | {Settings().topics.budget: 1}
    async with (
        EmbeddedBroker(topics=topics, auto_create_topics=False) as broker,
        OfflineJudge(latency_seconds=0.0) as judge,
    ):
        settings = demo_settings(
            bootstrap_servers=broker.bootstrap_servers,
            endpoint=EndpointSettings(name="offline", base_url=judge.base_url, model=OFFLINE_MODEL),
        )
        kept = settings.store.model_copy(update={"path": store})
        judging = settings.judge.model_copy(update={"budget": BudgetSettings(calls_per_day=100_000)})
        settings = settings.model_copy(update={"store": kept, "judge": judging})
        async with (
            running_worker(settings, agents=(*AGENTS, "store")) as (worker, _),
            traffic(broker.bootstrap_servers, settings.topics.events, rate=rate) as made,
        ):
            made.url = worker.url
            yield made
