"""The whole product in one process and event loop: broker, judge, worker, events and a display."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient
from prometheus_client import CollectorRegistry

from judge.chat import OFFLINE_MODEL
from judge.offline.server import OfflineJudge
from streams.demo.accounting import Accounts
from streams.demo.board import Board, Rate
from streams.demo.events import DemoRecord, load_questions
from streams.demo.feed import Cycle, Feed, bounded_records, endless_records, file_records
from streams.demo.incidents import told_incidents
from streams.demo.observer import Observer
from streams.demo.progress import Progress
from streams.demo.stage import PARTITIONS, demo_ranges, demo_settings, demo_topics
from streams.demo.summary import summary
from streams.demo.view import Flow, Heading
from streams.embedded.broker import EmbeddedBroker
from streams.errors import DemoError
from streams.judging.prices import may_cost
from streams.kafka.topics.flow import AGENTS
from streams.settings import EndpointSettings, Settings
from streams.worker.run import Running, run_worker

TICK_SECONDS = 0.25
STALLED_SECONDS = 60.0
"""Time without progress after which a bounded demo stops with an error."""
STOP_SECONDS = 30.0
LIVE_RATE = 20.0
LIVE_HEAD_START = 60
PAID_RATE = 2.0
"""Events per second if verdicts cost money."""
PAID_BOUNDED_RATE = 10.0
MAX_RECORD_BYTES = 15 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The options of a demo.

    Attributes:
        events: Number of events; None: until stopped.
        lines: Events to use instead of the demo's own.
        endpoint: The judge; None for the offline one.
        judge_latency_seconds: Simulated latency of the offline judge.
        started: Start of the process on the monotonic clock.
        metrics: Names of the metrics; empty: the two built-in ones.
    """

    events: int | None
    lines: Sequence[bytes] | None
    endpoint: EndpointSettings | None
    judge_latency_seconds: float
    started: float
    metrics: Sequence[str] = ()


class Display(Protocol):
    """Shows the board."""

    def begin(self, board: Board, heading: Heading) -> None:
        """Set the board and heading."""

    def update(self, flow: Flow) -> None:
        """Show the current state; called a few times per second."""


@dataclass(frozen=True, slots=True)
class Ending:
    """The summary, and whether the demo ran to its end (False after a stop)."""

    values: Mapping[str, Any]
    complete: bool


async def run_demo(plan: Plan, display: Display, stop: asyncio.Event) -> Ending:
    """Run until all events are accounted for or `stop` is set.

    Args:
        plan: The options.
        display: Shows the board.
        stop: Set it to end early.

    Raises:
        DemoError: There was no progress for a long time.
        StreamsError: The worker could not run.
        JudgeConfigurationError: The judge does not work as configured.
    """
    async with AsyncExitStack() as stack:
        endpoint = plan.endpoint or await _offline_endpoint(stack, plan.judge_latency_seconds)
        made = partial(demo_settings, endpoint=endpoint, metrics=plan.metrics)
        topics = demo_topics(made(bootstrap_servers="localhost:9092"))
        broker = await stack.enter_async_context(EmbeddedBroker(topics=topics, auto_create_topics=False))
        settings = made(
            bootstrap_servers=broker.bootstrap_servers,
            judge_latency_seconds=plan.judge_latency_seconds,
            store_path=Path(stack.enter_context(TemporaryDirectory(prefix="judgestream-demo-")))
            / "store.sqlite3",
        )
        return await _Demo(plan, display, settings, endpoint).run(stack, stop)


async def _offline_endpoint(stack: AsyncExitStack, latency_seconds: float) -> EndpointSettings:
    server = await stack.enter_async_context(OfflineJudge(latency_seconds=latency_seconds))
    return EndpointSettings(name="offline", base_url=server.base_url, model=OFFLINE_MODEL)


class _Demo:
    """One run."""

    def __init__(self, plan: Plan, display: Display, settings: Settings, endpoint: EndpointSettings) -> None:
        self._plan = plan
        self._display = display
        self._settings = settings
        self._endpoint = endpoint
        self._accounts = Accounts(settings.topics.events)
        self._board = Board(self._accounts, tuple(settings.metrics))
        self._registry = CollectorRegistry()
        self._worker_stop = asyncio.Event()
        self._read_rate = Rate()
        self._judged_rate = Rate()
        self._first_event: float | None = None
        self._patience = STALLED_SECONDS + plan.judge_latency_seconds

    async def run(self, stack: AsyncExitStack, stop: asyncio.Event) -> Ending:
        kafka = self._settings.kafka
        topics = demo_topics(self._settings)
        servers = {"bootstrap_servers": kafka.bootstrap_servers}
        admin = await _started(stack, AIOKafkaAdminClient(**servers))
        ready: asyncio.Future[Running] = asyncio.get_running_loop().create_future()
        worker = asyncio.create_task(
            run_worker(
                self._settings,
                stop=self._worker_stop,
                agents=(*AGENTS, "store"),
                registry=self._registry,
                on_ready=ready.set_result,
            )
        )
        stack.push_async_callback(self._stop_worker, worker, ready)
        producer = await _started(
            stack, AIOKafkaProducer(**servers, acks="all", linger_ms=2, max_request_size=MAX_RECORD_BYTES)
        )
        consumer = await _started(
            stack,
            AIOKafkaConsumer(
                *topics,
                **servers,
                group_id=None,
                auto_offset_reset="earliest",
                fetch_max_wait_ms=100,
                isolation_level="read_committed",
            ),
        )
        observer = Observer(self._settings.topics, self._accounts, self._board, self._seconds)
        progress = Progress(
            admin,
            consumer,
            group_id=kafka.group_id,
            events_topic=self._settings.topics.events,
            later_topics=[name for name in topics if name.startswith(self._settings.topics.tasks_prefix)]
            + [self._settings.topics.scores],
            partitions=PARTITIONS,
        )
        feed = Feed(
            producer,
            self._settings.topics.events,
            unfinished=progress.unfinished,
            rate=self._rate(),
            head_start=LIVE_HEAD_START if self._plan.endpoint is None else 0,
        )
        tasks = {
            "worker": worker,
            "observer": asyncio.create_task(observer.run(consumer)),
            "progress": asyncio.create_task(progress.run()),
            "feed": asyncio.create_task(feed.run(self._records())),
        }
        stack.push_async_callback(_cancel, [task for name, task in tasks.items() if name != "worker"])
        self._display.begin(self._board, self._heading(None))
        complete = await self._watch(tasks, feed, progress, ready, stop)
        if complete:
            await _caught_up(consumer)
        seconds = time.monotonic() - self._plan.started
        balance = self._accounts.balance(self._skipped())
        half_way = feed.sent / 2
        values = summary(
            self._board,
            balance,
            half_way=half_way,
            ranges=demo_ranges(self._settings),
            judge=self._judge_name(),
            seconds=seconds,
            incidents=await told_incidents(
                self._settings.store, results=self._board.results, alerts=len(self._board.alerts)
            ),
        )
        return Ending(values, complete)

    async def _watch(
        self,
        tasks: Mapping[str, asyncio.Task[None]],
        feed: Feed,
        progress: Progress,
        ready: asyncio.Future[Running],
        stop: asyncio.Event,
    ) -> bool:
        """Update the display; return True once all events are accounted for, False after a stop."""
        is_ready = False
        moved = (time.monotonic(), (0, 0, 0))
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), TICK_SECONDS)
            for name, task in tasks.items():
                if task.done() and (name != "feed" or task.exception() is not None):
                    task.result()  # raises its error
                    raise DemoError(f"the demo's {name} stopped unexpectedly; start it again")
            if ready.done() and not is_ready:
                is_ready = True
                self._display.begin(self._board, self._heading(ready.result()))
            self._display.update(self._flow(feed, progress))
            if stop.is_set():
                return False
            if feed.done and progress.is_done(feed.sent):
                return True
            state = (feed.sent, progress.finished, self._board.results)
            if state != moved[1]:
                moved = (time.monotonic(), state)
            elif self._plan.events is not None and time.monotonic() - moved[0] > self._patience:
                raise DemoError(self._stalled(feed, progress))

    def _stalled(self, feed: Feed, progress: Progress) -> str:
        balance = self._accounts.balance(self._skipped())
        return (
            f"no progress for {self._patience:.0f} s: {feed.sent - progress.finished_events} events and "
            f"{balance.in_flight} tasks are not finished; is the judge {self._judge_name()} reachable?"
        )

    async def _stop_worker(self, worker: asyncio.Task[None], ready: asyncio.Future[Running]) -> None:
        # Let a starting worker finish its start: stopping it earlier would leak its threads.
        either: tuple[asyncio.Future[Any], ...] = (worker, ready)
        await asyncio.wait(either, timeout=STOP_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        self._worker_stop.set()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(asyncio.shield(worker), STOP_SECONDS)
        await _cancel([worker])

    def _seconds(self) -> float:
        return time.monotonic() - self._plan.started

    def _rate(self) -> float | None:
        if self._plan.endpoint is not None:
            return PAID_BOUNDED_RATE if self._plan.events is not None else PAID_RATE
        return None if self._plan.events is not None else LIVE_RATE

    def _records(self) -> Iterator[DemoRecord]:
        if self._plan.lines is not None:
            return file_records(self._plan.lines)
        questions = load_questions()
        if self._plan.events is not None:
            return bounded_records(questions, self._plan.events)
        return endless_records(questions, Cycle(), self._since_first_event)

    def _since_first_event(self) -> float:
        now = time.monotonic()
        if self._first_event is None:
            self._first_event = now
        return now - self._first_event

    def _judge_name(self) -> str:
        if self._plan.endpoint is None:
            return OFFLINE_MODEL
        return f"{self._endpoint.model} at {self._endpoint.base_url}"

    def _judge_note(self) -> str:
        if self._plan.endpoint is None:
            return "(rules, no language model)"
        cost = "calls cost money; " if may_cost(self._endpoint) else ""
        return f"({cost}at most {self._rate():g} events/s)"

    def _heading(self, running: Running | None) -> Heading:
        return Heading(
            broker=f"broker {self._settings.kafka.bootstrap_servers} (in memory, loopback only)",
            judge=self._judge_name(),
            judge_note=self._judge_note(),
            page="starting the worker ..."
            if running is None
            else f"page {running.url}/  metrics {running.url}/metrics",
            ranges=demo_ranges(self._settings),
        )

    def _flow(self, feed: Feed, progress: Progress) -> Flow:
        seconds = self._seconds()
        return Flow(
            seconds=seconds,
            read_a_second=self._read_rate.update(seconds, self._accounts.read),
            judged_a_second=self._judged_rate.update(seconds, self._board.results),
            lag=progress.unfinished(feed.sent),
            sampled=self._accounts.sampled,
        )

    def _skipped(self) -> int:
        """Return the worker's own count of events not sampled."""
        return int(
            sum(
                sample.value
                for family in self._registry.collect()
                for sample in family.samples
                if sample.name == "judgestream_events_total" and sample.labels.get("outcome") == "skipped"
            )
        )


async def _started(stack: AsyncExitStack, client: Any) -> Any:
    """Start an aiokafka client; the stack closes it."""
    await client.start()
    stack.push_async_callback(client.close if hasattr(client, "close") else client.stop)
    return client


async def _caught_up(consumer: Any) -> None:
    """Wait until the observer has read all records."""
    partitions = consumer.assignment()
    ends = await consumer.end_offsets(partitions)
    async with asyncio.timeout(STOP_SECONDS):
        while True:
            positions = [(await consumer.position(tp), ends[tp]) for tp in partitions]
            if all(position >= end for position, end in positions):
                return
            await asyncio.sleep(0.02)


async def _cancel(tasks: Sequence[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
