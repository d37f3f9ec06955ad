"""Copies results from the scores topic to the observations, by metric."""

from __future__ import annotations

from typing import Final

import structlog
from pydantic import ValidationError

from schemas import RESULT, Alert, Result, is_rejudged
from streams.kafka.output import Output
from streams.kafka.record import Record

_log = structlog.stdlib.get_logger(__name__)


class Forwarder:
    """Forwards live results as observations, and those that the monitor asked for."""

    def __init__(self, out: Output) -> None:
        self._out = out

    async def handle(self, record: Record) -> None:
        """Forward one record of the scores topic."""
        result = result_of(record)
        if result is not None and (result.replay_id is None or is_rejudged(result.replay_id)):
            await self._out.observation(result)

    async def on_surprise(self, record: Record, error: Exception) -> None:
        """Skip a result that could not be forwarded; the pipeline has logged it."""


DEMAND: Final = "judge_again"
"""The header of an alert among the observations, for which another word is asked."""


def demanded(record: Record) -> Alert | None:
    """Return the alert for which another word is asked; None if the record is no such demand."""
    if DEMAND not in dict(record.headers):
        return None
    try:
        return Alert.model_validate_json(record.value or b"")
    except ValidationError:
        return None


def result_of(record: Record) -> Result | None:
    """Return the result in a record; None if it is none."""
    try:
        return RESULT.validate_json(record.value or b"")
    except ValidationError:
        if DEMAND in dict(record.headers):
            return None
        # Not written by a worker of this version. No dead letter is needed: the record stays on its topic.
        _log.warning(
            "record is not a result; skipped",
            topic=record.topic,
            partition=record.partition,
            offset=record.offset,
        )
        return None
