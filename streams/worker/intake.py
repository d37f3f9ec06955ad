"""Build the intake of one worker from its settings."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import partial

from judge.metric import Metric
from streams.errors import SettingsError
from streams.intake.agent import Intake
from streams.intake.from_settings import (
    conversation_bounds,
    json_reader,
    metric_routes,
    open_registry,
    reading_policy,
    sampling_policy,
    trace_bounds,
    trace_reader,
)
from streams.intake.joining.conversations import ConversationIntake
from streams.intake.joining.gathering import Joining
from streams.intake.joining.traces import TraceIntake
from streams.intake.pushdown import PushDown, push_down
from streams.intake.reading.beside import read_beside
from streams.intake.reading.registry.unpacking import Unpacking
from streams.intake.sampling import SamplingPolicy
from streams.intake.trace_sampling import TracePushDown, TraceSampler
from streams.judging.spending import Spending
from streams.kafka.output import Output
from streams.kafka.past import TopicPast
from streams.kafka.topics.flow import AgentName
from streams.kafka.transport import Consumer, Room
from streams.settings import Settings
from streams.telemetry.instruments import Metrics


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeIntake:
    """The intake of the events topic.

    Attributes:
        part: Handles the records.
        predicate: Filters records before that; None to keep all.
        room: Room of the topic; None for the default.
        release: Releases records that wait for further ones.
        registry: Decodes records by their schemas; None without a registry.
    """

    part: Intake | TraceIntake | ConversationIntake
    predicate: PushDown | TracePushDown | None
    room: Room | None = None
    release: Callable[[], None] = lambda: None
    registry: Unpacking | None = None


def make_intake(
    settings: Settings,
    *,
    metrics: Mapping[str, Metric],
    output: Output,
    counts: Metrics,
    spending: Spending,
    agents: Collection[AgentName],
    env: Mapping[str, str],
    consumer: Callable[[], Consumer | None],
) -> MadeIntake:
    """Build the intake of the events topic.

    Args:
        settings: The settings.
        metrics: Metrics to judge, by name.
        output: Writes tasks and dead letters.
        counts: The Prometheus metrics.
        spending: The judging cost of this worker.
        agents: The agents of this worker.
        env: Environment variables.
        consumer: Returns the worker's consumer; None before it exists.

    Raises:
        SettingsError: The registry cannot be used, or the rates depend on a budget that other workers spend.
    """
    ingest = json_reader(settings.ingest)
    otlp = settings.ingest.format == "otlp"
    policy = sampling_policy(settings.sampling)
    registry = None if otlp else open_registry(settings.ingest.registry, env)
    read = partial(
        ingest.read,
        unpack=None if registry is None else registry.json,
        beside=partial(read_beside, seconds=settings.judge.verification_seconds),
    )
    taking = partial(
        Intake,
        read=read,
        policy=policy,
        metrics=metrics,
        output=output,
        counts=counts,
        verification_seconds=settings.judge.verification_seconds,
        rate_factor=_rate_factor(settings, spending, agents),
    )
    intake = taking(routes=metric_routes(settings))
    joining = Joining(
        counts=counts,
        bounds=trace_bounds(settings.ingest.otlp)
        if otlp
        else conversation_bounds(settings.ingest.conversations),
        past=TopicPast(settings.kafka),
        polled=lambda topic, partition: (of := consumer()) and of.polled(topic, partition),
        is_member=lambda: (of := consumer()) is not None and of.is_member,
    )
    if otlp:
        return _with_traces(settings, intake, reading_policy(settings), joining)
    predicate = push_down(reading_policy(settings), ingest)
    whole = metric_routes(settings, "conversation")
    if not whole:
        return MadeIntake(part=intake, predicate=predicate, registry=registry)
    conversations = ConversationIntake(
        read=read, policy=policy, events=intake, whole=taking(routes=whole), joining=joining
    )
    bounds = joining.bounds
    return MadeIntake(
        part=conversations,
        predicate=predicate,
        # More than the limit on open conversations, so that reading never waits for one to close.
        room=Room(records=32 * bounds.groups, bytes=2 * bounds.size),
        release=conversations.release,
        registry=registry,
    )


def _with_traces(settings: Settings, intake: Intake, policy: SamplingPolicy, joining: Joining) -> MadeIntake:
    """Build the intake of traces, with its filter."""
    ingest = settings.ingest
    reader = trace_reader(ingest)
    traces = TraceIntake(
        reader=reader,
        sampler=TraceSampler(policy),
        intake=intake,
        joining=joining,
        seconds=settings.judge.verification_seconds,
    )
    room: Room | None = None
    if reader.unit == "trace":
        # More than the limit on open traces, so that reading never waits for unread spans of one.
        room = Room(records=32 * ingest.otlp.max_traces, bytes=2 * ingest.otlp.max_bytes)
    predicate = None if policy.keeps_all else TracePushDown(policy, reader)
    return MadeIntake(part=traces, predicate=predicate, room=room, release=traces.release)


def _rate_factor(
    settings: Settings, spending: Spending, agents: Collection[AgentName]
) -> Callable[[], Fraction] | None:
    """Return the function that lowers sampling rates by spending, which is known only next to the judge."""
    if settings.judge.budget.when_spent == "defer" or not spending.limits.any:
        return None
    if "judge" not in agents:
        why = "because each worker counts its own spending; run them together, or use defer"
        raise SettingsError(
            [f"judge.budget.when_spent: lower_rate needs intake and judge in one worker, {why}"]
        )
    return spending.rate_factor
