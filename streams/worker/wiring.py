"""Build the parts of one worker from its settings, and connect them."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from typing import Any, Final

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector

from judge.chat import ChatClient
from judge.endpoints.stack import JudgingStack
from judge.metric import Metric
from judge.metrics.registry import BUILT_IN
from streams.errors import SettingsError
from streams.intake.reading.registry.unpacking import Unpacking
from streams.judging.agent import JudgeAgent
from streams.judging.citations import CitationWatch
from streams.judging.from_settings import budget_limits
from streams.judging.metrics import build_metrics
from streams.judging.prices import build_prices, check_prices
from streams.judging.spending import Spending
from streams.judging.stack import judge_endpoints, metric_judges, open_stack
from streams.judging.watch import JudgeWatch
from streams.kafka.app import App, add_agent, build_app
from streams.kafka.output import Output
from streams.kafka.recent import RecentResults
from streams.kafka.stretch import StretchReader
from streams.kafka.topics.flow import ALL_AGENTS, AgentName, group_of
from streams.kafka.transport import Consumer, Plan, Room
from streams.kafka.transport.ranges import Move
from streams.monitoring.agent import Forwarder
from streams.monitoring.from_settings import monitor_config
from streams.monitoring.gauges import gauges_of
from streams.monitoring.keeper import Keeper
from streams.settings import EndpointSettings, Settings
from streams.sinks.delivery import Delivery
from streams.sinks.from_settings import build_sinks
from streams.sinks.topic import TopicSink
from streams.store.agent import StoreAgent, open_agent
from streams.store.views.explorer import Explorer, open_explorer
from streams.telemetry.instruments import Metrics
from streams.telemetry.partitions import PartitionState
from streams.worker.broker_trouble import broker_trouble
from streams.worker.health import SILENT_SECONDS, Health, Loop
from streams.worker.intake import make_intake
from streams.worker.notices import IncidentLog, tell_judge, tell_move
from streams.worker.pipeline import Pipeline
from streams.worker.port.standing import Standing

HOPELESS_SECONDS: Final = 0.5
"""Timeout of records in flight if the judge is unavailable or its budget spent: they would not finish."""
KEEP_SECONDS: Final = 5.0
"""Timeout of saving the monitor's state when partitions are revoked."""
ROOM_BYTES: Final = 32 * 1024 * 1024
TASK_RECORDS: Final = 512
"""Tasks in flight per topic, including those that wait for a retry, which costs nothing."""
SHORT_ROOM: Final = Room(records=2_000, bytes=ROOM_BYTES)


class Wiring:
    """The parts of one worker; `wire` adds the agents, `finish` and then `close` stop them.

    Args:
        settings: The settings.
        agents: The agents to run.
        registry: Registry of the metrics; by default a new one with process metrics.
        chat: The judge; by default the endpoints of the settings. The caller must close it.
        env: Environment variables; those of the process by default.

    Raises:
        SettingsError: A secret, certificate or prompt pack cannot be used.
    """

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
        self.agents: tuple[AgentName, ...] = tuple(name for name in ALL_AGENTS if name in agents)
        self.group_id = group_of(settings.kafka.group_id, self.agents)
        self._given_chat = chat
        self._spending = Spending(budget_limits(settings.judge))
        self._env = os.environ if env is None else env
        telemetry = settings.telemetry
        self.metrics = Metrics(
            _process_registry() if registry is None else registry,
            labels=telemetry.labels,
            objectives=settings.monitor.objectives,
        )
        self._judged_by: Mapping[str, Metric] = build_metrics(settings)
        self._plan = Plan(
            rooms={
                settings.topics.events: SHORT_ROOM,
                settings.topics.scores: SHORT_ROOM,
                settings.topics.observations: SHORT_ROOM,
            },
            default_room=Room(records=max(TASK_RECORDS, 2 * settings.judge.max_in_flight), bytes=ROOM_BYTES),
            finish=self.finish,
            finish_seconds=settings.judge.timeout_seconds + 5,  # long enough for a judge call
            starts={settings.topics.events: settings.kafka.start},
            moved=self._note_move,
        )
        self.app: App = build_app(settings.kafka, group_id=self.group_id, plan=self._plan)
        self._output = Output(
            lambda: self.app.producer,
            self.metrics,
            settings.topics,
            policy=settings.dead_letters,
        )
        self._recent = RecentResults(settings.kafka, settings.topics, self._output.counter)
        self._plan.assigned = self._recent.on_assigned
        self.pipelines: list[Pipeline] = []
        self._sinks: Sequence[Delivery[Any] | TopicSink] = []
        self._release: Callable[[], None] = lambda: None
        self._registry: Unpacking | None = None
        self._judging: JudgingStack | None = None
        self.keeper: Keeper | None = None
        """Holds the monitors of the owned partitions; None without the monitor agent."""
        self.store: StoreAgent | None = None
        """Writes the verdict store; None without the store agent."""
        self._citations = CitationWatch([name for name, metric in BUILT_IN.items() if metric.cites])
        self.health = Health(
            loop=self._loop,
            agents=self.pipelines,
            judge_trouble=self._judge_trouble,
            endpoints=lambda: () if self._judging is None else self._judging.pool.states,
            broker_trouble=self._broker_trouble,
            silent_seconds=max(SILENT_SECONDS, 3 * settings.kafka.heartbeat_interval_seconds),
            deferred=lambda: self._spending.deferring,
            store_trouble=lambda: None if self.store is None else self.store.trouble,
            citations=lambda: self._citations.note,
        )
        self.standing = Standing(
            settings,
            group_id=self.group_id,
            agents=self.agents,
            metrics=self.metrics,
            health=self.health,
            ranges={name: metric.score_range for name, metric in self._judged_by.items()},
            partitions=self.partitions,
            monitor=lambda: None if self.keeper is None else self.keeper.snapshot(datetime.now(UTC)),
        )
        """The data of the status page."""

    def _judge_trouble(self) -> str | None:
        """Return why no judge is available; None if one is, or if none is used here."""
        return None if self._judging is None else self._judging.pool.trouble

    def consumer(self) -> Consumer | None:
        """Return the consumer; None before the application has created it."""
        consumer: Consumer | None = self.app._consumer  # noqa: SLF001 - the property would create one
        return consumer

    def _loop(self) -> Loop | None:
        """Return the reading loop: the group's consumer, or the store if it runs alone."""
        return self.store if self.agents == ("store",) else self.consumer()

    def wire(self) -> None:
        """Add the agents.

        Raises:
            SettingsError: A secret, certificate, prompt pack or endpoint cannot be used.
        """
        if "sink" in self.agents and len(self.agents) > 1:
            # Monitor and sink would share the results of one group, and a slow receiver would delay judging.
            raise SettingsError(["agents: sink needs a worker of its own; start another with --agents sink"])
        for name in self.agents:
            {
                "intake": self._add_intake,
                "judge": self._add_judge,
                "monitor": self._add_monitor,
                "store": self._add_store,
                "sink": self._add_sinks,
            }[name]()
        self.metrics.watch_partitions(self.partitions, time.time)

    def begin_nothing(self) -> None:
        """Take no further records, and send no judge call for a verdict that has not started."""
        for pipeline in self.pipelines:
            pipeline.close()
        if self._judging:
            self._judging.pool.drain(close=True)

    async def finish(self, timeout_seconds: float) -> None:
        """Wait for the records in flight, up to the timeout."""
        waits = self._spending.deferring is not None or self._judge_trouble() is not None
        bound = min(timeout_seconds, HOPELESS_SECONDS) if waits else timeout_seconds
        self._release()
        if self._judging is not None:
            # Unsent calls would not finish in time, or would be paid for in vain.
            self._judging.pool.drain()
        await asyncio.gather(*(pipeline.finish(bound) for pipeline in self.pipelines))
        if self.keeper is not None:
            # The partition's next owner reads again what is not saved in time.
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.keeper.save(), min(timeout_seconds, KEEP_SECONDS))

    async def close(self) -> None:
        """Close judge, sinks and registry."""
        await self._recent.close()
        if self._judging is not None:
            await self._judging.close()
        for part in (*self._sinks, self._registry):
            if isinstance(part, Delivery | Unpacking):
                await part.close()

    def _broker_trouble(self) -> list[str]:
        refused, failing = self.app.admission.trouble, self._output.trouble
        return broker_trouble(self._settings, self._env, self._sinks, refused, failing, self._registry)

    def _add(self, topic: str, name: str, part: Any, handle: Callable[[Any], Any]) -> None:
        pipeline = Pipeline(
            name,
            handle,
            on_unreadable=self._set_unreadable_aside,
            on_surprise=part.on_surprise,
            crash=self.app.crash,
        )
        self.pipelines.append(pipeline)
        add_agent(self.app, topic, name, pipeline.run)

    async def _set_unreadable_aside(self, record: Any) -> None:
        problem = record.unreadable
        await self._output.unreadable(record, problem)
        if record.topic == self._settings.topics.events:
            self.metrics.count_event("undecodable", problem.reason, count=problem.records)

    def _note_move(self, move: Move) -> None:
        self.metrics.count_move(move.topic, move.why, move.lost)
        tell_move(move)

    def _add_intake(self) -> None:
        topic = self._settings.topics.events
        made = make_intake(
            self._settings,
            metrics=self._judged_by,
            output=self._output,
            counts=self.metrics,
            spending=self._spending,
            agents=self.agents,
            env=self._env,
            consumer=self.consumer,
        )
        self._release = made.release
        self._registry = made.registry
        if made.room is not None:
            self._plan.rooms = {**self._plan.rooms, topic: made.room}
        self._add(topic, "intake", made.part, made.part.handle)
        if made.predicate is not None:
            self._plan.predicates = {topic: made.predicate}
            skipped = made.predicate.skipped
            self.metrics.watch_skips(lambda: {str(reason): count for reason, count in skipped.items()})

    def _add_judge(self) -> None:
        settings = self._settings
        endpoints: tuple[EndpointSettings, ...] = ()
        if self._given_chat is None:
            endpoints = judge_endpoints(settings.judge, self._env, settings.metrics)
            check_prices(settings.judge, endpoints)
            tell_judge(settings.judge, endpoints)
        prices = build_prices(endpoints)
        watch = JudgeWatch(self.metrics, prices=prices, book=self._spending.book)
        stack = self._judging = open_stack(
            settings.judge, endpoints, chat=self._given_chat, prices=prices, observer=watch
        )
        if self._spending.limits.any:
            self.metrics.watch_budget(self._spending.spent_ratio)
        wanted = settings.metrics if self._given_chat is None else {}
        agent = JudgeAgent(
            judges=metric_judges(stack, self._judged_by, wanted),
            output=self._output,
            spending=self._spending,
            citations=self._citations,
            free=[name for name, metric in settings.metrics.items() if metric.is_code],
        )
        for metric in self._judged_by:
            task_topic = settings.topics.task_topic(metric)
            self._add(task_topic, f"judge-{metric}", agent, partial(agent.handle, metric=metric))

    def _add_monitor(self) -> None:
        settings, topics = self._settings, self._settings.topics
        forwarder = Forwarder(self._output)
        self._add(topics.scores, "observe", forwarder, forwarder.handle)
        reader, explorer = StretchReader(settings.kafka, self._env), settings.store.explorer_url
        keeper = self.keeper = Keeper(
            monitor_config(settings.monitor, self._judged_by, settings.metrics, explorer_url=explorer),
            self._output,
            reader,
            observations=topics.observations,
            states=topics.monitor_state,
            scores=topics.scores,
            finished=partial(reader.committed, topics.scores, self.group_id),
            assigned=lambda: [one.partition for one in self.partitions() if one.topic == topics.observations],
            tell=IncidentLog().tell,
        )
        self._add(topics.observations, "monitor", keeper, keeper.handle)
        self.metrics.watch_monitor(lambda: gauges_of(keeper.snapshot(datetime.now(UTC))))
        for name, metric in self._judged_by.items():
            self.metrics.set_range(name, *metric.score_range)

    def explorer(self) -> Explorer | None:
        """Open the verdict explorer; None without the store agent."""
        if "store" not in self.agents:
            return None
        return open_explorer(self._settings, on_damage=self._suspect_store)

    def _add_sinks(self) -> None:
        built = build_sinks(
            self._settings,
            self._output,
            version=version("judgestream"),
            env=self._env,
            on_outcome=self.metrics.count_sink,
        )
        self._sinks = built.ways
        for topic, name, agent in built.agents:
            self._add(topic, name, agent, agent.handle)

    def _suspect_store(self) -> None:
        if self.store is not None:
            self.store.suspect()

    def _add_store(self) -> None:
        self.store = open_agent(self._settings)

    def partitions(self) -> tuple[PartitionState, ...]:
        """Return the state of every assigned partition."""
        consumer = self.consumer()
        return () if consumer is None else tuple(consumer.partitions())


def _process_registry() -> CollectorRegistry:
    registry = CollectorRegistry()
    for collector in (ProcessCollector, PlatformCollector, GCCollector):
        collector(registry=registry)
    return registry
