"""The anchors on their topic: read by commands, followed by the monitor."""

from __future__ import annotations

from collections.abc import Iterable

import structlog
from pydantic import ValidationError

from schemas import Anchor
from streams.errors import TooLargeError
from streams.kafka.output import Output
from streams.kafka.reader import TopicReader
from streams.kafka.record import Record
from streams.monitoring.anchors import Enrolment
from streams.monitoring.monitor import Monitor
from streams.monitoring.rejudging import task_again

_log = structlog.stdlib.get_logger(__name__)


async def judge_due(monitor: Monitor, out: Output) -> None:
    """Write the tasks of the anchors that are due, and log what has become of the judges."""
    for task, replay_id in monitor.due:
        try:
            await out.task(task_again(task, replay_id))
        except TooLargeError as error:
            _log.error("an anchor is too large for its task topic", event_id=task.event_id, error=str(error))
    for shift in monitor.shifts:
        _log.warning("judge", shift=shift)
    monitor.due, monitor.shifts = [], []


class KnownAnchors:
    """The anchors that their topic holds."""

    def __init__(self) -> None:
        self.anchors: dict[str, Anchor] = {}
        """By id, also void ones."""
        self.enrolments: dict[str, Enrolment] = {}
        """The valid ones, by metric."""

    async def read(self, reader: TopicReader, topic: str) -> None:
        """Read all that the topic holds now."""
        self._add([record async for record in reader.read(topic)])

    async def follow(self, reader: TopicReader, topic: str) -> None:
        """Stay up to date, without an end."""
        await reader.keep_up(topic, lambda batch: self._add(batch.records))

    def _add(self, records: Iterable[Record]) -> None:
        metrics = set()
        for record in records:
            key = (record.key or b"").decode(errors="replace")
            before = self.anchors.pop(key, None)
            metrics |= set() if before is None else {before.metric}
            if record.value is None:
                continue
            try:
                anchor = Anchor.model_validate_json(record.value)
            except ValidationError:
                _log.warning("record is not an anchor; skipped", topic=record.topic, offset=record.offset)
                continue
            self.anchors[key] = anchor
            metrics.add(anchor.metric)
        for metric in metrics:
            found = Enrolment.of(one for one in self.anchors.values() if one.metric == metric)
            if found is None:
                self.enrolments.pop(metric, None)
            else:
                self.enrolments[metric] = found
