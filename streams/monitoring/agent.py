"""Monitor: results in, alerts out."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Protocol

import structlog
from pydantic import ValidationError

from schemas import RESULT, Alert, Failed, Scored, Unscored
from streams.kafka.letters import Incoming
from streams.kafka.output import Output

_log = structlog.stdlib.get_logger(__name__)


class Watcher(Protocol):
    """What calls drops: `streams.monitoring.monitor.Monitor`."""

    def observe(self, result: Scored | Unscored | Failed, now: datetime) -> Iterable[Alert]:
        """Take one result into account; give the alerts that follow from it."""


class MonitorAgent:
    """Shows every result to the monitor and publishes what it calls.

    Args:
        monitor: The monitor.
        output: Where alerts go.
        now: Tells the time, with its offset from UTC.
    """

    def __init__(
        self, monitor: Watcher, output: Output, *, now: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self._monitor = monitor
        self._output = output
        self._now = now

    async def handle(self, record: Incoming) -> None:
        """Take one record of the scores topic into account."""
        try:
            result = RESULT.validate_json(record.value or b"")
        except ValidationError:
            # Not written by a worker of this version; a monitor has nothing to set aside, the record stays on its topic.
            _log.warning(
                "record on the scores topic is not a result, passed over",
                topic=record.topic,
                partition=record.partition,
                offset=record.offset,
            )
            return
        for alert in self._monitor.observe(result, self._now()):
            _log.warning("alert", kind=alert.kind, metric=alert.metric, summary=alert.summary)
            await self._output.alert(alert)

    async def on_surprise(self, record: Incoming, error: Exception) -> None:
        """Pass a result over that the monitor could not cope with; the pipeline has logged it."""
