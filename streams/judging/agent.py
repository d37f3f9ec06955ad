"""The judge agent: tasks in, results out; and what it tells of endpoints and citations.

**Batches.** A task that may wait is written to a topic for such tasks, so that waiting holds no place and no
offset of others. Its offset there is committed with its result: after a crash it is read again, and the log
says which batch has its reply. What no batch judges is written back to its metric's topic, marked, and judged
at once.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

import structlog
from pydantic import TypeAdapter, ValidationError

from judge.endpoints.lane import BatchLane, BatchOptions, BatchRecord
from judge.endpoints.options import EndpointObserver
from judge.endpoints.retrying import RetryingJudge, is_endpoint_s
from judge.evaluate.prices import PriceTable
from judge.text.printable import problems_of
from schemas import Failed, JudgeTask, Result, Source, Usage, is_rejudged
from streams.errors import TooLargeError
from streams.judging.budget import Spending
from streams.kafka.delivery import BufferLimit
from streams.kafka.output import Output
from streams.kafka.reader import TopicBatch, TopicReader
from streams.kafka.record import Record
from streams.settings.broker import TopicSettings
from streams.settings.judge import EndpointSettings, JudgeSettings
from streams.telemetry.instruments import Metrics
from streams.telemetry.logs import surprise

_log = structlog.stdlib.get_logger(__name__)

# Tasks that wait for a batch

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


# The agent

MIN_RESULTS: Final = 20
REMEDY: Final = (
    "set metrics.relevance.citation_pattern, or metrics.relevance.without_citations: unscored, or use a "
    "metric without citations"
)


class CitationWatch:
    """Counts results without a recognised citation, and warns once if they are the majority."""

    def __init__(self, metrics: Collection[str]) -> None:
        self._metrics = metrics
        self._results = self._uncited = 0
        self._example = ""
        self._is_logged = False

    def add(self, result: Result) -> None:
        if isinstance(result, Failed) or result.metric not in self._metrics:
            return
        self._results += 1
        if any(suspicion.kind == "no_citation" for suspicion in result.suspicions):
            self._uncited += 1
            self._example = self._example or result.event_id
        if not self._is_logged and self.note is not None:
            self._is_logged = True
            _log.warning("answers without citations", detail=self.note)

    @property
    def note(self) -> str | None:
        """The note; None while most answers have citations or few are judged. Quotes no answer text."""
        if self._results < MIN_RESULTS or 2 * self._uncited <= self._results:
            return None
        return (
            f"{self._uncited} of {self._results} answers have no recognised citation, so relevance is 1 "
            f"(for example event {self._example[:80]!r}); {REMEDY}"
        )


class PatientJudge(Protocol):
    """Judges a task, waiting for the judge as long as needed."""

    async def judge(self, task: JudgeTask) -> Result: ...


@dataclass(slots=True, kw_only=True)
class JudgeAgent:
    """Judges tasks within the budget. The judges decide concurrency and retries.

    Tasks of metrics whose first endpoint has batches may wait for one.
    """

    judges: Mapping[str, PatientJudge]
    output: Output
    topics: TopicSettings
    spending: Spending
    citations: CitationWatch
    free: Collection[str] = ()
    """Metrics that need no budget, because they ask no endpoint."""
    suspicious: Callable[[JudgeTask], bool] = lambda _: False
    """Whether a task must not wait for a batch, as the scores of its stratum may have fallen."""
    on_verdict: Callable[[Result], None] | None = None
    """Gets each live verdict of a judge that is not from the cache."""

    async def handle(self, record: Record, metric: str) -> None:
        task = await self._task(record)
        if task is None:
            return
        if task.metric != metric:
            detail = f"metric must be {metric} on this topic, got {task.metric}; send it to its own topic"
            await self.output.dead_letter(record, "invalid_task", detail, event_id=task.event_id)
            return
        if self.may_wait(task, record) and await self.put(task, record):
            return
        is_live = not is_rejudged(task.replay_id)
        if metric in self.free or not is_live:  # what the monitor has judged again has a budget of its own
            result = await self.judges[metric].judge(task)
        else:
            async with self.spending.admitted(metric, task.labels) as settle:
                result = await self.judges[metric].judge(task)
                settle(result)
        await self._publish(record, result, is_live=is_live)

    async def handle_in_batch(self, record: Record) -> None:
        """Judge a task that waits for a batch; it goes back to its topic if no batch judges it."""
        task = await self._task(record)
        if task is None:
            return
        judge, lane, at = self.judges.get(task.metric), self._lane(task), record.timestamp
        is_late = lane is not None and at is not None and time.time() - at > lane.options.longest_seconds
        result = None
        if isinstance(judge, RetryingJudge) and lane is not None and not is_late:
            async with self.spending.admitted(task.metric, task.labels, waits=True) as settle:
                result = await judge.judge_in_batch(task)
                if result is not None:
                    settle(result)
        if result is None or is_endpoint_s(result):
            await self._move(self.topics.task_topic(task.metric), task, record, (AT_ONCE, b"1"))
        else:
            await self._publish(record, result)

    def _lane(self, task: JudgeTask) -> BatchLane | None:
        judge = self.judges.get(task.metric)
        return judge.lane if isinstance(judge, RetryingJudge) else None

    def may_wait(self, task: JudgeTask, record: Record) -> bool:
        """Return whether a task on its metric's topic may wait: no replay, and not in the fast share."""
        lane = self._lane(task)
        if lane is None or task.replay_id is not None or AT_ONCE in dict(record.headers):
            return False
        return not (is_fast(task, lane.options.fast_share) or self.suspicious(task))

    async def put(self, task: JudgeTask, record: Record) -> bool:
        """Write a task to the topic of those that wait; return False if it is too large."""
        place = f"{record.partition}/{record.offset}".encode()
        try:
            await self._move(self.topics.batch_tasks, task, record, (PLACE, place))
        except TooLargeError:
            return False
        return True

    async def _move(self, topic: str, task: JudgeTask, record: Record, header: tuple[str, bytes]) -> None:
        headers = [("result_id", task.result_id.encode()), header]
        await self.output.write(topic, key=record.key, value=record.value, headers=headers)
        self.output.passed(record.topic)

    def source(self, result: Result, record: Record) -> Source:
        """Return the place of a task on its metric's topic, also of one that waited on another."""
        place = dict(record.headers).get(PLACE) if record.topic == self.topics.batch_tasks else None
        partition, _, offset = (place or b"").partition(b"/")
        if not (partition.isdigit() and offset.isdigit()):  # damaged: the verdict is paid for
            return Source(topic=record.topic, partition=record.partition, offset=record.offset)
        topic = self.topics.task_topic(result.metric)
        return Source(topic=topic, partition=int(partition), offset=int(offset))

    async def _task(self, record: Record) -> JudgeTask | None:
        try:
            return JudgeTask.model_validate_json(record.value or b"")
        except ValidationError as error:
            detail = "not a task: " + "; ".join(problems_of(error, "task", most=3))
            await self.output.dead_letter(record, "invalid_task", detail)
            return None

    async def _publish(self, record: Record, result: Result, *, is_live: bool = True) -> None:
        result = result.model_copy(update={"task": self.source(result, record)})
        if is_live:
            self.citations.add(result)
            if self.on_verdict is not None and result.judge is not None and not result.judge.cached:
                self.on_verdict(result)
        try:
            await self.output.result(result)
        except TooLargeError as error:
            await self.output.dead_letter(record, "oversized", str(error), event_id=result.event_id)

    async def on_surprise(self, record: Record, error: Exception) -> None:
        await self.output.dead_letter(record, "invalid_task", surprise(error))


@dataclass(slots=True)
class JudgeWatch(EndpointObserver):
    counts: Metrics
    prices: PriceTable
    book: Callable[[float | None], None]
    """Records the cost (None if unknown) of calls that belong to no verdict."""
    now: Callable[[], float] = time.monotonic
    _down_since: dict[str, float] = field(default_factory=dict)

    def in_flight(self, endpoint: str, calls: int) -> None:
        self.counts.set("judgestream_judge_in_flight", endpoint, to=calls)

    def asked(self, endpoint: str, model: str, outcome: str, seconds: float) -> None:
        self.counts.observe_call(endpoint, model, outcome, seconds)

    def used(
        self, endpoint: str, model: str, usage: Usage, *, for_verdict: bool, price_factor: float = 1.0
    ) -> None:
        cost_usd = self.prices.cost_usd(model, usage, endpoint=endpoint, factor=price_factor)
        self.counts.observe_usage(endpoint, model, usage, cost_usd)
        if not for_verdict:
            self.book(cost_usd)

    def failed_event(self, endpoint: str, tries: int) -> None:
        self.counts.count("judgestream_judge_endpoint_failures_total", endpoint, by=tries)

    def model_changed(self, endpoint: str, before: str, after: str) -> None:
        self.counts.count("judgestream_judge_model_changes_total", endpoint)
        told = "another model answers; scores before and after are not comparable"
        _log.warning(told, endpoint=endpoint, before=before, after=after)

    def down(self, endpoint: str, reason: str | None) -> None:
        self.counts.set("judgestream_judge_breaker_open", endpoint, to=float(reason is not None))
        # A counter that begins at 0 shows its first increase.
        self.counts.count("judgestream_judge_endpoint_failures_total", endpoint, by=0)
        self.counts.count("judgestream_judge_model_changes_total", endpoint, by=0)
        if reason is not None:
            self._down_since.setdefault(endpoint, self.now())
            _log.error("judge endpoint down", endpoint=endpoint, error=reason)
        elif endpoint in self._down_since:
            seconds = round(self.now() - self._down_since.pop(endpoint), 3)
            _log.info("judge endpoint available again", endpoint=endpoint, down_seconds=seconds)
