"""The events of a file as work for the batch engine: a task per line and metric, then conversations."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

import orjson

from judge.endpoints.pool import EndpointPool
from judge.errors import EventError
from judge.metric import Metric
from judge.text.printable import printable
from schemas import QAEvent
from streams.batch.engine import CONFIRM_SECONDS, Checks, Work
from streams.batch.results import Texts
from streams.batch.selection import RecordCounts
from streams.batch.sources import InvalidLine, Line, misspelt, names_of
from streams.errors import DecodeError
from streams.intake.joining.intakes import joined
from streams.intake.reader import EventReader
from streams.intake.selector import Selector
from streams.judging.agent import PatientJudge
from streams.judging.endpoints import build_prices, metric_judges, open_stack
from streams.kafka.record import Record
from streams.settings import EndpointSettings, JudgeSettings, MetricSettings
from streams.store.records import TextsKept


@dataclass(frozen=True, slots=True)
class FileJudge:
    """The judges of metrics, on the endpoints of the settings."""

    judges: Mapping[str, PatientJudge]
    pool: EndpointPool
    checks: Checks


@asynccontextmanager
async def open_file_judge(
    metrics: Sequence[Metric],
    judge: JudgeSettings,
    endpoints: Sequence[EndpointSettings],
    wanted: Mapping[str, MetricSettings] | None = None,
) -> AsyncIterator[FileJudge]:
    """Open the judges of metrics, as a worker does; `judge.budget` does not apply here.

    `wanted` are the metrics' settings, with endpoints and parameters; a metric without uses all endpoints.

    Raises:
        SettingsError: A key is missing.
        JudgeConfigurationError: An endpoint, or the file of the verdict cache, cannot be used.
    """
    prices = build_prices(endpoints)
    checks = Checks(prices)
    async with open_stack(
        judge, endpoints, prices=prices, observer=checks, confirm_seconds=CONFIRM_SECONDS
    ) as stack:
        judges = metric_judges(stack, {metric.name: metric for metric in metrics}, wanted or {})
        yield FileJudge(judges, stack.pool, checks)


class FileWork:
    """The tasks of a file."""

    def __init__(
        self,
        single: Selector,
        whole: Selector,
        reader: EventReader,
        *,
        source: str,
        done: Collection[str] = (),
        texts_kept: TextsKept | None = None,
        counted: RecordCounts | None = None,
    ) -> None:
        self.counted = RecordCounts() if counted is None else counted
        """What became of the lines."""
        self.texts: dict[str, Texts] = {}
        """The texts of each answer, by result id; the caller removes those that it no longer needs.

        None are here if `texts_kept` is None.
        """
        self._single, self._whole = single, whole
        self._texts_kept = texts_kept
        self._reader = reader
        self._source = source
        self._done = done

    async def of(self, lines: Iterable[Line]) -> AsyncGenerator[Work, None]:
        """Yield the tasks of each line, or an `InvalidLine`; then those of conversations, in order."""
        conversations: dict[str, tuple[Line, list[QAEvent]]] = {}
        for line in lines:
            self.counted.records += 1
            event = read_event(line, self._reader)
            if isinstance(event, InvalidLine):
                self.counted.passed["undecodable"] += 1
                yield event
                continue
            async for item in self._tasks(line, event, self._single):
                yield item
            if self._whole.routes and event.conversation_id is not None:
                conversations.setdefault(event.conversation_id, (line, []))[1].append(event)
        for first, events in conversations.values():
            async for item in self._tasks(first, joined(events), self._whole):
                yield item

    async def _tasks(self, line: Line, event: QAEvent, selector: Selector) -> AsyncIterator[Work]:
        if not selector.routes:
            return
        place = Record(self._source, 0, line.number - 1, None, None, None)
        selection = selector.select(event, None)
        if selection.skipped is not None:
            self.counted.passed[selection.skipped] += 1
            return
        try:
            tasks = await selector.tasks(place, event, selection)
        except EventError as error:
            self.counted.passed["oversized"] += 1
            yield InvalidLine(line.number, error.detail)
            return
        self.counted.sampled += 1
        for task in tasks:
            if self._texts_kept is not None:
                self.texts[task.result_id] = Texts.of(task, self._texts_kept)
            if task.result_id not in self._done:
                yield task


def read_event(line: Line, reader: EventReader) -> QAEvent | InvalidLine:
    """Read an event from a line; a missing id becomes the line number, a numeric one text."""
    value = line.value
    if line.problem:
        return InvalidLine(line.number, line.problem)
    try:
        return reader.decode(value)
    except DecodeError as error:
        problem = error.detail
    document = orjson.loads(value) if problem.startswith("event_id: must be text (got") else None
    if isinstance(document, dict):
        given = document.get("event_id")
        own = str(given) if isinstance(given, int) else f"line-{line.number}" if given is None else given
        try:
            return reader.decode(orjson.dumps({**document, "event_id": own}))
        except DecodeError as error:
            problem = error.detail
    meant = [f"{name!r} is not a field; did you mean {known}?" for name, known in misspelt(names_of(value))]
    return InvalidLine(line.number, printable("; ".join([*problem.splitlines(), *meant]), 400))
