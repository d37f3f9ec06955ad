"""The parts of one worker, made from its settings and connected with each other."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime
from fractions import Fraction
from functools import partial
from importlib.metadata import version
from typing import Any, Final

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector

from judge.chat import ChatClient
from judge.metric import Metric
from judge.metrics.registry import BUILT_IN
from judge.pool.stack import JudgingStack
from judge.text.printable import printable
from schemas import QAEvent
from streams.errors import SettingsError
from streams.intake.agent import Intake
from streams.intake.from_settings import event_policy, metric_routes, trace_bounds
from streams.intake.pushdown import PushDown, push_down
from streams.intake.reading import Ingest
from streams.intake.reading.otlp.reader import OtlpReader
from streams.intake.sampling import SamplingPolicy
from streams.intake.trace_sampling import TracePushDown, TraceSampler
from streams.intake.traces import TraceIntake
from streams.judging.agent import JudgeAgent
from streams.judging.citations import CitationWatch
from streams.judging.from_settings import budget_limits
from streams.judging.metrics import build_metrics
from streams.judging.prices import build_prices, check_prices
from streams.judging.spending import Spending
from streams.judging.stack import judge_endpoints, metric_judges, open_stack
from streams.judging.watch import JudgeWatch
from streams.kafka.access.errors import explain
from streams.kafka.app import App, add_agent, build_app
from streams.kafka.letters import Incoming
from streams.kafka.output import Output
from streams.kafka.past import TopicPast
from streams.kafka.recent import RecentResults
from streams.kafka.stretch import StretchReader
from streams.kafka.topics.flow import ALL_AGENTS, AgentName, group_of
from streams.kafka.transport import Consumer, Plan, Room
from streams.kafka.transport.ranges import Move
from streams.monitoring.agent import Forwarder
from streams.monitoring.from_settings import monitor_config
from streams.monitoring.gauges import gauges_of
from streams.monitoring.keeper import Keeper
from streams.monitoring.snapshot import MonitorSnapshot
from streams.settings import EndpointSettings, Settings
from streams.sinks.agent import SinkAgent
from streams.sinks.delivery import Delivery
from streams.sinks.from_settings import build_sinks
from streams.sinks.topic import TopicSink
from streams.store.agent import StoreAgent, open_agent
from streams.store.reader import Reader
from streams.store.views.explorer.api import Explorer
from streams.store.views.explorer.open import open_explorer
from streams.telemetry.instruments import Metrics
from streams.telemetry.masking import settings_masker
from streams.telemetry.partitions import PartitionState
from streams.worker.health import SILENT_SECONDS, Health, Loop
from streams.worker.notices import tell_judge, tell_move
from streams.worker.pipeline import Pipeline
from streams.worker.port.history import History, Point, lines_of
from streams.worker.port.past import earlier_points
from streams.worker.port.status import by_outcome, status_of
from streams.worker.port.totals import totals_of

HOPELESS_SECONDS: Final = 0.5
"""What waits for a judge that is down gets so long: it would not end in time."""
KEEP_SECONDS: Final = 5.0
"""Keeping the monitor's state gets so long when partitions are given away."""
ROOM_BYTES: Final = 32 * 1024 * 1024
TASK_RECORDS: Final = 512
"""Tasks in flight, a topic: room for those that timed out beside those that go on. What waits has cost nothing yet."""
_WHOLE: Final = Fraction(1)
INTAKE_ROOM: Final = Room(records=2_000, bytes=ROOM_BYTES)
MONITOR_ROOM: Final = Room(records=2_000, bytes=ROOM_BYTES)


class Wiring:
    """The parts of one worker; `wire` adds the agents, `finish` and `close` end them in this order.

    Args:
        settings: The settings.
        agents: Which agents run.
        registry: Where metrics are registered; a new one with process metrics by default.
        chat: The judge to ask; by default the endpoints of the settings. Stays the caller's to close.
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
            max_label_values=telemetry.max_label_values,
        )
        self._judged_by: Mapping[str, Metric] = build_metrics(settings)
        self._plan = Plan(
            rooms={
                settings.topics.events: INTAKE_ROOM,
                settings.topics.scores: MONITOR_ROOM,
                settings.topics.observations: MONITOR_ROOM,
            },
            default_room=Room(records=max(TASK_RECORDS, 2 * settings.judge.max_in_flight), bytes=ROOM_BYTES),
            finish=self.finish,
            # A judge call may end before its partition is given away; the group waits for at most the rebalance timeout.
            finish_seconds=min(
                settings.judge.timeout_seconds + 5, settings.kafka.rebalance_timeout_seconds * 0.8
            ),
            starts={settings.topics.events: settings.kafka.start},
            resume_at=settings.kafka.resume_at,
            moved=self._note_move,
            client_rack=settings.kafka.client_rack,
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
        self._sinks: list[Delivery | TopicSink] = []
        self._release: Callable[[], None] = lambda: None
        self._judging: JudgingStack | None = None
        self.keeper: Keeper | None = None
        """Keeps the monitors of the partitions owned here, where the monitor runs."""
        self.store: StoreAgent | None = None
        """Keeps the verdict store, where it runs here."""
        self._started_at = time.monotonic()
        self._history = History()
        self._citations = CitationWatch([name for name, metric in BUILT_IN.items() if metric.cites])
        self.health = Health(
            loop=self._loop,
            agents=self.pipelines,
            judge_trouble=self._judge_trouble,
            broker_trouble=self._broker_trouble,
            silent_seconds=max(SILENT_SECONDS, 3 * settings.kafka.heartbeat_interval_seconds),
            deferred=lambda: self._spending.deferring,
            store_trouble=lambda: None if self.store is None else self.store.trouble,
            citations=lambda: self._citations.note,
        )

    def _judge_trouble(self) -> str | None:
        """Why no judge can be asked; None while one can, or where none runs here."""
        return None if self._judging is None else self._judging.pool.trouble

    def _broker_trouble(self) -> list[str]:
        """What keeps the broker from letting us in, or from taking what we write."""
        found: list[str] = []
        found += [
            f"sink {sink.name} takes nothing: {sink.trouble}"
            for sink in self._sinks
            if isinstance(sink, Delivery) and sink.trouble is not None
        ]
        refused, failing = self.app.admission.trouble, self._output.trouble
        if refused is not None:
            found.append(f"the broker refuses new connections: {refused}")
        if failing is not None:
            explanation = explain(failing.error, self._settings.kafka)
            why = repr(failing.error) if explanation is None else str(explanation)
            seconds = time.monotonic() - failing.since
            found.append(f"writing to {failing.topic} has failed for {seconds:.0f} s: {printable(why, 300)}")
        # It may quote the broker, and is read without a password. Secrets may have been replaced since the start.
        return [settings_masker(self._settings, self._env).mask(one) for one in found]

    def consumer(self) -> Consumer | None:
        """Give the consumer; None before the application has made one."""
        consumer: Consumer | None = self.app._consumer  # noqa: SLF001 - the property would create one
        return consumer

    def _loop(self) -> Loop | None:
        """Give what reads: the group's consumer, or the store's own where nothing else runs here."""
        return self.store if self.agents == ("store",) else self.consumer()

    def wire(self) -> None:
        """Add every agent that runs here.

        Raises:
            SettingsError: A secret, certificate, prompt pack or endpoint cannot be used.
        """
        if "sink" in self.agents and len(self.agents) > 1:
            # Both would read the results in one group; and nothing that a receiver does may hold up judging.
            raise SettingsError(
                ["agents: sink runs in a worker of its own; start another with --agents sink"]
            )
        for name in self.agents:
            {
                "intake": self._add_intake,
                "judge": self._add_judge,
                "monitor": self._add_monitor,
                "store": self._add_store,
                "sink": self._add_sinks,
            }[name]()
        self.metrics.watch_partitions(self.partitions, time.time)

    async def finish(self, timeout_seconds: float) -> None:
        """Let what is in hand end, for so long at most."""
        waits = self._spending.deferring is not None or self._judge_trouble() is not None
        bound = min(timeout_seconds, HOPELESS_SECONDS) if waits else timeout_seconds
        self._release()
        if self._judging is not None:
            # What was not sent would not end in time, or be paid for and thrown away.
            self._judging.pool.drain()
        await asyncio.gather(*(pipeline.finish(bound) for pipeline in self.pipelines))
        if self.keeper is not None:
            # What is not kept in time is read again by the partition's next owner.
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.keeper.save(), min(timeout_seconds, KEEP_SECONDS))

    async def close(self) -> None:
        """Give back what judging has opened."""
        self._recent.close()
        if self._judging is not None:
            await self._judging.close()
        for sink in self._sinks:
            if isinstance(sink, Delivery):
                await sink.close()

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
        settings = self._settings
        ingest = Ingest(max_event_bytes=settings.ingest.max_event_bytes, mapping=settings.ingest.mapping)
        otlp = settings.ingest.format == "otlp"
        policy = event_policy(settings, otlp=otlp)
        intake = Intake(
            decode=partial(_decode, ingest),
            policy=policy,
            routes=metric_routes(settings),
            metrics=self._judged_by,
            output=self._output,
            counts=self.metrics,
            verification_seconds=settings.judge.verification_seconds,
            rate_factor=self._rate_factor(),
        )
        predicate: PushDown | TracePushDown | None
        if otlp:
            predicate = self._add_traces(intake, policy)
        else:
            predicate = push_down(policy, ingest)
            self._add(settings.topics.events, "intake", intake, intake.handle)
        if predicate is not None:
            self._plan.predicates = {settings.topics.events: predicate}
            skipped = predicate.skipped
            self.metrics.watch_skips(lambda: {str(reason): count for reason, count in skipped.items()})

    def _add_traces(self, intake: Intake, policy: SamplingPolicy) -> TracePushDown | None:
        """Have traces read from the events' topic; give what turns records down before."""
        ingest, topic = self._settings.ingest, self._settings.topics.events
        reader = OtlpReader(
            unit=ingest.otlp.unit, max_event_bytes=ingest.max_event_bytes, mapping=ingest.mapping
        )
        traces = TraceIntake(
            reader=reader,
            sampler=TraceSampler(policy),
            intake=intake,
            counts=self.metrics,
            bounds=trace_bounds(ingest.otlp),
            past=TopicPast(self._settings.kafka),
        )
        self._release = traces.release
        if reader.unit == "trace":
            # Above what may be open, so that reading never waits for a trace whose rest has yet to be read.
            room = Room(records=32 * ingest.otlp.max_traces, bytes=2 * ingest.otlp.max_bytes)
            self._plan.rooms = {**self._plan.rooms, topic: room}
        self._add(topic, "intake", traces, traces.handle)
        return None if policy.keeps_all else TracePushDown(policy, reader)

    def _rate_factor(self) -> Callable[[], Fraction]:
        """By what the intake lowers its rates: what was spent here is known only where the judge runs, too."""
        if self._settings.judge.budget.when_spent == "defer" or not self._spending.limits.any:
            return lambda: _WHOLE
        if "judge" not in self.agents:
            why = "for each worker counts what it spends by itself; run them together, or use defer"
            raise SettingsError(
                [f"judge.budget.when_spent: lower_rate needs intake and judge in one worker, {why}"]
            )
        return self._spending.rate_factor

    def _add_judge(self) -> None:
        settings = self._settings
        endpoints: tuple[EndpointSettings, ...] = ()
        if self._given_chat is None:
            endpoints = judge_endpoints(settings.judge, self._env)
            check_prices(settings.judge, endpoints)
            tell_judge(settings.judge, endpoints)
        prices = build_prices(endpoints)
        watch = JudgeWatch(self.metrics, prices=prices, book=self._spending.book)
        stack = self._judging = open_stack(
            settings.judge, endpoints, chat=self._given_chat, prices=prices, observer=watch
        )
        if self._spending.limits.any:
            self.metrics.watch_budget(self._spending.spent_ratio)
        agent = JudgeAgent(
            judges=metric_judges(
                stack, self._judged_by, {} if self._given_chat is not None else settings.metrics
            ),
            output=self._output,
            spending=self._spending,
            citations=self._citations,
        )
        for metric in self._judged_by:
            handle = partial(agent.handle, metric=metric)
            self._add(settings.topics.task_topic(metric), f"judge-{metric}", agent, handle)

    def _add_monitor(self) -> None:
        settings, topics = self._settings, self._settings.topics
        forwarder = Forwarder(self._output)
        self._add(topics.scores, "observe", forwarder, forwarder.handle)
        keeper = self.keeper = Keeper(
            monitor_config(
                settings.monitor, {name: metric.score_range for name, metric in self._judged_by.items()}
            ),
            self._output,
            StretchReader(settings.kafka, self._env),
            observations=topics.observations,
            states=topics.monitor_state,
            scores=topics.scores,
            assigned=lambda: [
                state.partition for state in self.partitions() if state.topic == topics.observations
            ],
        )
        self._add(topics.observations, "monitor", keeper, keeper.handle)
        self.metrics.watch_monitor(lambda: gauges_of(keeper.snapshot(datetime.now(UTC))))
        for name, metric in self._judged_by.items():
            self.metrics.set_range(name, *metric.score_range)

    def explorer(self) -> Explorer | None:
        """Make what shows the store; None where none runs here."""
        return open_explorer(self._settings) if "store" in self.agents else None

    def _add_sinks(self) -> None:
        self._sinks = build_sinks(
            self._settings,
            self._output,
            version=version("judgestream"),
            env=self._env,
            on_outcome=self.metrics.count_sink,
        )
        agent = SinkAgent(self._sinks, self._output)
        self._add(self._settings.topics.scores, "sink", agent, agent.handle)

    def _add_store(self) -> None:
        self.store = open_agent(self._settings)

    def partitions(self) -> tuple[PartitionState, ...]:
        """Say how every assigned partition stands."""
        consumer = self.consumer()
        return () if consumer is None else tuple(consumer.partitions())

    def status(self) -> dict[str, Any]:
        """Say what the page shows."""
        return status_of(
            group_id=self.group_id,
            agents=self.agents,
            running_seconds=time.monotonic() - self._started_at,
            events=self.metrics.event_counts(),
            partitions=self.partitions(),
            ready=self.health.ready(),
            monitor=self._snapshot(),
            ranges={name: metric.score_range for name, metric in self._judged_by.items()},
            history=self._history,
            totals=totals_of(self.metrics.registry.collect()),
        )

    def _snapshot(self) -> MonitorSnapshot | None:
        return None if self.keeper is None else self.keeper.snapshot(datetime.now(UTC))

    async def remember(self) -> None:
        """Note every few seconds how things stand, for the page."""
        if "store" in self.agents:
            ranges = {name: metric.score_range for name, metric in self._judged_by.items()}
            reader = Reader(self._settings.store.path)
            self._history.begin_with(await asyncio.to_thread(earlier_points, reader, ranges, time.time()))
            reader.close()
        while True:
            self._history.add(
                Point(
                    at=time.time(),
                    events=by_outcome(self.metrics.event_counts()),
                    lag=sum(state.lag_records or 0 for state in self.partitions()),
                    lines=lines_of(self._snapshot()),
                )
            )
            await asyncio.sleep(self._history.step_seconds)


def _decode(ingest: Ingest, record: Incoming) -> QAEvent:
    milliseconds = None if record.timestamp is None else round(record.timestamp * 1000)
    return ingest.decode(record.value, record.headers, milliseconds)


def _process_registry() -> CollectorRegistry:
    registry = CollectorRegistry()
    for collector in (ProcessCollector, PlatformCollector, GCCollector):
        collector(registry=registry)
    return registry
