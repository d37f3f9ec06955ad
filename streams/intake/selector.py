"""The one path from event to tasks, of worker, files, replays and `map`; `Intake` is the worker's agent."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from datetime import UTC, datetime
from fractions import Fraction
from functools import lru_cache
from typing import Final, Literal, Protocol, TypeAlias

from judge.errors import EventError
from judge.evaluate import limited
from judge.metric import Metric, build_task, further_texts, reading_size
from schemas import JudgeTask, QAEvent, Sampling, Source
from schemas.base import CLUSTERED_POLICY, EventField
from streams.errors import DecodeError, TooLargeError, undecodable
from streams.intake.reader import is_plausible
from streams.intake.sampling import Before, Decision, LabelsCondition, Rule, SamplingPolicy, inclusion
from streams.kafka.output import Output
from streams.kafka.record import Record, moment
from streams.settings.intake import SamplingSettings
from streams.settings.metrics import Unit
from streams.settings.tree import Settings
from streams.telemetry.instruments import Metrics
from streams.telemetry.logs import surprise

NoTaskReason = Literal["filtered", "not_sampled", "unroutable"]


@dataclass(frozen=True, slots=True)
class Route:
    metric: str
    has: tuple[EventField, ...] = ()
    labels: LabelsCondition = field(default_factory=LabelsCondition)
    rate: float = 1.0
    of_all: bool = False
    """Whether the rate is a share of all events, sampled or not: the metric costs nothing."""

    def fits(self, event: QAEvent) -> bool:
        return self.labels.fits(event.labels) and all(_has(event, name) for name in self.has)

    def decide(self, event: Decision, lowered: Decision) -> Decision:
        """Decide for this metric, by an event's decision at the policy's rate and at the lowered one."""
        return event.of_all(self.rate) if self.of_all else lowered.for_metric(self.rate)


@dataclass(frozen=True, slots=True)
class EventSelection:
    decision: Decision  # at the policy's rate
    fitting: tuple[str, ...]  # metrics whose conditions match
    assignments: Mapping[str, Decision]  # of those of them that judge it
    skipped: NoTaskReason | None  # None if there are assignments


class Steering(Protocol):
    """The rates of `sampling.budget`, which all workers share."""

    known: asyncio.Event  # set once the rates of the past are known

    def in_force(self, timestamp: float | None, stratum: str) -> tuple[Fraction, str]:
        """Return the part of a stratum's configured rate at a time, and a suffix for the policy's name."""

    def count(self, stratum: str, met: float, asked: float) -> None:
        """Count an event: verdicts that its configured rate asks for, and those that are asked for."""


@dataclass(frozen=True, slots=True, eq=False)
class Selector:
    """Selects the tasks of events; `rate_factor` lowers the rates of a metric for an event's labels."""

    policy: SamplingPolicy
    routes: Sequence[Route]
    metrics: Mapping[str, Metric]
    _: KW_ONLY
    rate_factor: Callable[[str, Mapping[str, str]], Fraction] | None = None
    steering: Steering | None = None
    replay_id: str | None = None
    now: Callable[[], datetime] = lambda: datetime.now(UTC)

    def select(
        self, event: QAEvent, record_key: bytes | None, timestamp: float | None = None
    ) -> EventSelection:
        """Decide by an event and its record's key and timestamp, in seconds since the epoch."""
        decision = steered = self.policy.decide_event(event, record_key)
        if self.steering is not None and decision.keep:
            steered = decision.lowered(*self.steering.in_force(timestamp, decision.stratum))
        fitting = [route for route in self.routes if route.fits(event)]
        assignments = {}
        for route in fitting:
            lowered = steered
            if self.rate_factor is not None and steered.keep:
                lowered = steered.lowered(self.rate_factor(route.metric, event.labels))
            if (decided := route.decide(decision, lowered)).keep:
                assignments[route.metric] = decided
        if self.steering is not None and decision.keep:
            paid = [route for route in fitting if not route.of_all]
            asked = sum(route.metric in assignments for route in paid)
            self.steering.count(decision.stratum, sum(route.rate for route in paid), asked)
        skipped: NoTaskReason | None = None
        if not assignments:
            skipped = decision.skip_reason or ("not_sampled" if fitting else "unroutable")
        return EventSelection(decision, tuple(route.metric for route in fitting), assignments, skipped)

    async def tasks(self, record: Record, event: QAEvent, selection: EventSelection) -> list[JudgeTask]:
        now = self.now()
        recorded_at = moment(record.timestamp) or now
        if event.occurred_at is not None and not is_plausible(event.occurred_at, recorded_at):
            event = event.model_copy(update={"occurred_at": None})  # a span's is not checked before
        size = reading_size(event)
        source = Source(topic=record.topic, partition=record.partition, offset=record.offset)
        return [
            await limited.run_limited(
                size,
                limited.DEFAULT_SECONDS,
                build_task,
                event,
                self.metrics[metric],
                source=source,
                sampling=_sampling(decision),
                recorded_at=recorded_at,
                sampled_at=now,
                replay_id=self.replay_id,
            )
            for metric, decision in selection.assignments.items()
        ]


def texts_chars(task: JudgeTask) -> int:
    pages = sum(len(name) + len(text) for name, text in (task.context or {}).items())
    further = sum(map(len, further_texts(task)))
    return len(task.question) + len(task.answer) + len(task.reference or "") + pages + further


def _sampling(decision: Decision) -> Sampling:
    return Sampling(
        probability=_probability(decision.threshold, decision.before),
        stratum=decision.stratum,
        policy=decision.policy,
        cluster=f"{decision.randomness:014x}" if decision.policy.startswith(CLUSTERED_POLICY) else None,
    )


@lru_cache(maxsize=1024)  # computing a fraction is slow
def _probability(threshold: int, before: Before | None) -> float:
    return float(inclusion(threshold, before))


def _has(event: QAEvent, name: EventField) -> bool:
    if name == "context":
        return any(page and not page.isspace() for page in (event.context or {}).values())
    if name in {"messages", "tool_calls"}:
        return bool(getattr(event, name))
    text: str | None = getattr(event, name)
    return text is not None and bool(text) and not text.isspace()


# From the settings


def sampling_policy(sampling: SamplingSettings, *, least_rate: float = 0.0) -> SamplingPolicy:
    """Rates above 0 are at least `least_rate`."""

    def rate(own: float) -> float:
        return own and max(own, least_rate)

    return SamplingPolicy(
        default_rate=rate(sampling.default_rate),
        rules=[Rule(one.name, LabelsCondition.of(one.when), rate(one.rate)) for one in sampling.rules],
        key=sampling.key,
        upstream=sampling.upstream,
    )


def reading_policy(settings: Settings) -> SamplingPolicy:
    """Return the policy of push-down, which keeps the events of metrics that judge more than the sample."""
    least = max((metric.rate for metric in settings.metrics.values() if metric.is_code), default=0.0)
    return sampling_policy(settings.sampling, least_rate=least)


def metric_routes(settings: Settings, unit: Unit = "event") -> tuple[Route, ...]:
    return tuple(
        Route(
            metric=name,
            has=metric.when.has,
            labels=LabelsCondition.of(metric.when.labels),
            rate=metric.rate,
            of_all=metric.is_code,
        )
        for name, metric in settings.metrics.items()
        if metric.unit == unit
    )


# The agent

Read: TypeAlias = Callable[[Record], Awaitable[QAEvent]]
SMALL_TASK_CHARS: Final = 200_000
"""Tasks below this size fit into every broker's limit."""


async def _no_event(record: Record) -> QAEvent:
    raise undecodable(f"{record.topic}: an event is in several records")


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Intake:
    """Writes the tasks or the dead letter of each event, and counts its outcome."""

    selector: Selector
    output: Output
    counts: Metrics
    read: Read = _no_event

    async def handle(self, record: Record) -> None:
        try:
            event = await self.read(record)
        except DecodeError as error:
            await self.refuse(record, error)
        else:
            await self.take(record, event)

    async def take(self, record: Record, event: QAEvent, *, in_conversation: bool = False) -> None:
        """Write its tasks or dead letter; an event in a conversation may match no metric."""
        if self.selector.steering is not None:
            await self.selector.steering.known.wait()
        selection = self.selector.select(event, record.key, record.timestamp)
        if selection.skipped == "unroutable" and not in_conversation:
            names = ", ".join(route.metric for route in self.selector.routes)
            detail = f"no metric's conditions match: {names}; see metrics.*.when"
            await self.output.dead_letter(record, "unroutable", detail, event_id=event.event_id)
            self.counts.count_event("unroutable")
        elif selection.skipped is not None:
            reason = "in_conversation" if selection.skipped == "unroutable" else selection.skipped
            self.counts.count_event("skipped", reason)
            self.output.passed(record.topic)
        else:
            try:
                await self._send(await self.selector.tasks(record, event, selection))
            except (EventError, TooLargeError) as error:
                detail = error.detail if isinstance(error, EventError) else str(error)
                await self.output.dead_letter(record, "oversized", detail, event_id=event.event_id)
                self.counts.count_event("undecodable", "oversized")
            else:
                self.counts.count_event("sampled")

    async def _send(self, tasks: Sequence[JudgeTask]) -> None:
        # If size may matter, the largest task is sent first and alone: if it is refused, no task was sent, so
        # the event becomes only a dead letter.
        first, *rest = sorted(tasks, key=texts_chars, reverse=True) if len(tasks) > 1 else tasks
        if not rest or texts_chars(first) > SMALL_TASK_CHARS:
            await self.output.task(first)
            tasks = rest
        await asyncio.gather(*(self.output.task(task) for task in tasks))

    async def refuse(self, record: Record, error: DecodeError) -> None:
        await self.output.dead_letter(record, error.reason, error.detail)
        self.counts.count_event("undecodable", error.reason)

    async def on_surprise(self, record: Record, error: Exception) -> None:
        await self.output.dead_letter(record, "undecodable", surprise(error))
        self.counts.count_event("undecodable", "internal_error")
