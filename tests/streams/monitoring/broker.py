"""Topics in memory, and the monitors of a worker over them."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Collection, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from schemas import Alert, JudgeTask, Scored
from streams.kafka.reader import Ranges
from streams.kafka.record import Record
from streams.monitoring.config import MonitorConfig
from streams.monitoring.partitions import PartitionMonitors
from streams.settings.broker import TopicSettings

CONFIG = MonitorConfig(labels=("app",), baseline_samples=20)
TOPICS = TopicSettings()
OBSERVATIONS, STATES, SCORES = TOPICS.observations, TOPICS.monitor_state, TOPICS.scores
TASKS = TOPICS.task_topic("relevance")


@dataclass
class Broker:
    """Topics in memory, whose writes can fail or kill the writer."""

    logs: dict[str, list[Record]] = field(default_factory=dict)
    alerts: list[Alert] = field(default_factory=list)
    tasks: list[JudgeTask] = field(default_factory=list)
    kill_after: int | None = None
    """Number of writes before the writer is killed."""
    finished_scores: int = 0

    async def finished(self) -> dict[int, int]:
        return {0: self.finished_scores}

    def add(self, topic: str, key: bytes | None, value: bytes | None, timestamp: float) -> Record:
        log = self.logs.setdefault(topic, [])
        log.append(Record(topic, 0, len(log), timestamp, key, value))
        return log[-1]

    def _killed(self) -> None:
        if self.kill_after is not None:
            self.kill_after -= 1
            if self.kill_after < 0:
                raise KeyboardInterrupt

    async def alert(self, alert: Alert) -> None:
        self._killed()
        self.alerts.append(alert)

    async def ends(self, topic: str) -> dict[int, int]:
        return {0: len(self.logs.get(topic, []))}

    async def task(self, task: JudgeTask) -> None:
        self._killed()
        headers = (("result_id", task.result_id.encode()),)
        self.tasks.append(task)
        log = self.logs.setdefault(TASKS, [])
        log.append(Record(TASKS, 0, len(log), 0.0, None, task.model_dump_json().encode(), headers))

    async def between(self, topic: str, _: datetime) -> Ranges:
        return {0: (0, len(self.logs[topic]))}

    async def read_at(self, topic: str, places: Iterable[tuple[int, int]]) -> AsyncIterator[Record]:
        for _, offset in places:
            yield self.logs[topic][offset]

    async def monitor_state(self, key: bytes, value: bytes | None) -> None:
        self._killed()
        self.add(STATES, key, value, 0.0)

    def score(self, result: Scored) -> None:
        self.add(SCORES, b"", result.model_dump_json().encode(), result.times.judged_at.timestamp())

    async def observation(self, result: Scored) -> None:
        value, moment = result.model_dump_json().encode(), result.times.judged_at.timestamp()
        self.add(OBSERVATIONS, result.metric.encode(), value, moment)

    async def read(self, topic: str, ranges: Ranges | None = None) -> AsyncIterator[Record]:
        ((start, end),) = (ranges or {0: (0, sys.maxsize)}).values()
        for record in self.logs.get(topic, [])[start:end]:
            yield record


def monitors(broker: Broker, owned: Collection[int] = (0,), **further: Any) -> PartitionMonitors:
    return PartitionMonitors(
        CONFIG,
        broker,  # type: ignore[arg-type]  # in the place of topics
        broker,  # type: ignore[arg-type]
        TOPICS,
        finished=broker.finished,
        assigned=lambda: owned,
        **further,
    )
