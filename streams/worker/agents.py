"""Build the agents of one worker: one function each, which adds pipelines and what belongs to them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib.metadata import version
from typing import Any, Final
from urllib.parse import urlsplit

import structlog

from judge.endpoints.lane import BatchLane
from judge.endpoints.openai_chat import OpenAIChat
from judge.endpoints.pool import EndpointPool
from judge.metric import Metric
from schemas import Alert, Result, Scored
from streams.errors import SettingsError
from streams.intake.joining.intakes import ConversationIntake, GroupIntake, Joining
from streams.intake.joining.join import JoinBounds
from streams.intake.reader import EventReader, GroupReader, GroupSampler, open_reader
from streams.intake.selector import Intake, Selector, metric_routes, reading_policy, sampling_policy
from streams.judging.agent import BatchTopic, JudgeAgent, JudgeWatch, batch_options, waiting_limit
from streams.judging.endpoints import build_prices, check_prices, judge_endpoints, metric_judges, open_pool
from streams.judging.leasing import Leasing
from streams.judging.rates import Rates
from streams.kafka.delivery import BufferLimit
from streams.kafka.reader import TopicReader
from streams.kafka.topics.table import AgentName
from streams.monitoring.config import monitor_config
from streams.monitoring.monitor import gauges_of
from streams.monitoring.observations import KnownAnchors, forward
from streams.monitoring.partitions import PartitionMonitors
from streams.settings.judge import EndpointSettings
from streams.settings.metrics import Unit
from streams.store.views.incidents import Folding
from streams.telemetry.exposition import SeriesGauge
from streams.worker.worker import Worker

_log = structlog.stdlib.get_logger(__name__)


def add_agents(worker: Worker) -> None:
    if "sink" in worker.agents and len(worker.agents) > 1:
        # Monitor and sink would share the results of one group, and a slow receiver would delay judging.
        raise SettingsError(["agents: sink needs a worker of its own; start another with --agents sink"])
    limited = bool(worker.spending.caps) and not {"intake", "judge"}.isdisjoint(worker.agents)
    if limited or worker.rates is not None:
        _add_leasing(worker)
    for name in worker.agents:
        _ADD[name](worker)


def _add_leasing(worker: Worker) -> None:
    leasing = worker.leasing = Leasing(
        worker.spending,
        TopicReader(worker.settings.kafka, worker.env),
        worker.output,
        worker.settings.topics.budget,
        writes="judge" in worker.agents,
        is_ready=lambda: worker.is_assigned,
        rates=worker.rates,
    )
    if worker.rates is not None:
        for name in worker.rates.most:
            worker.metrics.set("judgestream_sampling_rate", name, to=partial(worker.rates.rate, name))
    worker.beside += [leasing.read, leasing.write]
    for cap in worker.spending.caps:
        ratio, left = (partial(of, cap) for of in (worker.spending.spent_ratio, worker.spending.left_seconds))
        worker.metrics.set("judgestream_judge_budget_spent_ratio", "day", cap, to=ratio)
        worker.metrics.set("judgestream_judge_budget_left_seconds", cap, to=left)


def _add_intake(worker: Worker) -> None:
    settings, topic = worker.settings, worker.settings.topics.events
    reader, reading = open_reader(settings, worker.env), reading_policy(settings)
    worker.closing.append(reader.close)
    worker.dependencies.append(("waiting for ", reader))
    policy = sampling_policy(settings.sampling)
    lowers = settings.judge.budget.when_spent == "lower_rate"
    rate_factor = worker.spending.rate_factor if lowers else None

    def intake(unit: Unit) -> Intake:
        selector = Selector(
            policy,
            metric_routes(settings, unit),
            worker.judged_by,
            rate_factor=rate_factor,
            steering=worker.rates,
        )
        if isinstance(reader, EventReader):
            return Intake(selector=selector, output=worker.output, counts=worker.metrics, read=reader.read)
        return Intake(selector=selector, output=worker.output, counts=worker.metrics)

    def joining(bounds: JoinBounds) -> Joining:
        return Joining(
            counts=worker.metrics,
            bounds=bounds,
            past=TopicReader(settings.kafka),
            polled=lambda topic, partition: (of := worker.consumer()) and of.polled(topic, partition),
            is_member=lambda: (of := worker.consumer()) is not None and of.is_member,
        )

    events, whole = intake("event"), intake("conversation")
    part: Intake | GroupIntake[Any] | ConversationIntake = events
    bounds = JoinBounds.of(settings.ingest) if whole.selector.routes else None
    if isinstance(reader, GroupReader):
        bounds = reader.bounds
        group_joining = joining(bounds or JoinBounds.of(settings.ingest))
        part = GroupIntake(sampler=GroupSampler(reading, reader), intake=events, joining=group_joining)
        worker.before_finish.append(part.release)
    elif bounds is not None:
        part = ConversationIntake(events=events, whole=whole, joining=joining(bounds))
        worker.before_finish.append(part.release)
    if bounds is not None:
        # More than the limit on open groups, so that reading never waits for unread records of one.
        limit = BufferLimit(records=32 * bounds.groups, bytes=2 * bounds.size)
        worker.options.limits = {**worker.options.limits, topic: limit}
    worker.add(topic, "intake", part)
    predicate = reader.push_down(reading)
    if predicate is not None:
        worker.options.predicates = {topic: predicate}
        worker.metrics.skips = predicate.skipped


def _add_judge(worker: Worker) -> None:
    settings, given = worker.settings, worker.chat
    endpoints: tuple[EndpointSettings, ...] = ()
    if given is None:
        endpoints = judge_endpoints(settings.judge, worker.env, settings.metrics)
        check_prices(settings.judge, endpoints, settings.sampling_limit)
        _log.info(
            "judge",
            endpoints=[f"{one.name}: {one.model} at {_host(one)}" for one in endpoints],
            max_in_flight=settings.judge.max_in_flight,
            timeout_seconds=settings.judge.timeout_seconds,
        )
    prices = build_prices(endpoints)
    watch = JudgeWatch(worker.metrics, prices, worker.spending.book)
    pool = open_pool(settings.judge, endpoints, chat=given, prices=prices, observer=watch)
    worker.pool = pool
    worker.closing.append(pool.close)
    worker.metrics.set("judgestream_judge_timeout_seconds", to=settings.judge.timeout_seconds)
    judges = metric_judges(pool, worker.judged_by, settings.metrics if given is None else {}, is_live=True)
    agent = JudgeAgent(
        judges=judges,
        output=worker.output,
        topics=settings.topics,
        spending=worker.spending,
        citations=worker.citations,
        suspicious=worker.is_suspicious,
        free=[name for name, metric in settings.metrics.items() if metric.is_code],
        on_verdict=None if worker.rates is None else partial(_count_verdict, worker.rates, worker.judged_by),
    )
    if settings.judge.has_batches and given is None:
        _add_batches(worker, agent, pool, endpoints, watch)
    for metric in worker.judged_by:
        handle = partial(agent.handle, metric=metric)
        worker.add(settings.topics.task_topic(metric), f"judge-{metric}", agent, handle)


def _add_batches(
    worker: Worker,
    agent: JudgeAgent,
    pool: EndpointPool,
    endpoints: Sequence[EndpointSettings],
    watch: JudgeWatch,
) -> None:
    """Add the lanes of endpoints that have batches, and the agent of the tasks that wait for them."""
    settings, topics = worker.settings, worker.settings.topics
    log = BatchTopic(TopicReader(settings.kafka, worker.env), worker.output, topics.batches)
    for endpoint, one in zip(pool.endpoints, endpoints, strict=True):
        chat, options = endpoint.options.chat, batch_options(one, settings.judge)
        if options is not None and isinstance(chat, OpenAIChat):
            lane = endpoint.lane = BatchLane(chat, options, log, observer=watch, hurried=worker.is_suspicious)
            log.lanes.append(lane)
            worker.beside.append(partial(lane.run, lambda: worker.is_assigned))
            worker.metrics.set("judgestream_judge_batch_requests", one.name, to=lane.waiting)
    limits = {**worker.options.limits, topics.batch_tasks: waiting_limit(settings.judge)}
    worker.options.limits = limits
    worker.patience[topics.batch_tasks] = max(lane.options.longest_seconds for lane in log.lanes)
    worker.add(topics.batch_tasks, "judge-batches", agent, agent.handle_in_batch)
    worker.beside.append(log.follow)


def _count_verdict(rates: Rates, metrics: Mapping[str, Metric], result: Result) -> None:
    """Tell the sampling rates of a verdict, with its score as a part of the metric's scale."""
    lowest, highest = metrics[result.metric].score_range
    score = (result.amount - lowest) / (highest - lowest) if isinstance(result, Scored) else None
    rates.judged(result.sampling.stratum, result.metric, score, result.cost_usd)


def _host(endpoint: EndpointSettings) -> str:
    """Return what is logged of a URL, whose query and user may hold a key."""
    return urlsplit(endpoint.base_url).netloc.rpartition("@")[2]


def _add_monitor(worker: Worker) -> None:
    settings, topics = worker.settings, worker.settings.topics
    reader, anchors = TopicReader(settings.kafka, worker.env), KnownAnchors()
    monitors = worker.monitors = PartitionMonitors(
        monitor_config(settings, worker.judged_by, suspects=worker.rates is not None),
        worker.output,
        reader,
        topics,
        finished=partial(reader.committed, topics.scores, worker.group_id),
        assigned=lambda: [one.partition for one in worker.partitions() if one.topic == topics.observations],
        tell=partial(tell_incident, Folding()),
        enrolments=anchors.enrolments,
        suspect=None if worker.rates is None else worker.rates.suspect,
    )
    worker.beside.append(lambda: reader.keep_up(topics.anchors, lambda batch: anchors.add(batch.records)))
    worker.add(topics.scores, "observe", monitors, partial(forward, worker.output))
    worker.add(topics.observations, "monitor", monitors)
    worker.beside.append(monitors.attend)
    worker.metrics.watch_series("judgestream_monitor", lambda: gauges_of(worker.snapshot()))
    for name, metric in worker.judged_by.items():
        worker.metrics.set_range(name, *metric.score_range)


def tell_incident(folding: Folding, alert: Alert) -> str | None:
    """Log an alert as a step of its incident, whose id is returned as far as it is known."""
    step, incident, words = folding.add(alert)
    if step == "began":
        further = {} if alert.link is None else {"link": alert.link}
        _log.warning("incident", incident=incident, summary=words, **further)
    elif step == "over":
        _log.warning("incident is over", incident=incident, summary=words)
    elif step == "explained":
        _log.warning("incident explained", incident=incident, word=words)
    else:
        _log.info("incident goes on", incident=incident, change=step, part=words)
    return incident


def _add_sinks(worker: Worker) -> None:
    from streams.sinks.delivery import SinkAgent, open_sinks  # noqa: PLC0415 - few workers have it
    from streams.sinks.incidents import IncidentAgent  # noqa: PLC0415 - as above

    settings, topics = worker.settings, worker.settings.topics
    ways = open_sinks(
        settings,
        worker.output,
        version=version("judgestream"),
        env=worker.env,
        on_outcome=lambda sink, outcome, number: worker.metrics.count(
            "judgestream_sink_verdicts_total", sink, outcome, by=number
        ),
    )
    for way in (*ways["verdicts"], *ways["incidents"]):
        worker.closing.append(way.close)
        worker.dependencies.append((f"sink {way.name} fails: ", way))
    if ways["verdicts"]:
        worker.add(topics.scores, "sink", SinkAgent(ways["verdicts"], worker.output))
    if ways["incidents"]:
        past = TopicReader(settings.kafka, worker.env)
        agent = IncidentAgent(ways["incidents"], worker.output, past, settings)
        worker.add(topics.alerts, "incidents", agent)


def _add_store(worker: Worker) -> None:
    from streams.store.agent import StoreAgent  # noqa: PLC0415 - as above
    from streams.store.views.explorer import Explorer  # noqa: PLC0415 - as above

    store = worker.store = StoreAgent(worker.settings)
    explorer = worker.explorer = Explorer(worker.settings)
    worker.beside.append(store.run)
    worker.metrics.watch_series("judgestream_release", explorer.gauges)
    worker.metrics.watch_series(
        "judgestream_people",
        lambda: [
            SeriesGauge(name, (metric, fingerprint), getattr(found, name))
            for metric, fingerprint, found in store.people
            for name in ("mean", "low", "high", "judge")
        ],
    )


_ADD: Final[Mapping[AgentName, Callable[[Worker], None]]] = {
    "intake": _add_intake,
    "judge": _add_judge,
    "monitor": _add_monitor,
    "store": _add_store,
    "sink": _add_sinks,
}
