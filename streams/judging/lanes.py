"""Tasks that wait for a batch: which do, on a topic of their own, and the log of the batches.

A task that may wait is written to a topic for such tasks, so that waiting holds no place and no offset of
others. Its offset there is committed with its result: after a crash it is read again, and the log says which
batch has its reply. What no batch judges is written back to its metric's topic, marked, and judged at once.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Final

import structlog
from pydantic import TypeAdapter, ValidationError

from judge.endpoints.lane import BatchLane, BatchOptions, BatchRecord
from judge.endpoints.retrying import RetryingJudge
from schemas import JudgeTask, Result, Source
from streams.errors import TooLargeError
from streams.kafka.delivery import BufferLimit
from streams.kafka.output import Output
from streams.kafka.reader import TopicBatch, TopicReader
from streams.kafka.record import Record
from streams.settings.broker import TopicSettings
from streams.settings.judge import EndpointSettings, JudgeSettings

_log = structlog.stdlib.get_logger(__name__)

LOG_PARTITION: Final = 0
"""All records of batches are on one partition, because their order decides."""
WAITING_BATCHES: Final = 4
"""Tasks in flight, in batches of `max_requests`."""
WAITING_BYTES: Final = 256 * 1024 * 1024
AT_ONCE: Final = "judge_at_once"
"""Header of a task that is not to wait for a batch."""
PLACE: Final = "task_place"
"""Header of a task that waits: its partition and offset on its metric's topic."""
_RECORD: Final = TypeAdapter(BatchRecord)


def batch_options(endpoint: EndpointSettings, judge: JudgeSettings) -> BatchOptions | None:
    lane = endpoint.lane
    if lane is None or lane.batch is None:
        return None
    factor, seconds = lane.price_factor, judge.timeout_seconds
    return BatchOptions(**lane.batch.model_dump(), call_seconds=seconds, price_factor=factor)


def waiting_limit(judge: JudgeSettings) -> BufferLimit:
    lanes = [one.lane.batch for one in judge.endpoints if one.lane is not None]
    records = sum(WAITING_BATCHES * batch.max_requests for batch in lanes if batch is not None)
    return BufferLimit(records=max(records, 1), bytes=WAITING_BYTES)


def is_fast(task: JudgeTask, share: float) -> bool:
    """Whether a task is judged at once, by a hash of its event and metric."""
    return int(task.result_id[:8], 16) < share * 2**32


class BatchTopic:
    """The log of batches, for the lanes that it is given (`judge.endpoints.lane.BatchLog`)."""

    def __init__(self, reader: TopicReader, output: Output, topic: str) -> None:
        self._reader, self._output, self._topic = reader, output, topic
        self.lanes: list[BatchLane] = []
        self._awaited: dict[tuple[bytes, bytes], asyncio.Future[None]] = {}

    async def follow(self) -> None:
        await self._reader.keep_up(self._topic, self._take)

    def _take(self, batch: TopicBatch) -> None:
        for record in batch.records:
            key, value = record.key, record.value
            if record.partition != LOG_PARTITION or key is None:
                continue
            try:
                parsed = None if value is None else _RECORD.validate_json(value)
            except ValidationError:
                _log.warning("record is no batch; skipped", offset=record.offset)
                continue
            for lane in self.lanes:
                lane.heard(key.decode(errors="replace"), parsed)
            awaited = self._awaited.pop((key, value or b""), None)
            if awaited is not None and not awaited.done():
                awaited.set_result(None)

    async def put(self, record: BatchRecord) -> None:
        key, value = record.key.encode(), _RECORD.dump_json(record)
        heard = self._awaited[key, value] = asyncio.get_running_loop().create_future()
        try:
            await self._write(key, value)
            await heard
        finally:
            self._awaited.pop((key, value), None)

    async def drop(self, key: str) -> None:
        await self._write(key.encode(), None)

    async def _write(self, key: bytes, value: bytes | None) -> None:
        await self._output.write(self._topic, key=key, value=value, partition=LOG_PARTITION)


class BatchTasks:
    """Decides which tasks wait, and moves them; metrics take part whose first endpoint has batches.

    A task that is `suspicious` must not wait, as the scores of its stratum may have fallen.
    """

    def __init__(
        self,
        judges: Mapping[str, object],
        output: Output,
        topics: TopicSettings,
        suspicious: Callable[[JudgeTask], bool],
    ) -> None:
        found = {name: judge for name, judge in judges.items() if isinstance(judge, RetryingJudge)}
        self.judges = {name: judge for name, judge in found.items() if judge.lane is not None}
        self._output, self._topics, self._suspicious = output, topics, suspicious

    def takes(self, task: JudgeTask, record: Record) -> bool:
        """Return whether a task on its metric's topic may wait: no replay, and not in the fast share."""
        options = self._options(task)
        if options is None or task.replay_id is not None or AT_ONCE in dict(record.headers):
            return False
        return not (is_fast(task, options.fast_share) or self._suspicious(task))

    def is_late(self, task: JudgeTask, record: Record) -> bool:
        """Return whether a task has waited so long, in the topic, that it is to be judged at once."""
        options, at = self._options(task), record.timestamp
        return options is not None and at is not None and time.time() - at > options.longest_seconds

    def _options(self, task: JudgeTask) -> BatchOptions | None:
        judge = self.judges.get(task.metric)
        return None if judge is None or judge.lane is None else judge.lane.options

    async def put(self, task: JudgeTask, record: Record) -> bool:
        """Write a task to the topic of those that wait; return False if it is too large."""
        place = f"{record.partition}/{record.offset}".encode()
        try:
            await self._write(self._topics.batch_tasks, task, record, (PLACE, place))
        except TooLargeError:
            return False
        self._output.passed(record.topic)
        return True

    async def put_back(self, task: JudgeTask, record: Record) -> None:
        await self._write(self._topics.task_topic(task.metric), task, record, (AT_ONCE, b"1"))
        self._output.passed(record.topic)

    async def _write(self, topic: str, task: JudgeTask, record: Record, header: tuple[str, bytes]) -> None:
        headers = [("result_id", task.result_id.encode()), header]
        await self._output.write(topic, key=record.key, value=record.value, headers=headers)

    def source(self, result: Result, record: Record) -> Source | None:
        """Return the place of a result's task on its metric's topic, if the record is from the other."""
        place = dict(record.headers).get(PLACE)
        if place is None or record.topic != self._topics.batch_tasks:
            return None
        try:
            partition, offset = (int(part) for part in place.split(b"/"))
        except ValueError:
            return None
        return Source(topic=self._topics.task_topic(result.metric), partition=partition, offset=offset)
