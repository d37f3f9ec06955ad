"""The worker: the agents on one application, with its port, from start to an orderly end."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Collection, Coroutine, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from functools import partial
from typing import Any, Final, Literal, get_args

import structlog
from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector

from judge.cache import VerdictCache
from judge.chat import ChatClient
from judge.metric import Metric
from judge.pool import EndpointPool
from schemas import QAEvent
from streams.agents.intake import Intake
from streams.agents.judge import JudgeAgent
from streams.agents.monitor import MonitorAgent
from streams.agents.pipeline import Pipeline
from streams.app import App, add_agent, build_app
from streams.errors import SettingsError, StreamsError
from streams.health import Health
from streams.history import History, Point, lines_of
from streams.ingest import Ingest
from streams.judge_watch import JudgeWatch
from streams.judging import (
    build_metrics,
    build_pooled_judges,
    check_prices,
    judge_endpoints,
    open_cache,
    open_chat,
    open_pool,
)
from streams.metrics import Metrics
from streams.monitor import Monitor, MonitorConfig
from streams.monitor_snapshot import MonitorSnapshot
from streams.output import Incoming, Output
from streams.pushdown import PushDown, push_down
from streams.settings import EndpointSettings, Settings
from streams.spending import BudgetedJudge, Spending
from streams.status import by_outcome, status_of
from streams.status_totals import totals_of
from streams.topics import ensure_topics
from streams.transport import Consumer, Plan, Room
from streams.web import WebServer

_log = structlog.stdlib.get_logger(__name__)

AgentName = Literal["intake", "judge", "monitor"]
AGENTS: Final[tuple[AgentName, ...]] = get_args(AgentName)

STOP_SECONDS: Final = 20.0
"""What is in hand gets so long to end after a stop is asked for."""
CLOSE_SECONDS: Final = 15.0
"""Leaving the group and flushing get so long."""
HOPELESS_SECONDS: Final = 0.5
"""What waits for a judge that is down gets so long: it would not end in time."""
ROOM_BYTES: Final = 32 * 1024 * 1024
_WHOLE: Final = Fraction(1)
INTAKE_ROOM: Final = Room(records=2_000, bytes=ROOM_BYTES)
MONITOR_ROOM: Final = Room(records=2_000, bytes=ROOM_BYTES)


class WorkerCrashedError(StreamsError):
    """Something broke that no retry mends; the cause is attached."""


@dataclass(frozen=True, slots=True)
class Running:
    """A worker that reads.

    Args:
        url: Where its port is.
        group_id: The consumer group.
        agents: What runs.
    """

    url: str
    group_id: str
    agents: tuple[AgentName, ...]


async def run_worker(
    settings: Settings,
    *,
    stop: asyncio.Event,
    agents: Collection[AgentName] = AGENTS,
    registry: CollectorRegistry | None = None,
    chat: ChatClient | None = None,
    env: Mapping[str, str] | None = None,
    on_ready: Callable[[Running], None] | None = None,
) -> None:
    """Run agents until a stop is asked for; several workers may run in one event loop.

    On a stop nothing new is taken, what is in hand gets `STOP_SECONDS` to end, offsets are committed, and the worker
    leaves its group. Signals are the caller's to handle.

    Args:
        settings: The settings.
        stop: Set it to have the worker end.
        agents: Which parts run here. Fewer than all have a consumer group of their own.
        registry: Where metrics are registered; a new one with process metrics by default. One a worker.
        chat: The judge to ask; by default the endpoints of the settings. Stays the caller's to close.
        env: Environment variables, for an endpoint by OPENAI_*; those of the process by default.
        on_ready: Called once, when partitions are assigned.

    Raises:
        SettingsError: A secret, certificate, prompt pack or endpoint cannot be used.
        StreamsError: The broker does not answer, topics are missing, the port is taken, or the worker crashed.
        JudgeConfigurationError: No judge call can succeed as configured.
    """
    worker = _Worker(settings, agents=agents, registry=registry, chat=chat, env=env)
    await worker.run(stop, on_ready)


def group_of(group_id: str, agents: Collection[AgentName]) -> str:
    """Name the consumer group: the configured one for all agents together, one of its own for any fewer."""
    if set(agents) == set(AGENTS):
        return group_id
    return ".".join([group_id, *(name for name in AGENTS if name in agents)])


def needed_topics(settings: Settings, agents: Collection[AgentName]) -> list[str]:
    """Name the topics that agents read and write."""
    topics = settings.topics
    tasks = [topics.task_topic(metric) for metric in settings.metrics]
    by_agent: dict[AgentName, list[str]] = {
        "intake": [topics.events, *tasks, topics.dead_letters],
        "judge": [*tasks, topics.scores, topics.dead_letters],
        "monitor": [topics.scores, topics.alerts],
    }
    return list(dict.fromkeys(topic for name in AGENTS if name in agents for topic in by_agent[name]))


class _Worker:
    """The parts of one worker, wired."""

    def __init__(
        self,
        settings: Settings,
        *,
        agents: Collection[AgentName],
        registry: CollectorRegistry | None,
        chat: ChatClient | None,
        env: Mapping[str, str] | None,
    ) -> None:
        self._settings = settings
        self._agents = tuple(name for name in AGENTS if name in agents)
        self._group_id = group_of(settings.kafka.group_id, self._agents)
        self._given_chat = chat
        self._own_chats: tuple[ChatClient, ...] = ()
        self._cache: VerdictCache | None = None
        self._spending = Spending(settings.judge.budget_limits())
        self._env = os.environ if env is None else env
        telemetry = settings.telemetry
        self._metrics = Metrics(
            _process_registry() if registry is None else registry,
            labels=telemetry.labels,
            max_label_values=telemetry.max_label_values,
        )
        self._judged_by: Mapping[str, Metric] = build_metrics(settings)
        self._plan = Plan(
            rooms={settings.topics.events: INTAKE_ROOM, settings.topics.scores: MONITOR_ROOM},
            default_room=Room(records=2 * settings.judge.max_in_flight, bytes=ROOM_BYTES),
            finish=self._finish,
            # A judge call may end before its partition is given away; the group waits for at most the rebalance timeout.
            finish_seconds=min(
                settings.judge.timeout_seconds + 5, settings.kafka.rebalance_timeout_seconds * 0.8
            ),
        )
        self._app: App = build_app(settings.kafka, group_id=self._group_id, plan=self._plan)
        self._output = Output(
            lambda: self._app.producer,
            self._metrics,
            scores=settings.topics.scores,
            dead_letters=settings.topics.dead_letters,
            alerts=settings.topics.alerts,
            task_topic=settings.topics.task_topic,
        )
        self._pipelines: list[Pipeline] = []
        self._pool: EndpointPool | None = None
        self._monitor: Monitor | None = None
        self._started_at = time.monotonic()
        self._history = History()
        self._health = Health(
            loop=self._consumer,
            agents=self._pipelines,
            judge_trouble=lambda: None if self._pool is None else self._pool.trouble,
            write_trouble_seconds=lambda: self._output.failing_seconds,
            deferred=lambda: self._spending.deferring,
        )

    # Wiring

    def _consumer(self) -> Consumer | None:
        consumer: Consumer | None = self._app._consumer  # noqa: SLF001 - the property would create one
        return consumer

    def _add(self, topic: str, name: str, part: Any, handle: Callable[[Any], Any]) -> None:
        pipeline = Pipeline(name, handle, on_surprise=part.on_surprise, crash=self._app.crash)
        self._pipelines.append(pipeline)
        add_agent(self._app, topic, name, pipeline.run)

    def _add_intake(self) -> None:
        settings = self._settings
        ingest = Ingest(max_event_bytes=settings.ingest.max_event_bytes, mapping=settings.ingest.mapping)
        policy = settings.sampling.policy()
        predicate: PushDown | None = push_down(policy, ingest)
        if predicate is not None:
            self._plan.predicates = {settings.topics.events: predicate}
            self._metrics.watch_skips(
                lambda: {str(reason): count for reason, count in predicate.skipped.items()}
            )
        intake = Intake(
            decode=partial(_decode, ingest),
            policy=policy,
            routes=settings.routes(),
            metrics=self._judged_by,
            output=self._output,
            counts=self._metrics,
            rate_factor=self._rate_factor(),
        )
        self._add(settings.topics.events, "intake", intake, intake.handle)

    def _rate_factor(self) -> Callable[[], Fraction]:
        """By what the intake lowers its rates: what was spent here is known only where the judge runs, too."""
        if self._settings.judge.budget.when_spent == "defer" or not self._spending.limits.any:
            return lambda: _WHOLE
        if "judge" not in self._agents:
            why = "for each worker counts what it spends by itself; run them together, or use defer"
            raise SettingsError(
                [f"judge.budget.when_spent: lower_rate needs intake and judge in one worker, {why}"]
            )
        return self._spending.rate_factor

    def _add_judge(self) -> None:
        settings = self._settings
        endpoints: tuple[EndpointSettings, ...] = ()
        if self._given_chat is not None:
            chats: tuple[ChatClient, ...] = (self._given_chat,)
        else:
            endpoints = judge_endpoints(settings.judge, self._env)
            check_prices(settings.judge, endpoints)
            chats = self._own_chats = tuple(open_chat(endpoint, settings.judge) for endpoint in endpoints)
        self._pool = open_pool(chats, settings.judge, endpoints, observer=JudgeWatch(self._metrics))
        self._cache = open_cache(settings.judge.cache)
        judges = build_pooled_judges(
            self._judged_by, self._pool, settings.judge, endpoints, cache=self._cache
        )
        if self._spending.limits.any:
            self._metrics.watch_budget(self._spending.spent_ratio)
        agent = JudgeAgent(
            judges={name: BudgetedJudge(judge, self._spending) for name, judge in judges.items()},
            output=self._output,
        )
        for metric in self._judged_by:
            handle = partial(agent.handle, metric=metric)
            self._add(settings.topics.task_topic(metric), f"judge-{metric}", agent, handle)

    def _add_monitor(self) -> None:
        settings = self._settings
        watched = settings.monitor
        try:
            config = MonitorConfig(
                labels=watched.labels,
                max_series=watched.max_series,
                baseline_samples=watched.baseline_samples,
                min_drop=watched.min_drop,
                targets=watched.targets,
                expected_samples_per_false_alarm=watched.samples_per_false_alarm,
                window_seconds=watched.window_seconds,
                score_ranges={name: metric.score_range for name, metric in self._judged_by.items()},
            )
        except ValueError as error:  # a target outside the scale of a metric, which its prompt pack may name
            raise SettingsError([f"monitor.{error}"]) from error
        self._monitor = Monitor(config)
        agent = MonitorAgent(self._monitor, self._output)
        self._add(settings.topics.scores, "monitor", agent, agent.handle)

    def _status(self) -> dict[str, Any]:
        consumer = self._consumer()
        return status_of(
            group_id=self._group_id,
            agents=self._agents,
            running_seconds=time.monotonic() - self._started_at,
            events=self._metrics.event_counts(),
            partitions=() if consumer is None else tuple(consumer.partitions()),
            ready=self._health.ready(),
            monitor=self._snapshot(),
            ranges={name: metric.score_range for name, metric in self._judged_by.items()},
            history=self._history,
            totals=totals_of(self._metrics.registry.collect()),
        )

    def _snapshot(self) -> MonitorSnapshot | None:
        return None if self._monitor is None else self._monitor.snapshot(datetime.now(UTC))

    async def _remember(self) -> None:
        """Note every few seconds how things stand, for the page."""
        while True:
            self._history.add(
                Point(
                    at=time.time(),
                    events=by_outcome(self._metrics.event_counts()),
                    lag=sum(state.lag_records or 0 for state in self._partitions()),
                    lines=lines_of(self._snapshot()),
                )
            )
            await asyncio.sleep(self._history.step_seconds)

    # Life

    async def run(self, stop: asyncio.Event, on_ready: Callable[[Running], None] | None) -> None:
        telemetry = self._settings.telemetry
        web = WebServer(
            host=telemetry.host,
            port=telemetry.port,
            registry=self._metrics.registry,
            health=self._health,
            status=self._status,
        )
        await web.start()
        try:
            # What is wrong with the settings is found before anything is waited for.
            for name in self._agents:
                {"intake": self._add_intake, "judge": self._add_judge, "monitor": self._add_monitor}[name]()
            self._metrics.watch_partitions(self._partitions, time.time)
            topics_ready = ensure_topics(
                self._settings.kafka,
                needed_topics(self._settings, self._agents),
                create=self._settings.topics.create,
                partitions=self._settings.topics.create_partitions,
                replication_factor=self._settings.topics.create_replication_factor,
            )
            if not await _ended_before(stop, topics_ready):
                return
            remembering = asyncio.create_task(self._remember())
            try:
                await self._serve(stop, Running(web.url, self._group_id, self._agents), on_ready)
            finally:
                remembering.cancel()
        finally:
            if self._pool is not None:
                self._pool.stop()
            for chat in self._own_chats:
                await chat.close()
            if self._cache is not None:
                self._cache.close()
            await web.stop()

    def _partitions(self) -> tuple[Any, ...]:
        consumer = self._consumer()
        return () if consumer is None else tuple(consumer.partitions())

    async def _serve(
        self, stop: asyncio.Event, running: Running, on_ready: Callable[[Running], None] | None
    ) -> None:
        app = self._app
        asked = asyncio.create_task(stop.wait())
        crashed = asyncio.create_task(app._crashed.wait())  # noqa: SLF001 - mode has no public way to wait for it
        starting = asyncio.create_task(app.start())
        try:
            await asyncio.wait({asked, crashed, starting}, return_when=asyncio.FIRST_COMPLETED)
            if starting.done() and not starting.cancelled() and starting.exception() is None:
                _log.info("reading", group_id=running.group_id, agents=running.agents, url=running.url)
                if on_ready is not None and not (asked.done() or crashed.done()):
                    on_ready(running)
                await asyncio.wait({asked, crashed}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await self._close(starting)
            asked.cancel()
            crashed.cancel()
        if starting.done() and not starting.cancelled() and starting.exception() is not None:
            raise WorkerCrashedError(
                f"the worker could not start: {starting.exception()!r}"
            ) from starting.exception()
        reason = app.crash_reason
        if reason is not None:
            if isinstance(reason, StreamsError) or type(reason).__module__ == "judge.errors":
                raise reason
            raise WorkerCrashedError(f"the worker crashed: {reason!r}") from reason

    async def _close(self, starting: asyncio.Task[Any]) -> None:
        """Take nothing new, finish what is in hand, commit, leave."""
        self._health.stopping = True
        consumer = self._consumer()
        if consumer is not None:
            consumer.stop_flow()
            self._app.flow_control.suspend()
            self._app.flow_control.clear()
        for pipeline in self._pipelines:
            pipeline.close()
        await self._finish(STOP_SECONDS)
        starting.cancel()
        try:
            await asyncio.wait_for(self._app.stop(), CLOSE_SECONDS)
        except TimeoutError:
            _log.warning("leaving the group took too long, gone without", seconds=CLOSE_SECONDS)

    async def _finish(self, timeout_seconds: float) -> None:
        waits = self._spending.deferring is not None or (
            self._pool is not None and self._pool.trouble is not None
        )
        bound = min(timeout_seconds, HOPELESS_SECONDS) if waits else timeout_seconds
        await asyncio.gather(*(pipeline.finish(bound) for pipeline in self._pipelines))


async def _ended_before(stop: asyncio.Event, work: Coroutine[Any, Any, None]) -> bool:
    """Do something unless a stop is asked for meanwhile; say whether it was done."""
    working = asyncio.create_task(work)
    asked = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait({working, asked}, return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            working.result()
            return True
        return False
    finally:
        for task in (working, asked):
            task.cancel()
        await asyncio.gather(working, asked, return_exceptions=True)


def _decode(ingest: Ingest, record: Incoming) -> QAEvent:
    milliseconds = None if record.timestamp is None else round(record.timestamp * 1000)
    return ingest.decode(record.value, record.headers, milliseconds)


def _process_registry() -> CollectorRegistry:
    registry = CollectorRegistry()
    for collector in (ProcessCollector, PlatformCollector, GCCollector):
        collector(registry=registry)
    return registry
