"""The whole product in one process and event loop: broker, judge, worker, events and a display."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, Literal

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from prometheus_client import CollectorRegistry

from judge.chat import OFFLINE_MODEL
from judge.offline.server import OfflineJudge
from streams.demo.accounting import Accounts, Incidents
from streams.demo.events import (
    Cycle,
    DemoRecord,
    Feed,
    bounded_records,
    endless_records,
    file_records,
    load_questions,
)
from streams.demo.screen import View
from streams.demo.stage import (
    MAX_TOKENS,
    WORKER_AGENTS,
    DemoPlan,
    ask_once,
    demo_ranges,
    demo_settings,
    demo_topics,
)
from streams.demo.summary import summary
from streams.embedded.broker import EmbeddedBroker
from streams.errors import DemoError
from streams.settings import EndpointSettings, Settings
from streams.worker.run import Running, run_worker

TICK_SECONDS: Final = 0.25
STALLED_SECONDS: Final = 60.0
"""Time without progress after which a bounded demo stops with an error."""
SILENT_SECONDS: Final = 4.0
"""Time without a verdict after which the view says so."""
FINISH_SECONDS: Final = 1.0
"""How long calls in flight may take after the end; none is left if all events are accounted for."""
CATCH_UP_SECONDS: Final = 30.0
CAUSE_SECONDS: Final = 10.0
"""How long to wait for the store, which names the causes of incidents; less after Ctrl-C."""
LIVE_RATE: Final = 20.0
LIVE_HEAD_START: Final = 60
MAX_RECORD_BYTES: Final = 15 * 1024 * 1024


Display = Callable[[View], None]
"""Shows the current state; called a few times per second."""
End = Literal["interrupted", "limit"]


@dataclass(frozen=True, slots=True)
class Ending:
    """The summary, and what ended the demo early: a signal or its limit on spending."""

    values: Mapping[str, Any]
    early: End | None


async def run_demo(plan: DemoPlan, display: Display, stop: asyncio.Event) -> Ending:
    """Run until all events are accounted for, the limit on spending is reached, or `stop` is set.

    Raises:
        DemoError: The judge does not answer at the start, or there was no progress for a long time.
        StreamsError: The worker could not run.
        JudgeConfigurationError: The judge does not work as configured.
    """
    async with AsyncExitStack() as stack:
        endpoint = plan.endpoint
        if endpoint is None:
            server = await stack.enter_async_context(OfflineJudge(latency_seconds=plan.judge_latency_seconds))
            endpoint = EndpointSettings(name="offline", base_url=server.base_url, model=OFFLINE_MODEL)
        else:
            await ask_once(endpoint)
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="judgestream-demo-")))
        make = partial(
            demo_settings,
            endpoint=endpoint,
            judge_latency_seconds=plan.judge_latency_seconds,
            store_path=folder / "store.sqlite3",
            metrics=plan.metrics,
            max_usd=plan.max_usd if plan.counts_cost else None,
        )
        topics = demo_topics(make(bootstrap_servers="localhost:9092"))
        broker = await stack.enter_async_context(EmbeddedBroker(topics=topics, auto_create_topics=False))
        return await _Demo(plan, display, make(bootstrap_servers=broker.bootstrap_servers)).run(stack, stop)


class _Demo:
    """One run."""

    def __init__(self, plan: DemoPlan, display: Display, settings: Settings) -> None:
        self._plan = plan
        self._display = display
        self._settings = settings
        self._accounts = Accounts(settings.topics, plan.started)
        self._running: asyncio.Future[Running] = asyncio.get_running_loop().create_future()
        self._patience = STALLED_SECONDS + plan.judge_latency_seconds
        self._verdict = (0, time.monotonic())
        """Number of results, and when it last changed or nothing was in flight."""
        endpoint = plan.endpoint
        self._judge = OFFLINE_MODEL if endpoint is None else f"{endpoint.model} at {endpoint.base_url}"
        self._view = View(
            self._accounts,
            Incidents(self._accounts, settings.store, ranges=demo_ranges(settings)),
            demo_ranges(settings),
            broker=f"broker {settings.kafka.bootstrap_servers} (in memory, loopback only)",
            judge=self._judge,
            judge_note=plan.note,
        )

    async def run(self, stack: AsyncExitStack, stop: asyncio.Event) -> Ending:
        incidents = self._view.incidents
        worker_stop = asyncio.Event()
        worker = asyncio.create_task(
            run_worker(
                self._settings,
                stop=worker_stop,
                agents=WORKER_AGENTS,
                registry=CollectorRegistry(),
                on_ready=self._running.set_result,
                finish_seconds=FINISH_SECONDS,
            )
        )
        stack.push_async_callback(self._stop_worker, worker, worker_stop)
        servers = {"bootstrap_servers": self._settings.kafka.bootstrap_servers}
        producer = AIOKafkaProducer(**servers, acks="all", linger_ms=2, max_request_size=MAX_RECORD_BYTES)
        consumer = AIOKafkaConsumer(
            *demo_topics(self._settings),
            **servers,
            group_id=None,
            auto_offset_reset="earliest",
            fetch_max_wait_ms=100,
            isolation_level="read_committed",
        )
        for client in (producer, consumer):
            stack.push_async_callback(client.stop)
            await client.start()
        live = self._plan.endpoint is None and self._plan.events is None
        feed = Feed(
            producer,
            self._settings.topics.events,
            unfinished=self._unfinished,
            rate=LIVE_RATE if live else self._plan.rate,
            head_start=LIVE_HEAD_START if live else 0,
        )
        tasks = {
            "worker": worker,
            "observer": asyncio.create_task(self._accounts.run(consumer)),
            "incidents": asyncio.create_task(incidents.run()),
            "feed": asyncio.create_task(feed.run(self._records())),
        }
        stack.push_async_callback(_cancel, [task for name, task in tasks.items() if name != "worker"])
        early = await self._watch(tasks, feed, stop)
        if early is None:
            await _caught_up(consumer)
        await incidents.settle(FINISH_SECONDS / 4 if early == "interrupted" else CAUSE_SECONDS)
        values = summary(
            self._accounts,
            self._accounts.balance(self._skipped()),
            half_way=feed.sent / 2,
            ranges=self._view.ranges,
            judge=self._judge,
            seconds=self._seconds(),
            incidents=[
                {
                    "incident_id": incident.incident_id,
                    "alerts": len(incident.drops),
                    "headline": incidents.headline(incident),
                }
                for incident in incidents.all
            ],
        )
        return Ending({**values, "limit": self._plan.limit if early == "limit" else None}, early)

    async def _watch(
        self, tasks: Mapping[str, asyncio.Task[None]], feed: Feed, stop: asyncio.Event
    ) -> End | None:
        """Update the display until the end; return what came early, None if all events are accounted for."""
        moved = (time.monotonic(), (0, 0))
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), TICK_SECONDS)
            for name, task in tasks.items():
                if task.done() and (name != "feed" or task.exception() is not None):
                    task.result()  # raises its error
                    raise DemoError(f"the demo's {name} stopped unexpectedly; start it again")
            self._refresh()
            self._display(self._view)
            if stop.is_set():
                return "interrupted"
            if self._is_spent():
                return "limit"
            unfinished = self._unfinished(feed.sent) + self._view.lag
            if feed.done and self._running.done() and not unfinished:
                return None
            state = (feed.sent, len(self._accounts.results))
            if state != moved[1]:
                moved = (time.monotonic(), state)
            elif self._plan.events is not None and time.monotonic() - moved[0] > self._patience:
                reason = self._view.trouble or f"is the judge {self._judge} reachable?"
                what = f"{unfinished} events and tasks are unfinished"
                raise DemoError(f"no progress for {self._patience:.0f} s: {what}; {reason}")

    def _refresh(self) -> None:
        """Bring the view up to date."""
        view = self._view
        view.seconds = self._seconds()
        if not self._running.done():
            return
        running = self._running.result()
        view.incidents.page = running.url
        view.page = f"page {running.url}/  metrics {running.url}/metrics"
        view.status = running.status()
        view.trouble = self._silence()
        if trouble := view.status["judge"]["trouble"]:
            view.trouble = f"{trouble}; verdicts wait until it answers, Ctrl-C stops"

    def _silence(self) -> str | None:
        """Return a message if tasks are in flight and no verdict came for a while."""
        results, since = self._verdict
        if results != len(self._accounts.results) or not self._accounts.balance(0)["in_flight"]:
            self._verdict = (len(self._accounts.results), time.monotonic())
            return None
        seconds = SILENT_SECONDS + self._plan.judge_latency_seconds
        if time.monotonic() - since < seconds:
            return None
        why = f"{self._judge} is slow or does not answer; see its log and load"
        return f"no verdict for {seconds:.0f} s: {why}"

    def _is_spent(self) -> bool:
        if self._plan.counts_cost:
            return self._running.done() and self._view.status["judge"]["deferred"] is not None
        return self._plan.endpoint is not None and self._accounts.spent_tokens >= MAX_TOKENS

    def _skipped(self) -> int:
        """Return the worker's own count of events not sampled."""
        return int(self._view.status.get("events", {}).get("skipped", 0))

    def _unfinished(self, sent: int) -> int:
        """Return the number of events and tasks without outcome."""
        balance = self._accounts.balance(self._skipped())
        return max(sent - balance["read"] + balance["lost"] + balance["in_flight"], 0)

    async def _stop_worker(self, worker: asyncio.Task[None], stop: asyncio.Event) -> None:
        # Let a starting worker finish its start: stopping it earlier would leak its threads.
        either: tuple[asyncio.Future[Any], ...] = (worker, self._running)
        await asyncio.wait(either, timeout=CATCH_UP_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        stop.set()
        await asyncio.wait({worker}, timeout=CATCH_UP_SECONDS)
        await _cancel([worker])

    def _seconds(self) -> float:
        return time.monotonic() - self._plan.started

    def _records(self) -> Iterator[DemoRecord]:
        if self._plan.lines is not None:
            return file_records(self._plan.lines)
        questions = load_questions()
        if self._plan.events is not None:
            return bounded_records(questions, self._plan.events)
        begun = time.monotonic()
        return endless_records(questions, Cycle(), lambda: time.monotonic() - begun)


async def _caught_up(consumer: Any) -> None:
    """Wait until the observer has read all records."""
    partitions = consumer.assignment()
    ends = await consumer.end_offsets(partitions)
    async with asyncio.timeout(CATCH_UP_SECONDS):
        while True:
            positions = [(await consumer.position(tp), ends[tp]) for tp in partitions]
            if all(position >= end for position, end in positions):
                return
            await asyncio.sleep(0.02)


async def _cancel(tasks: Sequence[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
