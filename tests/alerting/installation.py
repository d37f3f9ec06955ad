"""An installation in this event loop: broker, judge, worker and adjustable traffic."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Collection
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

from aiokafka import AIOKafkaProducer
from prometheus_client import CollectorRegistry

from judge.chat import OFFLINE_MODEL
from judge.offline.server import OfflineJudge
from streams.demo.events import EVERY, UNDECODABLE_AT, UNROUTABLE_AT, load_questions, make_record
from streams.demo.stage import demo_settings, demo_topics
from streams.embedded.broker import EmbeddedBroker
from streams.kafka.topics.table import AGENTS
from streams.settings.judge import BudgetSettings, EndpointSettings
from streams.settings.tree import Settings
from streams.worker.run import Running, run_worker
from tests.integration.deadlines import until

_STOP_SECONDS = 40.0


class Installation:
    """One running worker and its traffic.

    Args:
        name: The scrape job.
        url: The address of the worker's port.
        producer: A producer for its broker.
        topic: The topic of events.
    """

    def __init__(self, name: str, url: str, producer: AIOKafkaProducer, topic: str) -> None:
        self.name = name
        self.url = url
        self._producer = producer
        self._topic = topic
        self.worse = False
        """If true, most further answers are bad."""
        self.paused = False
        """If true, `feed` sends nothing."""

    async def send(self, value: bytes) -> None:
        """Send one event."""
        await (await self._producer.send(self._topic, value))

    async def feed(self, rate: float, apps: Collection[str]) -> None:
        """Send the demo's events at this rate, without the broken ones, which would raise another alert."""
        questions = tuple(one for one in load_questions() if not apps or one.app in apps)
        loop = asyncio.get_running_loop()
        started = loop.time()
        index = 0
        while True:
            if not self.paused and index % EVERY not in {UNDECODABLE_AT, UNROUTABLE_AT}:
                record = make_record(questions, index, worse=self.worse, occurred_at=datetime.now(UTC))
                await self.send(record.value)
            index += 1
            await asyncio.sleep(max(started + index / rate - loop.time(), 0.0))


@asynccontextmanager
async def installation(
    name: str, *, rate: float, apps: Collection[str] = (), store: Path | None = None
) -> AsyncIterator[Installation]:
    """Run an installation; it has ended after the block.

    Args:
        name: The scrape job.
        rate: Events a second.
        apps: Only these apps; empty for all.
        store: The verdict store's file, and a budget is set; None without both.
    """
    async with AsyncExitStack() as stack:
        broker = await stack.enter_async_context(
            EmbeddedBroker(
                topics=demo_topics(Settings()) | {Settings().topics.budget: 1}, auto_create_topics=False
            )
        )
        judge = await stack.enter_async_context(OfflineJudge(latency_seconds=0.0))
        settings = demo_settings(
            bootstrap_servers=broker.bootstrap_servers,
            endpoint=EndpointSettings(name="offline", base_url=judge.base_url, model=OFFLINE_MODEL),
        )
        agents = AGENTS
        if store is not None:
            kept = settings.store.model_copy(update={"path": store})
            judging = settings.judge.model_copy(update={"budget": BudgetSettings(calls_per_day=100_000)})
            settings = settings.model_copy(update={"store": kept, "judge": judging})
            agents = (*AGENTS, "store")
        stop = asyncio.Event()
        ready: asyncio.Future[Running] = asyncio.get_running_loop().create_future()
        worker = asyncio.create_task(
            run_worker(
                settings, stop=stop, agents=agents, registry=CollectorRegistry(), on_ready=ready.set_result
            )
        )
        stack.push_async_callback(_end, worker, stop)
        await until(lambda: ready.done() or worker.done(), "a worker that reads", deadline_seconds=45)
        if worker.done():
            await worker
        producer = AIOKafkaProducer(bootstrap_servers=broker.bootstrap_servers)
        await producer.start()
        stack.push_async_callback(producer.stop)
        made = Installation(name, ready.result().url, producer, settings.topics.events)
        traffic = asyncio.create_task(made.feed(rate, apps))
        stack.push_async_callback(_cancel, traffic)
        yield made
        assert not traffic.done(), "the traffic ended by itself"


async def _end(worker: asyncio.Task[None], stop: asyncio.Event) -> None:
    stop.set()
    await asyncio.wait_for(worker, _STOP_SECONDS)


async def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
