"""Build the agents of one worker: one function each, which adds pipelines and what belongs to them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from typing import Any, Final

from streams.errors import SettingsError
from streams.judging.agent import JudgeAgent
from streams.judging.endpoints import build_prices, check_prices, judge_endpoints, metric_judges, open_stack
from streams.judging.watch import JudgeWatch
from streams.kafka.reader import TopicReader
from streams.kafka.topics.table import AgentName
from streams.monitoring.config import monitor_config
from streams.monitoring.partitions import Forwarder, PartitionMonitors
from streams.monitoring.snapshot import gauges_of
from streams.settings import EndpointSettings
from streams.sinks.delivery import SinkAgent, open_sinks
from streams.sinks.incidents import IncidentAgent
from streams.store.agent import StoreAgent
from streams.worker.intake import make_intake
from streams.worker.notices import IncidentLog, tell_judge
from streams.worker.worker import Worker


def add_agents(worker: Worker) -> None:
    """Add the worker's agents.

    Raises:
        SettingsError: A secret, certificate, prompt pack or endpoint cannot be used.
    """
    if "sink" in worker.agents and len(worker.agents) > 1:
        # Monitor and sink would share the results of one group, and a slow receiver would delay judging.
        raise SettingsError(["agents: sink needs a worker of its own; start another with --agents sink"])
    for name in worker.agents:
        _ADD[name](worker)


def _add_intake(worker: Worker) -> None:
    """Add the agent that turns records into tasks."""
    topic = worker.settings.topics.events
    made = make_intake(
        worker.settings,
        metrics=worker.judged_by,
        output=worker.output,
        counts=worker.metrics,
        spending=worker.spending,
        agents=worker.agents,
        env=worker.env,
        consumer=worker.consumer,
    )
    worker.before_finish.append(made.release)
    if made.registry is not None:
        worker.closing.append(made.registry.close)
        waiting = partial(_trouble, made.registry.client, "waiting for the schema registry: ")
        worker.troubles.append(waiting)
    if made.room is not None:
        worker.plan.rooms = {**worker.plan.rooms, topic: made.room}
    worker.add(topic, "intake", made.part)
    if made.predicate is not None:
        worker.plan.predicates = {topic: made.predicate}
        skipped = made.predicate.skipped
        worker.metrics.watch_skips(lambda: {str(reason): count for reason, count in skipped.items()})


def _trouble(dependency: Any, words: str) -> list[str]:
    return [] if dependency.trouble is None else [f"{words}{dependency.trouble}"]


def _add_judge(worker: Worker) -> None:
    """Add the agent that turns tasks into results, one pipeline a metric."""
    settings, given = worker.settings, worker.chat
    endpoints: tuple[EndpointSettings, ...] = ()
    if given is None:
        endpoints = judge_endpoints(settings.judge, worker.env, settings.metrics)
        check_prices(settings.judge, endpoints)
        tell_judge(settings.judge, endpoints)
    prices = build_prices(endpoints)
    watch = JudgeWatch(worker.metrics, prices=prices, book=worker.spending.book)
    stack = open_stack(settings.judge, endpoints, chat=given, prices=prices, observer=watch)
    worker.pool = stack.pool
    worker.closing.append(stack.close)
    if worker.spending.limits.any:
        worker.metrics.watch_budget(worker.spending.spent_ratio)
    agent = JudgeAgent(
        judges=metric_judges(stack, worker.judged_by, settings.metrics if given is None else {}),
        output=worker.output,
        spending=worker.spending,
        citations=worker.citations,
        free=[name for name, metric in settings.metrics.items() if metric.is_code],
    )
    for metric in worker.judged_by:
        handle = partial(agent.handle, metric=metric)
        worker.add(settings.topics.task_topic(metric), f"judge-{metric}", agent, handle)


def _add_monitor(worker: Worker) -> None:
    """Add the agents that watch the results."""
    settings, topics = worker.settings, worker.settings.topics
    worker.add(topics.scores, "observe", Forwarder(worker.output))
    reader, explorer = TopicReader(settings.kafka, worker.env), settings.store.explorer_url
    monitors = worker.monitors = PartitionMonitors(
        monitor_config(settings.monitor, worker.judged_by, settings.metrics, explorer_url=explorer),
        worker.output,
        reader,
        observations=topics.observations,
        states=topics.monitor_state,
        scores=topics.scores,
        finished=partial(reader.committed, topics.scores, worker.group_id),
        assigned=lambda: [one.partition for one in worker.partitions() if one.topic == topics.observations],
        tell=IncidentLog().tell,
        notes=worker.health.about_models,
    )
    worker.add(topics.observations, "monitor", monitors)
    worker.beside.append(monitors.attend)
    worker.metrics.watch_monitor(lambda: gauges_of(monitors.snapshot(datetime.now(UTC))))
    for name, metric in worker.judged_by.items():
        worker.metrics.set_range(name, *metric.score_range)


def _add_sinks(worker: Worker) -> None:
    """Add the agents that hand verdicts to other systems."""
    settings, topics = worker.settings, worker.settings.topics
    ways = open_sinks(
        settings,
        worker.output,
        version=version("judgestream"),
        env=worker.env,
        on_outcome=worker.metrics.count_sink,
    )
    for way in (*ways["verdicts"], *ways["incidents"]):
        worker.closing.append(way.close)
        worker.troubles.append(partial(_trouble, way, f"sink {way.name} fails: "))
    if ways["verdicts"]:
        worker.add(topics.scores, "sink", SinkAgent(ways["verdicts"], worker.output))
    if ways["incidents"]:
        past = TopicReader(settings.kafka, worker.env)
        agent = IncidentAgent(ways["incidents"], worker.output, past, settings)
        worker.add(topics.alerts, "incidents", agent)


def _add_store(worker: Worker) -> None:
    """Add the agent that writes the verdict store; it reads without the consumer group."""
    worker.store = StoreAgent(worker.settings)
    worker.beside.append(worker.store.run)


_ADD: Final[Mapping[AgentName, Callable[[Worker], None]]] = {
    "intake": _add_intake,
    "judge": _add_judge,
    "monitor": _add_monitor,
    "store": _add_store,
    "sink": _add_sinks,
}
