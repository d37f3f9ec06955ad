"""Forwarding: every live result becomes an observation of its metric, in the order of one partition."""

from __future__ import annotations

import structlog
from pydantic import ValidationError

from schemas import RESULT
from streams.kafka.letters import Incoming
from streams.kafka.output import Output

_log = structlog.stdlib.get_logger(__name__)


class Forwarder:
    """Turns results into observations.

    Results are keyed by event, so those of a metric lie in all partitions and each worker sees a share. A
    monitor has to see all of them: observations are keyed by metric.

    Args:
        out: Where they go.
    """

    def __init__(self, out: Output) -> None:
        self._out = out

    async def handle(self, record: Incoming) -> None:
        """Forward one record of the scores topic."""
        try:
            result = RESULT.validate_json(record.value or b"")
        except ValidationError:
            # Not written by a worker of this version; there is nothing to set aside, the record stays on its
            # topic.
            _log.warning(
                "record on the scores topic is not a result; skipped",
                topic=record.topic,
                partition=record.partition,
                offset=record.offset,
            )
            return
        if result.replay_id is None:  # a judgement of the past says nothing about now
            await self._out.observation(result)

    async def on_surprise(self, record: Incoming, error: Exception) -> None:
        """Pass a result over that could not be forwarded; the pipeline has logged it."""
