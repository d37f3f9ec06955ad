"""Forwarding: turns each live result into an observation in its metric's partition."""

from __future__ import annotations

import structlog
from pydantic import ValidationError

from schemas import RESULT
from streams.kafka.output import Output
from streams.kafka.record import Record

_log = structlog.stdlib.get_logger(__name__)


class Forwarder:
    """Turns results into observations.

    Results are keyed by event, so each worker reads a share of a metric's results. A monitor needs all of
    them, so observations are keyed by metric.
    """

    def __init__(self, out: Output) -> None:
        self._out = out

    async def handle(self, record: Record) -> None:
        """Forward one record of the scores topic."""
        try:
            result = RESULT.validate_json(record.value or b"")
        except ValidationError:
            # Not written by a worker of this version. No dead letter is needed: the record stays on its
            # topic.
            _log.warning(
                "record on the scores topic is not a result; skipped",
                topic=record.topic,
                partition=record.partition,
                offset=record.offset,
            )
            return
        if result.replay_id is None:  # a replayed judgement is no live result
            await self._out.observation(result)

    async def on_surprise(self, record: Record, error: Exception) -> None:
        """Skip a result that could not be forwarded; the pipeline has logged it."""
