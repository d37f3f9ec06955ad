"""Intake: events in, one task for each metric that judges them out."""

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
"""Reads an event from a record, or raises DecodeError."""

SMALL_TASK_CHARS: Final = 200_000
"""Below this no broker refuses a task for its size."""


class Intake:
    """Decides the outcome of an event.

    Args:
        read: Reads an event, for `handle`.
        policy: Which events are judged. The same policy may have turned records down before they came here.
        routes: Which metrics judge an event.
        metrics: The metrics themselves, by name.
        output: Where tasks and dead letters go.
        counts: Where outcomes are counted.
        verification_seconds: Bound on the time that reading an event's texts may take; above 0.
        rate_factor: By which factor the policy's rates are lowered at the moment; see `Decision.lowered` for
            what it may depend on. None: by none.
        now: Tells the time, with its offset from UTC.
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
        """Set a record aside that is not an event."""
        await self._output.dead_letter(record, error.reason, error.detail)
        self._counts.count_event("undecodable", error.reason)

    async def take(self, record: Incoming, event: QAEvent, *, in_conversation: bool = False) -> None:
        """Turn one event into tasks, a dead letter or nothing.

        Args:
            record: The record that it came in, or the first of them.
            event: The event.
            in_conversation: Whether it is judged as part of a whole, so that no metric need judge it alone.
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
        # The largest goes first and alone when size may matter: if it is refused, nothing of this event was
        # sent, and the event ends as one dead letter and not as a task and a dead letter.
        sized = sorted(tasks, key=texts_chars, reverse=True)
        careful = 1 if texts_chars(sized[0]) > SMALL_TASK_CHARS else 0
        for task in sized[:careful]:
            await self._output.task(task)
        await asyncio.gather(*(self._output.task(task) for task in sized[careful:]))

    async def on_surprise(self, record: Incoming, error: Exception) -> None:
        """Set aside a record that met an unexpected error."""
        await self._output.dead_letter(record, "undecodable", surprise(error))
        self._counts.count_event("undecodable", "internal_error")
