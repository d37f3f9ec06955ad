"""The sinks' agent: each result to every receiver, at least once.

Its record is finished when all have accepted it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Protocol

from pydantic import ValidationError

from schemas import RESULT
from streams.kafka.output import Output
from streams.kafka.record import Record
from streams.sinks.delivery import RefusedError
from streams.sinks.evaluation import Evaluation, evaluation
from streams.telemetry.traces import surprise


class Sink(Protocol):
    """A receiver of verdicts: `delivery.Delivery`, or the topic."""

    @property
    def name(self) -> str:
        """The sink's name in the settings."""

    async def put(self, one: Evaluation) -> None:
        """Deliver a verdict; return when it was accepted.

        Raises:
            RefusedError: It was refused.
        """


class SinkAgent:
    """Delivers results."""

    def __init__(self, sinks: Sequence[Sink], output: Output) -> None:
        self._sinks = tuple(sinks)
        self._output = output

    async def handle(self, record: Record) -> None:
        """Deliver one result to every receiver."""
        try:
            result = RESULT.validate_json(record.value or b"")
        except ValidationError as error:
            detail = (
                f"value: is not a result, {error.error_count()} problems; is topics.scores the results topic?"
            )
            await self._output.dead_letter(record, "undecodable", detail)
            return
        one = evaluation(result)
        outcomes = await asyncio.gather(*(sink.put(one) for sink in self._sinks), return_exceptions=True)
        for sink, outcome in zip(self._sinks, outcomes, strict=True):
            if isinstance(outcome, RefusedError):
                detail = f"sinks.{sink.name}: the receiver refused the verdict of {one.name}, {outcome}"
                await self._output.dead_letter(record, "unroutable", detail, event_id=result.event_id)
            elif isinstance(outcome, BaseException):
                raise outcome

    async def on_surprise(self, record: Any, error: Exception) -> None:
        """Write the dead letter of a record that caused an unexpected error."""
        await self._output.dead_letter(record, "undecodable", surprise(error))
