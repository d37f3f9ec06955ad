"""Build the intake of one worker from its settings."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial

from judge.metric import Metric
from streams.errors import SettingsError
from streams.intake.agent import Intake
from streams.intake.from_settings import (
    joining_bounds,
    json_reader,
    metric_routes,
    open_registry,
    reading_policy,
    sampling_policy,
    trace_reader,
)
from streams.intake.joining.conversations import ConversationIntake
from streams.intake.joining.gathering import Joining
from streams.intake.joining.traces import TraceIntake
from streams.intake.pushdown import PushDown, TracePushDown, TraceSampler, push_down
from streams.intake.reading.beside import read_beside
from streams.intake.reading.registry.unpacking import Unpacking
from streams.intake.selector import Route, Selector
from streams.judging.budget import Spending
from streams.kafka.output import Output
from streams.kafka.reader import TopicReader
from streams.kafka.topics.table import AgentName
from streams.kafka.transport import Consumer, Room
from streams.settings import Settings
from streams.telemetry.instruments import Metrics


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeIntake:
    """The intake of the events topic."""

    part: Intake | TraceIntake | ConversationIntake
    predicate: PushDown | TracePushDown | None
    """Filters records before they are delivered; None to keep all."""
    room: Room | None = None
    """Room of the topic; None for the default."""
    release: Callable[[], None] = lambda: None
    """Releases records that wait for further ones."""
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

    Raises:
        SettingsError: The registry cannot be used, or the rates depend on a budget that other workers spend.
    """
    ingest = json_reader(settings.ingest)
    otlp = settings.ingest.format == "otlp"
    registry = None if otlp else open_registry(settings.ingest.registry, env)
    read = partial(
        ingest.read,
        unpack=None if registry is None else registry.json,
        beside=read_beside,
    )
    policy, reading = sampling_policy(settings.sampling), reading_policy(settings)

    bounds = joining_bounds(settings.ingest)
    joining = Joining(
        counts=counts,
        bounds=bounds,
        past=TopicReader(settings.kafka),
        polled=lambda topic, partition: (of := consumer()) and of.polled(topic, partition),
        is_member=lambda: (of := consumer()) is not None and of.is_member,
    )
    # More than the limit on open groups, so that reading never waits for unread records of one.
    room = Room(records=32 * bounds.groups, bytes=2 * bounds.size)
    rate_factor = _rate_factor(settings, spending, agents)

    def intake(routes: tuple[Route, ...]) -> Intake:
        selector = Selector(policy, routes, metrics, rate_factor=rate_factor)
        return Intake(read=read, selector=selector, output=output, counts=counts)

    events, whole = intake(metric_routes(settings)), metric_routes(settings, "conversation")
    if otlp:
        reader = trace_reader(settings.ingest)
        traces = TraceIntake(reader=reader, sampler=TraceSampler(reading), intake=events, joining=joining)
        return MadeIntake(
            part=traces,
            predicate=None if reading.keeps_all else TracePushDown(reading, reader),
            room=room if reader.unit == "trace" else None,
            release=traces.release,
        )
    made = MadeIntake(part=events, predicate=push_down(reading, ingest), registry=registry)
    if not whole:
        return made
    conversations = ConversationIntake(read=read, events=events, whole=intake(whole), joining=joining)
    return replace(made, part=conversations, room=room, release=conversations.release)


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
