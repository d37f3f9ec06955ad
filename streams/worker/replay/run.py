"""Run one replay, from its estimate to its report."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping
from contextlib import aclosing
from datetime import datetime, timedelta
from typing import Any, Final, Protocol

import structlog
from aiokafka.errors import MessageSizeTooLargeError, RecordTooLargeError

from judge.metric import Metric
from judge.verdict.evaluator import evaluator_of
from schemas import Failed, JudgeTask, Scored, Unscored
from streams.errors import SettingsError
from streams.intake.from_settings import open_registry
from streams.judging.asked import asked_by
from streams.judging.files.comparison import Comparison, compare_scores
from streams.judging.files.judging import Checks
from streams.judging.files.reading import Line
from streams.judging.metrics import build_metrics
from streams.judging.prices import build_prices, price_of
from streams.judging.stack import judge_endpoints, metric_judges, open_stack
from streams.kafka.output import result_forms, result_headers
from streams.kafka.stretch import PastRecord, Stretch, StretchReader
from streams.settings import Settings
from streams.worker.replay.estimate import Estimate, Lengths, estimate
from streams.worker.replay.history import History
from streams.worker.replay.judging import End, ReplayJudging
from streams.worker.replay.plan import Plan, limits_of, settings_of
from streams.worker.replay.report import Report
from streams.worker.replay.scan import Scan
from streams.worker.replay.selection import Selection, Tally

_log = structlog.stdlib.get_logger(__name__)

STEPS: Final = 10
"""Number of progress messages."""


class Person(Protocol):
    """The user interface: progress and prompts."""

    def tell(self, text: str) -> None:
        """Print a message."""

    def agrees(self, question: str) -> bool:
        """Ask whether to continue."""


class Replay:
    """Judges past events again.

    Args:
        plan: The plan.
        replay_id: The id of all its results.
        begun: Time of its first start.
        settings: The worker's settings.
        producer: A started producer; the caller must stop it.
        lines: Returns the events of `plan.file`; called once per pass.
        env: Environment variables.

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
        self._reader = StretchReader(settings.kafka, env)
        self._stretch: Stretch = {}
        self._extended: Stretch = {}
        self._unpacking = open_registry(settings.ingest.registry, env)
        self._selection = Selection(
            self._settings,
            self._metrics,
            replay_id,
            parts=plan.parts,
            whole=plan.file is not None,
            unpacking=self._unpacking,
        )
        unknown = [one.name for one in self._endpoints if price_of(one) is None]
        if plan.max_usd is not None and unknown:
            what = f"needs a price, and the price of {unknown[0]} is unknown"
            raise SettingsError([f"--max-usd: {what}; set usd_per_million_tokens of this endpoint"])

    async def run(self, person: Person, stop: asyncio.Event) -> Report:
        """Estimate, ask for consent, judge and compare.

        Raises:
            JudgeConfigurationError: No event can be judged with this configuration.
            KafkaError: The broker rejects a read or a result.
            StreamsError: The broker sends no records.
        """
        try:
            return await self._run(person, stop)
        finally:
            if self._unpacking is not None:
                await self._unpacking.close()

    async def _run(self, person: Person, stop: asyncio.Event) -> Report:
        history = await self._history()
        scan = await self._scan(history)
        person.tell(scan.text(self._replay_id, len(history.done)))
        prices = build_prices(self._endpoints)
        judge = self._settings.judge
        async with open_stack(
            judge, self._endpoints, prices=prices, observer=Checks(prices), cached=False
        ) as stack:
            judging = ReplayJudging(
                judges=metric_judges(stack, self._metrics, self._settings.metrics),
                pool=stack.pool,
                publish=self._publish,
                history=history,
                at_once=judge.max_in_flight,
                per_second=self._plan.per_second,
                max_usd=self._plan.max_usd,
                stop=stop,
            )
            found, end = await self._judge(judging, scan, history, person)
        return Report(self._replay_id, end, found, scan, history, self._compared(history), judging.trouble)

    async def _judge(
        self, judging: ReplayJudging, scan: Scan, history: History, person: Person
    ) -> tuple[Estimate | None, End | None]:
        if not any(one.count for one in scan.left.values()):
            return None, "done"
        if wanted := scan.wanted():
            what = f"judge {len(wanted)} answers first, to estimate the rest?"
            if not person.agrees(what):
                return None, None
            end = await judging.run(_given(wanted), lambda: None)
            if end != "done":
                return None, end
            for task in wanted:
                scan.add_sample(task, history.took.get(task.metric, {}).get(task.event_id))
        all_ = self._estimate(scan, scan.tasks)
        left = self._estimate(scan, scan.left_without(wanted))
        person.tell(f"total: {all_.text()}")
        if not left.results:
            return all_, "done"
        if not person.agrees(f"{left.text()}; judge them?"):
            return all_, None
        total = sum(one.count for one in scan.tasks.values())
        progress = _Progress(total, len(history.done), person)
        async with aclosing(self._tasks(Tally())) as tasks:
            return all_, await judging.run(tasks, progress.step)

    # Records and tasks

    async def _history(self) -> History:
        plan = self._plan
        fingerprints = {name: self._fingerprint(name, metric) for name, metric in self._metrics.items()}
        history = History(fingerprints)
        events: set[str] = set()
        if plan.file is None:
            around = timedelta(seconds=self._selection.straddle_seconds)
            since, until = plan.since, plan.until or self._begun
            self._stretch = await self._reader.between(self._topics.events, since, until)
            self._extended = await self._reader.between(
                self._topics.events, None if since is None else since - around, until + around
            )
        else:
            async with aclosing(self._tasks(Tally())) as tasks:
                events = {task.event_id async for task in tasks}
        since = plan.since if plan.file is None else None
        results = await self._reader.between(self._topics.scores, since, None)
        async with aclosing(self._reader.read_stretch(self._topics.scores, results)) as records:
            await history.read(
                records,
                self._replay_id,
                (lambda event_id, _: event_id in events)
                if plan.file is not None
                else (lambda _, place: place.topic == self._topics.events and self._holds(place)),
            )
        return history

    def _fingerprint(self, name: str, metric: Metric) -> str:
        """Return the fingerprint of the preferred evaluator; empty for code or a panel."""
        wanted = self._settings.metrics[name]
        asked = asked_by(wanted, [(one.name, one.model) for one in self._endpoints])
        if wanted.is_code or wanted.panel is not None or not asked:
            return ""
        first = next(one for one in self._endpoints if one.name == asked[0])
        parameters = {**first.parameters, **wanted.parameters}
        return evaluator_of(metric, model=first.model, parameters=parameters).fingerprint

    async def _scan(self, history: History) -> Scan:
        scan = Scan()
        async with aclosing(self._tasks(scan.tally)) as tasks:
            async for task in tasks:
                took = history.took.get(task.metric, {}).get(task.event_id)
                scan.add(task, took, done=task.result_id in history.done)
        history.took.clear()
        return scan

    async def _tasks(self, tally: Tally) -> AsyncGenerator[JudgeTask, None]:
        seen: set[bytes] = set()
        async with (
            aclosing(self._records()) as records,
            aclosing(self._selection.tasks(records, tally, self._holds)) as tasks,
        ):
            async for task in tasks:
                known = bytes.fromhex(task.result_id)
                if known not in seen:  # judge a duplicate event once
                    seen.add(known)
                    yield task

    async def _records(self) -> AsyncGenerator[PastRecord, None]:
        if self._plan.file is None:
            async with aclosing(self._reader.read_stretch(self._topics.events, self._extended)) as records:
                async for record in records:
                    yield record
            return
        for line in self._lines():
            yield PastRecord(self._plan.file.name, 0, line.number - 1, None, None, line.value)

    def _holds(self, place: Any) -> bool:
        """Return whether a record, or its place, is in the time range."""
        if self._plan.file is not None:
            return True
        start, end = self._stretch.get(place.partition, (0, 0))
        return bool(start <= place.offset < end)

    # Estimate

    def _estimate(self, scan: Scan, tasks: Mapping[str, Lengths]) -> Estimate:
        limits = limits_of(self._plan, self._settings.judge, self._endpoints)
        return estimate([(all_, scan.samples[name]) for name, all_ in tasks.items() if all_.count], limits)

    # Results

    async def _publish(self, result: Scored | Unscored | Failed) -> None:
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

    def _compared(self, history: History) -> list[Comparison]:
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


async def _given(tasks: Iterable[JudgeTask]) -> AsyncIterator[JudgeTask]:
    for task in tasks:
        yield task
