"""The intake agent: reads events and writes a task for each metric that judges them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from fractions import Fraction
from typing import Final

from judge.errors import EventError
from judge.metric import Metric
from judge.verdict import aside
from schemas import JudgeTask, QAEvent
from streams.errors import DecodeError, TooLargeError
from streams.intake.routing import Route, route
from streams.intake.sampling import SamplingPolicy
from streams.intake.tasks import tasks_of, texts_chars
from streams.kafka.letters import Incoming
from streams.kafka.output import Output
from streams.telemetry.instruments import Metrics
from streams.telemetry.traces import surprise

Read = Callable[[Incoming], Awaitable[QAEvent]]
"""Read an event from a record, or raise DecodeError."""

SMALL_TASK_CHARS: Final = 200_000
"""Tasks below this size fit into every broker's limit."""


class Intake:
    """Decides the outcome of an event.

    Args:
        read: Reads an event, for `handle`.
        policy: The sampling policy. It may have filtered records before.
        routes: The conditions and rates of the metrics.
        metrics: The metrics, by name.
        output: Writes tasks and dead letters.
        counts: Counts outcomes.
        verification_seconds: Limit on the time to read an event's texts; above 0.
        rate_factor: Returns the factor by which the policy's rates are currently lowered, as
            `Decision.lowered` requires; None for no lowering.
        now: Returns the time, with its offset from UTC.
    """

    def __init__(
        self,
        *,
        read: Read,
        policy: SamplingPolicy,
        routes: Sequence[Route],
        metrics: Mapping[str, Metric],
        output: Output,
        counts: Metrics,
        verification_seconds: float = aside.DEFAULT_SECONDS,
        rate_factor: Callable[[], Fraction] | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._read = read
        self._policy = policy
        self._routes = tuple(routes)
        self._of_all = tuple(one for one in self._routes if one.of_all)
        self._metrics = metrics
        self._output = output
        self._counts = counts
        self._verification_seconds = verification_seconds
        self._rate_factor = rate_factor
        self._now = now

    async def handle(self, record: Incoming) -> None:
        """Turn one record into tasks, a dead letter or nothing."""
        try:
            event = await self._read(record)
        except DecodeError as error:
            await self.refuse(record, error)
        else:
            await self.take(record, event)

    async def refuse(self, record: Incoming, error: DecodeError) -> None:
        """Write a dead letter for a record that is not an event."""
        await self._output.dead_letter(record, error.reason, error.detail)
        self._counts.count_event("undecodable", error.reason)

    async def take(self, record: Incoming, event: QAEvent, *, in_conversation: bool = False) -> None:
        """Turn one event into tasks, a dead letter or nothing.

        Args:
            record: The record with the event, or the first of several.
            event: The event.
            in_conversation: Whether it is also judged in a conversation, so it may match no metric.
        """
        decision = self._policy.decide_event(event, record.key)
        lowered = decision
        if decision.keep and self._rate_factor is not None:
            lowered = decision.lowered(self._rate_factor())
        routes = self._routes if lowered.keep else self._of_all
        routing = route(event, decision, routes, lowered=lowered)
        if lowered.skip_reason is not None and not routing.assignments:
            self._counts.count_event("skipped", lowered.skip_reason)
            self._output.passed(record.topic)
        elif routing.unroutable and in_conversation:
            self._counts.count_event("skipped", "in_conversation")
            self._output.passed(record.topic)
        elif routing.unroutable:
            detail = (
                f"no metric's conditions match: {', '.join(one.metric for one in self._routes)}; see "
                "metrics.*.when"
            )
            await self._output.dead_letter(record, "unroutable", detail, event_id=event.event_id)
            self._counts.count_event("unroutable")
        elif routing.not_sampled:
            self._counts.count_event("skipped", "not_sampled")
            self._output.passed(record.topic)
        else:
            try:
                tasks = await tasks_of(
                    record,
                    event,
                    routing,
                    self._metrics,
                    now=self._now(),
                    verification_seconds=self._verification_seconds,
                )
            except EventError as error:
                await self._output.dead_letter(record, "oversized", error.detail, event_id=event.event_id)
                self._counts.count_event("undecodable", "oversized")
                return
            await self._send(record, event, tasks)

    async def _send(self, record: Incoming, event: QAEvent, tasks: Sequence[JudgeTask]) -> None:
        try:
            if len(tasks) == 1:
                await self._output.task(tasks[0])
            else:
                await self._send_several(tasks)
        except TooLargeError as error:
            await self._output.dead_letter(record, "oversized", str(error), event_id=event.event_id)
            self._counts.count_event("undecodable", "oversized")
            return
        self._counts.count_event("sampled")

    async def _send_several(self, tasks: Sequence[JudgeTask]) -> None:
        # If size may matter, the largest task is sent first and alone: if it is refused, no task was sent, so
        # the event becomes only a dead letter.
        sized = sorted(tasks, key=texts_chars, reverse=True)
        careful = 1 if texts_chars(sized[0]) > SMALL_TASK_CHARS else 0
        for task in sized[:careful]:
            await self._output.task(task)
        await asyncio.gather(*(self._output.task(task) for task in sized[careful:]))

    async def on_surprise(self, record: Incoming, error: Exception) -> None:
        """Write a dead letter for a record after an unexpected error."""
        await self._output.dead_letter(record, "undecodable", surprise(error))
        self._counts.count_event("undecodable", "internal_error")
