"""What the monitor observes: live results by metric, and those of tasks that it has judged again.

The judging agents judge such a task past the cache and outside the live budget. Its result reaches the
monitor as an observation with a replay id, and is in no series, gauge or sink.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

import structlog
from pydantic import ValidationError

from schemas import RESULT, Alert, Anchor, JudgeTask, Result, is_rejudged, result_id
from streams.errors import TooLargeError
from streams.kafka.output import Output
from streams.kafka.reader import TopicReader
from streams.kafka.record import Record
from streams.monitoring.anchors import Enrolment
from streams.monitoring.burst import Burst
from streams.monitoring.monitor import Monitor

_log = structlog.stdlib.get_logger(__name__)

MARGIN: Final = timedelta(minutes=10)
"""Clocks differ: tasks written this long before a burst may be its own."""
DEMAND: Final = "judge_again"
"""The header of an alert among the observations, for which another word is asked."""


async def forward(out: Output, record: Record) -> None:
    """Forward a result as an observation, if it is live or the monitor asked for it."""
    result = observed(record)
    if result is None or isinstance(result, Alert):
        return
    if result.replay_id is None or is_rejudged(result.replay_id):
        await out.observation(result)


def observed(record: Record) -> Result | Alert | None:
    """Return a record's result, or the alert for which it asks another word."""
    try:
        if DEMAND in dict(record.headers):
            return Alert.model_validate_json(record.value or b"")
        return RESULT.validate_json(record.value or b"")
    except ValidationError:
        # Not written by a worker of this version. No dead letter is needed: the record stays on its topic.
        _log.warning(
            "record is not a result; skipped",
            topic=record.topic,
            partition=record.partition,
            offset=record.offset,
        )
        return None


def task_again(task: JudgeTask, replay_id: str) -> JudgeTask:
    """Return the task under a replay id; the id of its result follows from both."""
    name = result_id(topic=task.source.topic, event_id=task.event_id, metric=task.metric, replay_id=replay_id)
    return task.model_copy(update={"replay_id": replay_id, "result_id": name})


async def judge_burst(out: Output, past: TopicReader, topic: str, burst: Burst) -> None:
    """Write the tasks of a burst, except those written before a kill, and let it know those that are gone."""
    gone, wanted = {one[1:3]: one for one in burst.missing}, dict[str, JudgeTask]()
    async for record in past.read_at(topic, sorted(gone)):
        try:
            task = task_again(JudgeTask.model_validate_json(record.value or b""), burst.replay_id)
        except ValidationError:
            continue  # not written by this system
        wanted[task.result_id] = task
        gone.pop((record.partition, record.offset), None)
    found = len(wanted)
    async for record in past.read(topic, await past.between(topic, burst.since - MARGIN)):
        wanted.pop((dict(record.headers).get("result_id") or b"").decode(errors="replace"), None)
    for task in wanted.values():
        await out.task(task)
    for one in gone.values():
        burst.changes.setdefault(one.event_id, None)
    _log.info("old answers are judged again", topic=topic, answers=found, written=len(wanted))


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


@dataclass
class KnownAnchors:
    anchors: dict[str, Anchor] = field(default_factory=dict)
    """By id, also void ones."""
    enrolments: dict[str, Enrolment] = field(default_factory=dict)
    """The valid ones, by metric."""

    def add(self, records: Iterable[Record]) -> None:
        for record in records:
            key = (record.key or b"").decode(errors="replace")
            self.anchors.pop(key, None)
            if record.value is None:
                continue
            try:
                self.anchors[key] = Anchor.model_validate_json(record.value)
            except ValidationError:
                _log.warning("record is not an anchor; skipped", topic=record.topic, offset=record.offset)
        by_metric: dict[str, list[Anchor]] = {}
        for anchor in self.anchors.values():
            by_metric.setdefault(anchor.metric, []).append(anchor)
        self.enrolments.clear()  # the monitors have this dictionary
        self.enrolments |= {metric: Enrolment.of(anchors) for metric, anchors in by_metric.items()}
