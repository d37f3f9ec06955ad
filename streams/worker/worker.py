"""What the agents of one worker share: application, output, metrics, health, and its orderly end."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from secrets import token_hex
from typing import TYPE_CHECKING, Any, Final

import structlog
from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector

from judge.chat import ChatClient
from judge.endpoints.options import EndpointState
from judge.endpoints.pool import EndpointPool
from judge.metric import Metric
from judge.metrics.registry import with_option
from judge.text.printable import printable
from schemas import JudgeTask
from streams.judging.agent import CitationWatch
from streams.judging.budget import Spending
from streams.judging.leasing import Leasing
from streams.judging.metrics import build_metrics
from streams.judging.rates import Rates
from streams.kafka.access.errors import explain
from streams.kafka.app import App, Pipeline, add_agent, build_app
from streams.kafka.consumer import Consumer, ConsumerOptions
from streams.kafka.delivery import BufferLimit
from streams.kafka.offsets import Move
from streams.kafka.output import Output
from streams.kafka.topics.table import AGENTS, ALL_AGENTS, AgentName, group_of
from streams.monitoring.monitor import MonitorSnapshot
from streams.monitoring.partitions import PartitionMonitors
from streams.settings.judge import SAMPLING_BUDGET
from streams.settings.tree import Settings
from streams.telemetry.exposition import PartitionState, partition_values
from streams.telemetry.instruments import Metrics
from streams.telemetry.logs import settings_masker
from streams.worker.server import Health
from streams.worker.status import Status

if TYPE_CHECKING:
    from streams.store.agent import StoreAgent
    from streams.store.views.explorer import Explorer

_log = structlog.stdlib.get_logger(__name__)

HOPELESS_SECONDS: Final = 0.5
"""Timeout of records in flight if the judge is unavailable: they would not finish."""
KEEP_SECONDS: Final = 5.0
"""Timeout of saving the monitor's state when partitions are revoked."""
BUFFER_BYTES: Final = 32 * 1024 * 1024
TASK_RECORDS: Final = 512
"""Tasks in flight per topic, including those that wait for a retry, which costs nothing."""
SHORT_LIMIT: Final = BufferLimit(records=2_000, bytes=BUFFER_BYTES)


class Worker:
    """The shared parts of one worker; `streams.worker.agents` adds the agents."""

    def __init__(
        self,
        settings: Settings,
        *,
        agents: Collection[AgentName],
        registry: CollectorRegistry | None = None,
        chat: ChatClient | None = None,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self.settings = settings
        self.agents: tuple[AgentName, ...] = tuple(name for name in ALL_AGENTS if name in agents)
        self.group_id = group_of(settings.kafka.group_id, self.agents)
        self.chat = chat
        self.spending = Spending(settings.judge.budget, sampling=settings.sampling_limit, worker=token_hex(8))
        self.rates = self._rates()
        self.env = os.environ if env is None else env
        self.metrics = Metrics(
            _process_registry() if registry is None else registry,
            labels=settings.telemetry.labels,
            objectives=settings.monitor.objectives,
        )
        for name in self.agents:
            self.metrics.set("judgestream_worker_info", name, version("judgestream"), to=1)
        self.metrics.set("judgestream_deprecated_settings", to=len(settings.deprecated))
        self.judged_by: Mapping[str, Metric] = build_metrics(settings)
        """The metrics by name; `metrics` are Prometheus instruments."""
        self.options = self._options()
        self.app: App = build_app(settings.kafka, group_id=self.group_id, options=self.options)
        self.output = Output(
            lambda: self.app.producer, self.metrics, settings.topics, policy=settings.dead_letters
        )
        self.pipelines: list[Pipeline] = []
        self.before_finish: list[Callable[[], None]] = []
        """Called first at the end: they release records that wait for others."""
        self.closing: list[Callable[[], Awaitable[None]]] = []
        """Close what agents opened."""
        self.beside: list[Callable[[], Coroutine[Any, Any, None]]] = []
        """Run next to the agents until the end."""
        self.patience: dict[str, float] = {}
        """By topic, the seconds that a record may wait by design."""
        self.dependencies: list[tuple[str, Any]] = []
        """What says in `trouble` why it fails at present, if so, after the beginning of the message."""
        self.pool: EndpointPool | None = None
        self.monitors: PartitionMonitors | None = None
        self.leasing: Leasing | None = None
        """Shares the budget with the other workers."""
        self.url = ""
        """That of the port, once it is open."""
        self.store: StoreAgent | None = None
        self.explorer: Explorer | None = None
        self.citations = CitationWatch(with_option("citation_pattern"))
        self.health = Health(self)
        self.status = Status(self)
        self.beside.append(self.status.remember)
        self.metrics.watch_series("judgestream", lambda: partition_values(self.partitions(), time.time()))

    def _rates(self) -> Rates | None:
        limit = self.settings.sampling_limit
        if limit is None or set(AGENTS).isdisjoint(self.agents):
            return None
        amount, worker = limit.usd_per_day or limit.calls_per_day or 0, self.spending.worker
        return Rates(
            self.settings.sampling.most,
            limit=amount,
            in_dollars=limit.usd_per_day is not None,
            worker=worker,
            spent=lambda: amount * self.spending.spent_ratio(SAMPLING_BUDGET),
        )

    def _options(self) -> ConsumerOptions:
        settings, topics = self.settings, self.settings.topics
        return ConsumerOptions(
            limits=dict.fromkeys((topics.events, topics.scores, topics.observations), SHORT_LIMIT),
            default_limit=BufferLimit(
                records=max(TASK_RECORDS, 2 * settings.judge.max_in_flight), bytes=BUFFER_BYTES
            ),
            finish=self.finish,
            finish_seconds=settings.judge.timeout_seconds + 5,  # long enough for a judge call
            starts={topics.events: settings.kafka.start},
            moved=self._note_move,
        )

    def add(self, topic: str, name: str, part: Any, handle: Callable[[Any], Any] | None = None) -> None:
        pipeline = Pipeline(
            name,
            handle or part.handle,
            on_unreadable=self._set_unreadable_aside,
            on_surprise=part.on_surprise,
            crash=self.app.crash,
            patience_seconds=self.patience.get(topic, 0.0),
        )
        self.pipelines.append(pipeline)
        add_agent(self.app, topic, name, pipeline.run)

    async def _set_unreadable_aside(self, record: Any) -> None:
        problem = record.unreadable
        await self.output.unreadable(record, problem)
        if record.topic == self.settings.topics.events:
            self.metrics.count_event("undecodable", problem.reason, count=problem.records)

    def _note_move(self, move: Move) -> None:
        self.metrics.count("judgestream_offset_moves_total", move.topic, move.why)
        self.metrics.count("judgestream_lost_records_total", move.topic, by=move.lost)
        _log.error(
            "retention removed records before they were read"
            if move.why == "retention"
            else "the log has become shorter; resuming at another offset",
            topic=move.topic,
            partition=move.partition,
            from_offset=move.before,
            to_offset=move.after,
            lost=move.lost,
        )

    # State

    def consumer(self) -> Consumer | None:
        consumer: Consumer | None = self.app._consumer  # noqa: SLF001 - the property would create one
        return consumer

    @property
    def is_assigned(self) -> bool:
        consumer = self.consumer()
        return consumer is not None and consumer.assigned

    def is_suspicious(self, task: JudgeTask) -> bool:
        """Whether the monitor suspects a fall in the task's stratum; known with `sampling.budget` alone."""
        return self.rates is not None and self.rates.suspects(task.sampling.stratum)

    def partitions(self) -> tuple[PartitionState, ...]:
        consumer = self.consumer()
        found = () if consumer is None else tuple(consumer.partitions())
        now = time.time()
        return tuple(one.beyond(self.patience.get(one.topic, 0.0), now) for one in found)

    def loop(self) -> Consumer | StoreAgent | None:
        return self.store if self.agents == ("store",) else self.consumer()

    @property
    def judge_trouble(self) -> str | None:
        return None if self.pool is None else self.pool.trouble

    @property
    def endpoints(self) -> Sequence[EndpointState]:
        return () if self.pool is None else self.pool.states

    def snapshot(self) -> MonitorSnapshot:
        now = datetime.now(UTC)
        return MonitorSnapshot((), now) if self.monitors is None else self.monitors.snapshot(now)

    def broker_troubles(self) -> list[str]:
        refused, failing = self.app.admission.trouble, self.output.trouble
        found = [] if refused is None else [f"the broker refuses new connections: {refused}"]
        if failing is not None:
            why = printable(str(explain(failing.error, self.settings.kafka) or repr(failing.error)), 300)
            seconds = time.monotonic() - failing.since
            found.append(f"writing to {failing.topic} has failed for {seconds:.0f} s: {why}")
        found += [f"{words}{one.trouble}" for words, one in self.dependencies if one.trouble is not None]
        # Messages may quote the broker and need no login. Secrets may have changed since the start.
        masker = settings_masker(self.settings, self.env) if found else None
        return found if masker is None else [masker.mask(one) for one in found]

    # The end

    async def finish(self, timeout_seconds: float) -> None:
        bound = timeout_seconds if self.judge_trouble is None else min(timeout_seconds, HOPELESS_SECONDS)
        self.spending.drain()
        for release in self.before_finish:
            release()
        if self.pool is not None:
            # Unsent calls would not finish in time, or would be paid for in vain.
            self.pool.drain()
        try:
            await asyncio.gather(*(pipeline.finish(bound) for pipeline in self.pipelines))
        finally:
            self.spending.drain(done=True)
        if self.leasing is not None:
            await self.leasing.give_back()
        if self.monitors is not None:
            # The partition's next owner reads again what is not saved in time.
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.monitors.save(), min(timeout_seconds, KEEP_SECONDS))

    async def close(self) -> None:
        for close in self.closing:
            await close()


def _process_registry() -> CollectorRegistry:
    registry = CollectorRegistry()
    for collector in (ProcessCollector, PlatformCollector, GCCollector):
        collector(registry=registry)
    return registry
