"""The whole product in one process and event loop: broker, judge, worker, events and a display."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, Literal

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from prometheus_client import CollectorRegistry

from judge.chat import OFFLINE_MODEL, ChatMessage, ChatRequest
from judge.errors import EventError, JudgeUnavailableError
from judge.metrics.registry import score_ranges
from judge.offline.server import OfflineJudge
from streams.batch.sources import key_of
from streams.demo.accounting import POSITION_HEADER, Accounts, Incidents
from streams.demo.events import DemoRecord, own_records
from streams.demo.screen import View, summary
from streams.embedded.broker import EmbeddedBroker
from streams.errors import StreamsError
from streams.judging.endpoints import may_cost, open_chat, price_of
from streams.kafka.topics.table import AGENTS, AgentName, topic_uses
from streams.settings.judge import EndpointSettings, JudgeSettings
from streams.settings.metrics import default_metrics
from streams.settings.tree import Settings
from streams.worker.run import run_worker
from streams.worker.worker import Worker

WORKER_AGENTS: Final[tuple[AgentName, ...]] = (*AGENTS, "store")
PARTITIONS: Final = 4
JUDGE_PATIENCE_SECONDS: Final = 30.0
LIVE_RATE: Final = 20.0
PAID_RATE: Final = 2.0
"""Events per second with a real judge."""
PAID_BOUNDED_RATE: Final = 10.0
MAX_TOKENS: Final = 1_000_000
"""The limit for a judge whose price is not known."""
TICK_SECONDS: Final = 0.25
STALLED_SECONDS: Final = 60.0
FINISH_SECONDS: Final = 1.0
"""How long calls in flight may take after the end; none is left if all events are accounted for."""
CATCH_UP_SECONDS: Final = 30.0
CAUSE_SECONDS: Final = 10.0
"""How long to wait for the store, which names the causes of incidents; less after Ctrl-C."""
MAX_UNFINISHED: Final = 120
"""Maximum records waiting for the worker; the bound keeps verdicts in the order of events."""
POLL_SECONDS: Final = 0.02
HEAD_START: Final = 60
"""Events that the endless demo sends at once."""
MAX_RECORD_BYTES: Final = 15 * 1024 * 1024
Display = Callable[[View], None]
End = Literal["interrupted", "limit"]
Ending = tuple[Mapping[str, Any], End | None]
"""The summary, and what ended the demo early: a signal or its limit on spending."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoPlan:
    events: int | None
    """None: until stopped."""
    lines: Sequence[bytes] | None
    endpoint: EndpointSettings | None
    """None: the offline judge."""
    judge_latency_seconds: float
    started: float
    """Start of the process on the monotonic clock."""
    metrics: Sequence[str] = ()
    """Empty: the two built-in ones."""
    max_usd: float = 0.5
    """The budget if the judge's price is known."""

    @property
    def rate(self) -> float | None:
        """Events per second; None: as fast as the worker."""
        if self.endpoint is None:
            return LIVE_RATE if self.events is None else None
        return PAID_RATE if self.events is None else PAID_BOUNDED_RATE

    @property
    def counts_cost(self) -> bool:
        return self.endpoint is not None and price_of(self.endpoint) is not None

    @property
    def limit(self) -> str:
        if self.counts_cost:
            return f"${self.max_usd:.2f} (--max-usd)"
        return f"{MAX_TOKENS:,} tokens"

    @property
    def note(self) -> str:
        if self.endpoint is None:
            return "rules, no language model; --model NAME asks a real one"
        cost = "calls cost money; " if may_cost(self.endpoint) else ""
        if not self.counts_cost:
            cost += "no price is known, so cost is not counted; "
        return f"{cost}stops at {self.limit}; at most {self.rate:g} events/s"


async def run_demo(plan: DemoPlan, display: Display, stop: asyncio.Event) -> Ending:
    """Run until all events are accounted for, the limit on spending is reached, or `stop` is set."""
    async with AsyncExitStack() as stack:
        endpoint = plan.endpoint
        if endpoint is None:
            server = await stack.enter_async_context(OfflineJudge(latency_seconds=plan.judge_latency_seconds))
            endpoint = EndpointSettings(name="offline", base_url=server.base_url, model=OFFLINE_MODEL)
        else:
            await ask_once(endpoint)
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="judgestream-demo-")))
        settings = demo_settings(
            endpoint=endpoint,
            judge_latency_seconds=plan.judge_latency_seconds,
            store_path=folder / "store.sqlite3",
            metrics=plan.metrics,
            max_usd=plan.max_usd if plan.counts_cost else None,
        )
        topics = demo_topics(settings)
        broker = await stack.enter_async_context(EmbeddedBroker(topics=topics, auto_create_topics=False))
        kafka = settings.kafka.model_copy(update={"bootstrap_servers": broker.bootstrap_servers})
        demo = _Demo(plan, display, settings.model_copy(update={"kafka": kafka}))
        return await demo.run(stack, stop)


class _Demo:
    def __init__(self, plan: DemoPlan, display: Display, settings: Settings) -> None:
        self._plan, self._display, self._settings = plan, display, settings
        self._sent = 0
        self._accounts = Accounts(settings.topics, plan.started)
        self._running: asyncio.Future[Worker] = asyncio.get_running_loop().create_future()
        endpoint, ranges = plan.endpoint, score_ranges(settings.metrics)
        self._view = View(
            self._accounts,
            Incidents(self._accounts, settings.store, ranges=ranges),
            ranges,
            broker=f"broker {settings.kafka.bootstrap_servers} (in memory, loopback only)",
            judge=OFFLINE_MODEL if endpoint is None else f"{endpoint.model} at {endpoint.base_url}",
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
        tasks = {
            "worker": worker,
            "observer": asyncio.create_task(self._accounts.run(consumer)),
            "incidents": asyncio.create_task(incidents.run()),
            "feed": asyncio.create_task(self._feed(producer)),
        }
        stack.push_async_callback(_cancel, [task for name, task in tasks.items() if name != "worker"])
        early = await self._watch(tasks, stop)
        if early is None:
            await _caught_up(consumer)
        await incidents.settle(FINISH_SECONDS / 4 if early == "interrupted" else CAUSE_SECONDS)
        self._view.seconds = time.monotonic() - self._plan.started
        values = summary(self._view, self._accounts.balance(self._skipped()), self._sent / 2)
        return {**values, "limit": self._plan.limit if early == "limit" else None}, early

    async def _feed(self, producer: Any) -> None:
        """Send all records; return when the broker has acknowledged each."""
        plan, loop = self._plan, asyncio.get_running_loop()
        rate, head_start = plan.rate, HEAD_START if plan.endpoint is None else 0
        started, confirmations = loop.time(), set[asyncio.Future[Any]]()
        lines = (DemoRecord(key_of(line, "event_id"), line) for line in plan.lines or ())
        for record in own_records(plan.events) if plan.lines is None else lines:
            while self._unfinished() >= MAX_UNFINISHED:  # noqa: ASYNC110 - progress is polled, too
                await asyncio.sleep(POLL_SECONDS)
            if rate is not None and self._sent >= head_start:
                due = started + (self._sent - head_start) / rate
                await asyncio.sleep(max(due - loop.time(), 0.0))
            position = [(POSITION_HEADER, str(self._sent).encode())]
            topic = self._settings.topics.events
            confirmation = await producer.send(topic, record.value, key=record.key, headers=position)
            confirmations.add(confirmation)
            confirmation.add_done_callback(confirmations.discard)
            self._sent += 1
        await asyncio.gather(*confirmations)

    async def _watch(self, tasks: Mapping[str, asyncio.Task[None]], stop: asyncio.Event) -> End | None:
        """Update the display until the end; return what came early, None if all events are accounted for."""
        moved = (time.monotonic(), (0, 0))
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), TICK_SECONDS)
            for name, task in tasks.items():
                if task.done() and (name != "feed" or task.exception() is not None):
                    task.result()  # raises its error
                    raise StreamsError(f"the demo's {name} stopped unexpectedly; start it again")
            self._refresh()
            self._display(self._view)
            if stop.is_set():
                return "interrupted"
            if self._is_spent():
                return "limit"
            unfinished = self._unfinished() + self._view.lag
            if tasks["feed"].done() and self._running.done() and not unfinished:
                return None
            state = (self._sent, len(self._accounts.results))
            patience = STALLED_SECONDS + self._plan.judge_latency_seconds
            if state != moved[1]:
                moved = (time.monotonic(), state)
            elif self._plan.events is not None and time.monotonic() - moved[0] > patience:
                reason = self._view.trouble or f"is the judge {self._view.judge} reachable?"
                what = f"{unfinished} events and tasks are unfinished"
                raise StreamsError(f"no progress for {patience:.0f} s: {what}; {reason}")

    def _refresh(self) -> None:
        view = self._view
        view.seconds = time.monotonic() - self._plan.started
        if self._running.done():
            running = self._running.result()
            view.incidents.page = running.url
            view.page = f"page {running.url}/  metrics {running.url}/metrics"
            view.status = running.status.values()
            trouble = view.status["judge"]["trouble"]
            view.trouble = trouble and f"{trouble}; verdicts wait until it answers, Ctrl-C stops"

    def _is_spent(self) -> bool:
        if self._plan.counts_cost:
            return self._running.done() and self._view.status["judge"]["deferred"] is not None
        spent = self._accounts.spent
        return self._plan.endpoint is not None and spent.input_tokens + spent.output_tokens >= MAX_TOKENS

    def _skipped(self) -> int:
        return int(self._view.status.get("events", {}).get("skipped", 0))

    def _unfinished(self) -> int:
        """Return the number of events and tasks without outcome."""
        balance = self._accounts.balance(self._skipped())
        return max(self._sent - balance["read"] + balance["lost"] + balance["in_flight"], 0)

    async def _stop_worker(self, worker: asyncio.Task[None], stop: asyncio.Event) -> None:
        # Let a starting worker finish its start: stopping it earlier would leak its threads.
        either: tuple[asyncio.Future[Any], ...] = (worker, self._running)
        await asyncio.wait(either, timeout=CATCH_UP_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        stop.set()
        await asyncio.wait({worker}, timeout=CATCH_UP_SECONDS)
        await _cancel([worker])


async def _caught_up(consumer: Any) -> None:
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


def demo_settings(
    *,
    endpoint: EndpointSettings,
    bootstrap_servers: str = "localhost:9092",
    judge_latency_seconds: float = 0.0,
    store_path: Path | None = None,
    metrics: Sequence[str] = (),
    max_usd: float | None = None,
) -> Settings:
    """Return the settings of the demo's worker: one machine, unequal sampling rates, None: no budget."""
    usual = default_metrics()
    gold = {"name": "gold", "when": {"tenant": "gold"}, "rate": 1.0}
    kafka = {"bootstrap_servers": bootstrap_servers, "group_id": "judgestream-demo", "start": "earliest"}
    document: dict[str, Any] = {
        "kafka": kafka,
        "sampling": {"default_rate": 0.5, "rules": [gold]},
        "judge": {
            "endpoints": [endpoint],
            "timeout_seconds": judge_latency_seconds + JUDGE_PATIENCE_SECONDS,
            "max_in_flight": 64,
            "budget": "none" if max_usd is None else {"usd_per_day": max_usd},
        },
        "monitor": {"baseline_samples": 40, "labels": ["app", "model"]},
        "telemetry": {"port": 0, "labels": ["app", "model", "prompt_version"], "log_level": "warning"},
        **({} if store_path is None else {"store": {"path": store_path}}),
        **({"metrics": {name: usual.get(name, {}) for name in metrics}} if metrics else {}),
    }
    return Settings.model_validate(document)


def demo_topics(settings: Settings) -> dict[str, int]:
    return {use.name: PARTITIONS for use in topic_uses(settings, WORKER_AGENTS)}


async def ask_once(endpoint: EndpointSettings) -> None:
    """Ask the judge for a word, to learn before the start whether it answers."""
    chat = open_chat(endpoint, JudgeSettings(timeout_seconds=JUDGE_PATIENCE_SECONDS))
    asked = ChatMessage("user", "Reply with the word: ready")
    try:
        await chat.complete(ChatRequest((asked,), max_output_tokens=16))
    except EventError:
        return  # it answers, though not this question: a reasoning model needs more than 16 tokens
    except JudgeUnavailableError as error:
        remedy = "check that it runs, --base-url and the network"
        if error.kind == "rate_limited":
            remedy = "wait a minute, or check the account's limits"
        raise StreamsError(f"{error}; {remedy}") from error
    finally:
        await chat.close()
