"""Run one replay, from its estimate to its report."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, Protocol

import structlog
from aiokafka.errors import MessageSizeTooLargeError, RecordTooLargeError

from judge.metric import Metric
from judge.text.printable import printable
from schemas import JudgeTask, Result
from streams.batch.comparison import Comparison, compare_scores
from streams.batch.engine import CONFIRM_SECONDS, Batch, Checks, End, Limits
from streams.batch.estimate import EarlierResults, Effort, Scan, estimate
from streams.batch.files import FileWork
from streams.batch.plan import Plan, rates_of, settings_of
from streams.batch.selection import PastSelection, RecordCounts, selectors
from streams.batch.sources import InvalidLine, Line
from streams.errors import SettingsError
from streams.intake.reader import open_line_reader, open_reader
from streams.intake.sampling import SamplingPolicy
from streams.judging.endpoints import (
    build_prices,
    judge_endpoints,
    metric_judges,
    open_stack,
    price_of,
    voters,
)
from streams.judging.metrics import build_metrics
from streams.kafka.output import result_forms, result_headers
from streams.kafka.reader import Ranges, TopicReader
from streams.settings import Settings

_log = structlog.stdlib.get_logger(__name__)

STEPS: Final = 10
"""Number of progress messages."""
OUTAGE_SECONDS: Final = 120.0
"""A replay ends after an outage of all endpoints for this long; it can be resumed."""
FINISH_SECONDS: Final = 60.0
"""Timeout of the calls in flight after a stop."""


class Person(Protocol):
    """The user interface: progress and prompts."""

    def tell(self, text: str) -> None:
        """Print a message."""

    def agrees(self, question: str) -> bool:
        """Ask whether to continue."""


@dataclass(frozen=True, slots=True)
class ReplayReport:
    """The outcome of a replay.

    Args:
        end: Why it ended; None if the user declined.
        estimate: Estimated effort of all tasks; None if there was nothing to judge.
    """

    replay_id: str
    end: End | None
    estimate: Effort | None
    scan: Scan
    history: EarlierResults
    comparisons: Sequence[Comparison]
    trouble: str | None = None

    def as_json(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {
            "replay_id": self.replay_id,
            "end": self.end,
            "events": self.scan.counted.as_json(),
            "tasks": self.scan.tasks.total(),
            "estimate": None if self.estimate is None else self.estimate.as_json(),
            "results": self.history.tally.by_status,
            "spent": self.history.tally.spending.as_json(),
            "comparisons": [one.as_json() for one in self.comparisons],
        }

    def lines(self) -> list[str]:
        """Return the lines of the text form."""
        done = len(self.history.done)
        told = [
            f"{self.replay_id}: {done:,} of {self.scan.tasks.total():,} results, "
            + self.history.tally.spending.line()
        ]
        for metric, statuses in self.history.tally.by_status.items():
            told.append(f"  {metric}: " + ", ".join(f"{n} {status}" for status, n in statuses.items()))
        for one in self.comparisons:
            told.append(f"compared with the live results, {one.text()}")
            for apart in one.disagreements:
                told.append(f"  {printable(apart.event_id, 100)}: {apart.before:g} -> {apart.now:g}")
                told.append(f"    before: {apart.why_before}")
                told.append(f"    now:    {apart.why_now}")
        return told


class Replay:
    """Judges past events again.

    Args:
        producer: A started producer; the caller must stop it.

    Raises:
        SettingsError: A metric or endpoint cannot be used, or a cost limit lacks a price.
    """

    def __init__(
        self,
        plan: Plan,
        replay_id: str,
        begun: datetime,
        settings: Settings,
        *,
        producer: Any,
        lines: Callable[[], Iterable[Line]],
        env: Mapping[str, str],
    ) -> None:
        self._plan = plan
        self._replay_id = replay_id
        self._begun = begun
        self._topics = settings.topics
        self._settings = settings_of(plan, settings)
        self._metrics: dict[str, Metric] = build_metrics(self._settings)
        self._endpoints = judge_endpoints(self._settings.judge, env, self._settings.metrics)
        self._producer = producer
        self._lines = lines
        self._reader = TopicReader(settings.kafka, env)
        self._stretch: Ranges = {}
        self._extended: Ranges = {}
        self._reads = open_reader(settings, env)
        self._selection = PastSelection(
            self._settings,
            self._metrics,
            replay_id,
            reader=self._reads,
            parts=plan.parts,
        )
        unknown = [one.name for one in self._endpoints if price_of(one) is None]
        if plan.max_usd is not None and unknown:
            what = f"needs a price, and the price of {unknown[0]} is unknown"
            raise SettingsError([f"--max-usd: {what}; set usd_per_million_tokens of this endpoint"])

    async def run(self, person: Person, stop: asyncio.Event) -> ReplayReport:
        """Effort, ask for consent, judge and compare.

        Raises:
            JudgeConfigurationError: No event can be judged with this configuration.
            KafkaError: The broker rejects a read or a result.
            StreamsError: The broker sends no records.
        """
        try:
            return await self._run(person, stop)
        finally:
            await self._reads.close()

    async def _run(self, person: Person, stop: asyncio.Event) -> ReplayReport:
        history = await self._history()
        scan = await self._scan(history)
        person.tell(scan.text(self._replay_id, len(history.done)))
        prices = build_prices(self._endpoints)
        judge = self._settings.judge
        async with open_stack(
            judge,
            self._endpoints,
            prices=prices,
            observer=Checks(prices),
            cached=False,
            confirm_seconds=CONFIRM_SECONDS,
        ) as stack:
            batch = Batch(
                metric_judges(stack, self._metrics, self._settings.metrics),
                stack.pool,
                Limits(
                    at_once=judge.max_in_flight,
                    per_second=self._plan.per_second,
                    max_usd=self._plan.max_usd,
                    outage_seconds=OUTAGE_SECONDS,
                    finish_seconds=FINISH_SECONDS,
                ),
                stop=stop,
                publish=self._publish,
                spent=history.spent,
                notice=lambda trouble: person.tell(self._notice(trouble)),
            )
            found, end = await self._judge(batch, scan, history, person)
        return ReplayReport(
            self._replay_id, end, found, scan, history, self._compared(history), batch.trouble
        )

    async def _judge(
        self, batch: Batch, scan: Scan, history: EarlierResults, person: Person
    ) -> tuple[Effort | None, End | None]:
        if not scan.left:
            return None, "done"
        found = self._estimate(scan, history)
        if not person.agrees(f"{found.text()}; judge them?"):
            return found, None
        progress = _Progress(scan.tasks.total(), len(history.done), person)
        async with (
            aclosing(self._tasks(RecordCounts(), history.done)) as tasks,
            aclosing(batch.run(tasks)) as outcomes,
        ):
            async for result in outcomes:
                if not isinstance(result, InvalidLine):
                    history.add(result)
                    progress.step()
        return found, batch.end

    def _notice(self, trouble: str | None) -> str:
        if trouble is None:
            return "the judge answers again"
        asked = ", ".join(f"{one.name} ({one.model} at {one.base_url})" for one in self._endpoints)
        return (
            f"no judge is available ({printable(trouble, 300)}); waiting up to {OUTAGE_SECONDS:g} s for "
            f"{asked}: start or correct it, or stop with Ctrl-C and continue with --resume {self._replay_id}"
        )

    # Records and tasks

    async def _history(self) -> EarlierResults:
        plan = self._plan
        history = EarlierResults(self._metrics)
        events: set[str] = set()
        if plan.file is None:
            around = timedelta(seconds=self._selection.straddle_seconds)
            since, until = plan.since, plan.until or self._begun
            self._stretch = await self._reader.between(self._topics.events, since, until)
            self._extended = await self._reader.between(
                self._topics.events, None if since is None else since - around, until + around
            )
        else:
            async with aclosing(self._tasks(RecordCounts())) as tasks:
                events = {task.event_id async for task in tasks}
        since = plan.since if plan.file is None else None
        results = await self._reader.between(self._topics.scores, since, None)
        async with aclosing(self._reader.read(self._topics.scores, results)) as records:
            await history.read(
                records,
                self._replay_id,
                (lambda event_id, _: event_id in events)
                if plan.file is not None
                else (lambda _, place: place.topic == self._topics.events and self._holds(place)),
            )
        return history

    async def _scan(self, history: EarlierResults) -> Scan:
        scan = Scan()
        async with aclosing(self._tasks(scan.counted)) as tasks:
            async for task in tasks:
                scan.add(task, self._metrics[task.metric], done=task.result_id in history.done)
        return scan

    async def _tasks(
        self, counted: RecordCounts, done: Collection[str] = ()
    ) -> AsyncGenerator[JudgeTask, None]:
        seen: set[bytes] = set()
        async with aclosing(self._all_tasks(counted)) as tasks:
            async for task in tasks:
                known = bytes.fromhex(task.result_id)
                if known not in seen and task.result_id not in done:  # judge a duplicate event once
                    seen.add(known)
                    yield task

    async def _all_tasks(self, counted: RecordCounts) -> AsyncGenerator[JudgeTask, None]:
        if self._plan.file is None:
            async with (
                aclosing(self._reader.read(self._topics.events, self._extended)) as records,
                aclosing(self._selection.tasks(records, counted, self._holds)) as tasks,
            ):
                async for task in tasks:
                    yield task
            return
        settings = self._settings
        single, whole = selectors(SamplingPolicy(), settings, self._metrics, self._replay_id)
        work = FileWork(
            single,
            whole,
            open_line_reader(settings),
            source=self._plan.file.name,
            counted=counted,
        )
        async for item in work.of(self._lines()):
            if not isinstance(item, InvalidLine):
                yield item

    def _holds(self, place: Any) -> bool:
        """Return whether a record, or its place, is in the time range."""
        if self._plan.file is not None:
            return True
        start, end = self._stretch.get(place.partition, (0, 0))
        return bool(start <= place.offset < end)

    def _estimate(self, scan: Scan, history: EarlierResults) -> Effort:
        metrics = self._settings.metrics
        return estimate(
            scan,
            history.effort,
            {name: voters(metrics[name], self._endpoints) for name in scan.left},
            per_second=self._plan.per_second,
            **rates_of(self._settings.judge, self._endpoints),
        )

    # Results

    async def _publish(self, result: Result) -> None:
        headers, key = result_headers(result), result.event_id.encode()
        for form in result_forms(result):
            try:
                await self._producer.send_and_wait(
                    self._topics.scores, form.model_dump_json().encode(), key=key, headers=headers
                )
            except (MessageSizeTooLargeError, RecordTooLargeError):
                continue
            return
        _log.error(
            "result not published: it is too large in every form",
            event_id=result.event_id,
            metric=result.metric,
        )

    def _compared(self, history: EarlierResults) -> list[Comparison]:
        return [
            compare_scores(name, history.live.get(name, {}), history.now.get(name, {}))
            for name in self._metrics
        ]


class _Progress:
    """Prints the progress at intervals."""

    def __init__(self, total: int, done: int, person: Person) -> None:
        self._total = total
        self._done = done
        self._person = person
        self._next = self._done + max(1, (total - done) // STEPS)

    def step(self) -> None:
        """Count a result."""
        self._done += 1
        if self._done >= self._next:
            self._next += max(1, self._total // STEPS)
            self._person.tell(f"{self._done:,} of {self._total:,} results")
