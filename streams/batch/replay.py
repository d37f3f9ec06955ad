"""Run one replay: read what exists, estimate, ask, judge and compare."""

from __future__ import annotations

import asyncio
import os
from collections import Counter, defaultdict
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Collection, Iterable, Sequence
from contextlib import aclosing
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

import structlog
from aiokafka.errors import MessageSizeTooLargeError, RecordTooLargeError
from pydantic import ValidationError

from judge.text.printable import printable
from schemas import RESULT, JudgeTask, Result, Scored
from streams.batch.comparison import Comparison, Seen, compare_scores
from streams.batch.engine import Batch, End, Spent, Work, open_batch
from streams.batch.plan import Estimate, Plan, settings_of
from streams.batch.selection import FileWork, PastSelection, RecordCounts, selectors
from streams.batch.sources import Line
from streams.batch.tally import Tally
from streams.errors import SettingsError
from streams.intake.reader import open_line_reader, open_reader
from streams.intake.sampling import SamplingPolicy
from streams.judging.endpoints import judge_endpoints, price_of
from streams.judging.metrics import build_metrics
from streams.kafka.output import result_forms, result_headers
from streams.kafka.reader import Ranges, TopicReader
from streams.kafka.record import Record
from streams.monitoring.two_phase import is_first
from streams.settings.tree import Settings

_log = structlog.stdlib.get_logger(__name__)

OUTAGE_SECONDS: Final = 120.0
"""A replay ends after an outage of all endpoints for this long; it can be resumed."""
FINISH_SECONDS: Final = 60.0


@dataclass
class Replay:
    """Judges past events again; `lines` reads the plan's file, `agrees` asks whether to continue.

    It has the results of earlier runs, too, and the live ones of the same events.
    """

    plan: Plan
    replay_id: str
    begun: datetime
    settings: Settings
    producer: Any
    lines: Callable[[], Iterable[Line]]
    tell: Callable[[str], None]
    agrees: Callable[[str], bool]
    counted: RecordCounts = field(default_factory=RecordCounts)
    tasks: Counter[str] = field(default_factory=Counter)
    left: int = 0
    """The tasks that had no result before."""
    live: defaultdict[str, dict[str, Seen]] = field(default_factory=lambda: defaultdict(dict))
    now: defaultdict[str, dict[str, Seen]] = field(default_factory=lambda: defaultdict(dict))
    done: set[str] = field(default_factory=set)
    tally: Tally = field(default_factory=Tally)
    spent: Spent = field(default_factory=Spent)
    end: End | None = None
    """Why it ended; None if the user declined."""
    trouble: str | None = None
    comparisons: Sequence[Comparison] = ()
    _range: Ranges = field(default_factory=dict)
    _extended: Ranges = field(default_factory=dict)
    """With the records of traces and conversations that reach beyond the time range."""

    def __post_init__(self) -> None:
        plan, settings = self.plan, settings_of(self.plan, self.settings)
        self._settings, self._topics = settings, settings.topics
        self._metrics = build_metrics(settings)
        self._endpoints = judge_endpoints(settings.judge, os.environ, settings.metrics)
        self._estimate = Estimate(self._metrics, settings.metrics, self._endpoints)
        self._topic = TopicReader(settings.kafka)
        self._reader = open_reader(self.settings, os.environ)
        self._selection = PastSelection(
            settings, self._metrics, self.replay_id, reader=self._reader, parts=plan.parts
        )
        unknown = [one.name for one in self._endpoints if price_of(one) is None]
        if plan.max_usd is not None and unknown:
            what = f"needs a price, and the price of {unknown[0]} is unknown"
            raise SettingsError([f"--max-usd: {what}; set usd_per_million_tokens of this endpoint"])

    async def run(self, stop: asyncio.Event) -> None:
        try:
            await self._read()
            await self._scan()
            self.tell(self._found())
            async with open_batch(
                self._metrics,
                self._settings.metrics,
                self._settings.judge,
                self._endpoints,
                cached=False,
                stop=stop,
                per_second=self.plan.per_second,
                max_usd=self.plan.max_usd,
                outage_seconds=OUTAGE_SECONDS,
                finish_seconds=FINISH_SECONDS,
                publish=self._publish,
                spent=self.spent,
                notice=self._notice,
            ) as batch:
                if not self.left:
                    self.end = "done"
                elif self.agrees(f"{self._effort()}; judge them?"):
                    await self._judge(batch)
        finally:
            await self._reader.close()
        self.comparisons = [compare_scores(name, self.live[name], self.now[name]) for name in self._metrics]

    async def _judge(self, batch: Batch) -> None:
        total = self.tasks.total()
        next_step = len(self.done) + max(1, self.left // 10)  # ten messages of progress
        async with (
            aclosing(self._tasks(RecordCounts(), self.done)) as tasks,
            aclosing(batch.run(tasks)) as outcomes,
        ):
            async for result in outcomes:
                if isinstance(result, Line):
                    continue
                self._add(result)
                if len(self.done) >= next_step:
                    next_step += max(1, total // 10)
                    self.tell(f"{len(self.done):,} of {total:,} results")
        self.end, self.trouble = batch.end, batch.trouble

    def _notice(self, trouble: str | None) -> None:
        if trouble is None:
            self.tell("the judge answers again")
            return
        asked = ", ".join(f"{one.name} ({one.model} at {one.base_url})" for one in self._endpoints)
        self.tell(
            f"no judge is available ({printable(trouble, 300)}); waiting up to {OUTAGE_SECONDS:g} s for "
            f"{asked}: start or correct it, or stop with Ctrl-C and continue with --resume {self.replay_id}"
        )

    async def _read(self) -> None:
        plan, topics = self.plan, self._topics
        events: set[str] = set()
        if plan.file is None:
            around = timedelta(seconds=self._selection.straddle_seconds)
            since, until = plan.since, plan.until or self.begun
            self._range = await self._topic.between(topics.events, since, until)
            first = None if since is None else since - around
            self._extended = await self._topic.between(topics.events, first, until + around)
        else:
            async with aclosing(self._tasks(RecordCounts())) as tasks:
                events = {task.event_id async for task in tasks}

        def is_live(result: Result) -> bool:
            if plan.file is not None:
                return result.event_id in events
            return result.source.topic == topics.events and self._holds(result.source)

        results = await self._topic.between(topics.scores, None if plan.file else plan.since, None)
        async with aclosing(self._topic.read(topics.scores, results)) as records:
            await self.take_results(records, is_live)

    async def take_results(self, records: AsyncIterable[Record], is_live: Callable[[Result], bool]) -> None:
        """Take records of the results topic; `is_live` tells whether a live result's event is selected."""
        async for record in records:
            try:
                result = RESULT.validate_json(record.value or b"")
            except ValidationError:
                continue  # not a result, or one of a later version
            if result.metric not in self._metrics:
                continue
            if result.replay_id == self.replay_id:
                if self._add(result):
                    self.spent.add(result)
            elif not isinstance(result, Scored) or result.replay_id is not None or is_first(result):
                continue  # a replay is by the metric's own judge, not by the cheap one of two
            elif is_live(result):
                self.live[result.metric][result.event_id] = Seen.of(result)

    def _add(self, result: Result) -> bool:
        """Add a result of this replay; return whether it is new."""
        if result.result_id in self.done:
            return False
        self.done.add(result.result_id)
        self.tally.add(result)
        if isinstance(result, Scored):
            self.now[result.metric][result.event_id] = Seen.of(result)
        return True

    async def _scan(self) -> None:
        async with aclosing(self._tasks(self.counted)) as tasks:
            async for task in tasks:
                self.tasks[task.metric] += 1
                if task.result_id not in self.done:
                    self.left += 1
                    self._estimate.add(task)

    async def _tasks(
        self, counted: RecordCounts, done: Collection[str] = ()
    ) -> AsyncGenerator[JudgeTask, None]:
        seen: set[bytes] = set()
        async with aclosing(self._work(counted)) as work:
            async for task in work:
                if isinstance(task, Line):
                    continue
                known = bytes.fromhex(task.result_id)
                if known not in seen and task.result_id not in done:  # judge a duplicate event once
                    seen.add(known)
                    yield task

    def _work(self, counted: RecordCounts) -> AsyncGenerator[Work, None]:
        if self.plan.file is None:
            records = self._topic.read(self._topics.events, self._extended)
            return self._selection.tasks(records, counted, self._holds)
        single, whole = selectors(SamplingPolicy(), self._settings, self._metrics, self.replay_id)
        reader, source = open_line_reader(self._settings), self.plan.file.name
        work = FileWork(single=single, whole=whole, reader=reader, source=source, counted=counted)
        return work.of(self.lines())

    def _holds(self, place: Any) -> bool:
        start, end = self._range.get(place.partition, (0, 0))
        return bool(start <= place.offset < end)

    async def _publish(self, result: Result) -> None:
        headers, key = result_headers(result), result.event_id.encode()
        for form in result_forms(result):
            try:
                await self.producer.send_and_wait(
                    self._topics.scores, form.model_dump_json().encode(), key=key, headers=headers
                )
            except (MessageSizeTooLargeError, RecordTooLargeError):
                continue
            return
        told = "result not published: it is too large in every form"
        _log.error(told, event_id=result.event_id, metric=result.metric)

    def as_json(self) -> dict[str, Any]:
        effort = asdict(self._estimate.total)
        del effort["cached_tokens"]
        return {
            "replay_id": self.replay_id,
            "end": self.end,
            "events": self.counted.as_json(),
            "tasks": self.tasks.total(),
            "estimate": {"results": self.left, **effort} if self.left else None,
            "results": self.tally.by_status,
            "spent": self.tally.spending.as_json(),
            "comparisons": [one.as_json() for one in self.comparisons],
        }

    def _found(self) -> str:
        passed = ", ".join(f"{count:,} {reason}" for reason, count in self.counted.passed.most_common())
        tasks = ", ".join(f"{count:,} {name}" for name, count in self.tasks.items()) or "nothing to judge"
        done = self.tasks.total() - self.left
        return (
            f"{self.replay_id}: {self.counted.records:,} records, {self.counted.sampled:,} events to judge"
            f"{f' ({passed})' if passed else ''}: {tasks}{f'; {done:,} exist already' if done else ''}"
        )

    def _effort(self) -> str:
        total = self._estimate.total
        tokens = f"about {total.input_tokens:,} input and {total.output_tokens:,} output tokens"
        return f"{self.left:,} results: {tokens}, {total.cost}"

    def told(self) -> list[str]:
        done, spent = f"{len(self.done):,} of {self.tasks.total():,} results", self.tally.spending
        lines = [f"{self.replay_id}: {done}, {spent.line()}"]
        for metric, statuses in self.tally.by_status.items():
            lines.append(f"  {metric}: " + ", ".join(f"{n} {status}" for status, n in statuses.items()))
        for one in self.comparisons:
            lines.append(f"compared with the live results, {one.text()}")
            for apart in one.disagreements:
                lines.append(f"  {printable(apart.event_id, 100)}: {apart.before:g} -> {apart.now:g}")
                lines.append(f"    before: {apart.why_before}")
                lines.append(f"    now:    {apart.why_now}")
        return lines
