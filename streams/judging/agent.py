"""The judge agent: tasks in, results out; and what it tells of endpoints and citations."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

import structlog
from pydantic import ValidationError

from judge.endpoints.options import EndpointObserver
from judge.endpoints.retrying import is_endpoint_s
from judge.evaluate.prices import PriceTable
from judge.text.printable import problems_of
from schemas import Failed, JudgeTask, Result, Source, Usage, is_rejudged
from streams.errors import TooLargeError
from streams.judging.budget import Spending
from streams.judging.lanes import BatchTasks
from streams.kafka.output import Output
from streams.kafka.record import Record
from streams.telemetry.instruments import Metrics
from streams.telemetry.logs import surprise

_log = structlog.stdlib.get_logger(__name__)

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
    """Judges tasks within the budget. The judges decide concurrency and retries."""

    judges: Mapping[str, PatientJudge]
    output: Output
    spending: Spending
    citations: CitationWatch
    free: Collection[str] = ()
    batches: BatchTasks | None = None
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
        batches = self.batches
        if batches is not None and batches.takes(task, record) and await batches.put(task, record):
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
        task, batches = await self._task(record), self.batches
        if task is None or batches is None:
            return
        judge = batches.judges.get(task.metric)
        if judge is None or batches.is_late(task, record):
            await batches.put_back(task, record)
            return
        async with self.spending.admitted(task.metric, task.labels, waits=True) as settle:
            result = await judge.judge_in_batch(task)
            if result is not None:
                settle(result)
        if result is None or is_endpoint_s(result):
            await batches.put_back(task, record)
        else:
            await self._publish(record, result)

    async def _task(self, record: Record) -> JudgeTask | None:
        try:
            return JudgeTask.model_validate_json(record.value or b"")
        except ValidationError as error:
            detail = "not a task: " + "; ".join(problems_of(error, "task", most=3))
            await self.output.dead_letter(record, "invalid_task", detail)
            return None

    async def _publish(self, record: Record, result: Result, *, is_live: bool = True) -> None:
        source = Source(topic=record.topic, partition=record.partition, offset=record.offset)
        if self.batches is not None:
            source = self.batches.source(result, record) or source
        result = result.model_copy(update={"task": source})
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
    """Records calls and outages of a worker's endpoints, as metrics, log lines and spending."""

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

    def cache_failed(self) -> None:
        self.counts.count("judgestream_verdict_cache_failures_total")

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
