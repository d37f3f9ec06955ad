"""Work for the batch engine: all lines of a file, and past records as the live intake takes them."""

from __future__ import annotations

from collections import Counter
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from typing import Any, Generic, TypeAlias, TypeVar

import orjson

from judge.errors import EventError
from judge.metric import Metric
from judge.text.printable import printable
from schemas import JudgeTask, QAEvent
from streams.batch.results import Texts
from streams.batch.sources import Line, misspelt, names_of
from streams.errors import DecodeError
from streams.intake.joining.join import Join, JoinBounds, OpenGroup, joined
from streams.intake.reader import EventReader, GroupReader, GroupSampler, RecordReader
from streams.intake.sampling import SamplingPolicy
from streams.intake.selector import Selector, metric_routes, reading_policy, sampling_policy
from streams.kafka.record import Record
from streams.settings.tree import Settings
from streams.store.records import TextsKept

T = TypeVar("T")
Found: TypeAlias = tuple[Record, QAEvent, Selector]
"""The first record of an event, the event, and what selects its tasks."""
Inside: TypeAlias = Callable[[Record], bool]


@dataclass(slots=True)
class RecordCounts:
    records: int = 0
    sampled: int = 0
    """Events that become tasks."""
    passed: Counter[str] = field(default_factory=Counter)
    """Other events and records, by reason."""

    def as_json(self) -> dict[str, Any]:
        return {"records": self.records, "sampled": self.sampled, "passed": dict(self.passed.most_common())}

    async def tasks_of(self, record: Record, event: QAEvent, selector: Selector) -> Sequence[JudgeTask]:
        selection = selector.select(event, record.key)
        if selection.skipped is not None:
            self.passed[selection.skipped] += 1
            return ()
        try:
            tasks = await selector.tasks(record, event, selection)
        except EventError:
            self.passed["oversized"] += 1
            raise
        self.sampled += 1
        return tasks


def selectors(
    policy: SamplingPolicy, settings: Settings, metrics: Mapping[str, Metric], replay_id: str
) -> tuple[Selector, ...]:
    routes = (metric_routes(settings, unit) for unit in ("event", "conversation"))
    return tuple(Selector(policy, one, metrics, replay_id=replay_id) for one in routes)


@dataclass(slots=True, kw_only=True)
class FileWork:
    """The tasks of a file: one per line and metric, then those of conversations."""

    single: Selector
    whole: Selector
    reader: EventReader
    source: str
    done: Collection[str] = ()
    texts_kept: TextsKept | None = None
    counted: RecordCounts = field(default_factory=RecordCounts)
    texts: dict[str, Texts] = field(default_factory=dict)
    """Of each answer, by result id, unless `texts_kept` is None; the caller removes what it does not need."""

    async def of(self, lines: Iterable[Line]) -> AsyncGenerator[JudgeTask | Line, None]:
        """Yield the tasks of each line, or the line if it is no event; then conversations', in order."""
        conversations: dict[str, tuple[Line, list[QAEvent]]] = {}
        for line in lines:
            self.counted.records += 1
            event = read_event(line, self.reader)
            if isinstance(event, Line):
                self.counted.passed["undecodable"] += 1
                yield event
                continue
            if self.single.routes:
                for item in await self._tasks(line, event, self.single):
                    yield item
            if self.whole.routes and event.conversation_id is not None:
                conversations.setdefault(event.conversation_id, (line, []))[1].append(event)
        for first, events in conversations.values():
            for item in await self._tasks(first, joined(events), self.whole):
                yield item

    async def _tasks(self, line: Line, event: QAEvent, selector: Selector) -> list[JudgeTask | Line]:
        place = Record(self.source, offset=line.number - 1)
        try:
            tasks = await self.counted.tasks_of(place, event, selector)
        except EventError as error:
            return [Line(line.number, problem=error.detail)]
        if self.texts_kept is not None:
            self.texts |= {task.result_id: Texts.of(task, self.texts_kept) for task in tasks}
        return [task for task in tasks if task.result_id not in self.done]


def read_event(line: Line, reader: EventReader) -> QAEvent | Line:
    """Read an event from a line; a missing id becomes the line number, a numeric one text."""
    value = line.value
    if line.problem:
        return line
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
    return Line(line.number, problem=printable("; ".join([*problem.splitlines(), *meant]), 400))


class PastSelection:
    """Turns past records into tasks; the caller must close the reader. `parts` are labels, none means all."""

    def __init__(
        self,
        settings: Settings,
        metrics: Mapping[str, Metric],
        replay_id: str,
        *,
        reader: RecordReader,
        parts: Iterable[Mapping[str, str]] = (),
    ) -> None:
        self._parts = tuple(parts)
        self._policy = sampling_policy(settings.sampling)
        self._single, self._whole = selectors(self._policy, settings, metrics, replay_id)
        self._reader = reader
        self._read = reading_policy(settings)
        self._predicate = reader.push_down(self._read)
        self._bounds = JoinBounds.of(settings.ingest) if self._whole.routes else None
        if isinstance(reader, GroupReader):
            self._bounds = reader.bounds
        self.straddle_seconds = 0 if self._bounds is None else self._bounds.longest
        """Seconds before and after the time range in which its traces or conversations may have records."""

    async def tasks(
        self, records: AsyncGenerator[Record, None], counted: RecordCounts, inside: Inside
    ) -> AsyncGenerator[JudgeTask, None]:
        """Yield the tasks of records, in order per partition; a trace is inside if its first one is."""
        if isinstance(self._reader, GroupReader):
            events = self._groups(self._reader, records, counted, inside)
        else:
            events = self._events(self._reader, records, counted, inside)
        async with aclosing(records):
            async for record, event, selector in events:
                if self._parts and not any(part.items() <= event.labels.items() for part in self._parts):
                    counted.passed["other_part"] += 1
                    continue
                with suppress(EventError):
                    for task in await counted.tasks_of(record, event, selector):
                        yield task

    async def _events(
        self, reader: RecordReader, records: AsyncIterator[Record], counted: RecordCounts, inside: Inside
    ) -> AsyncIterator[Found]:
        assert isinstance(reader, EventReader)  # noqa: S101 - the other kind has groups
        joins = None if self._bounds is None else _Joins[QAEvent](self._bounds, inside)
        async for record in records:
            counts = inside(record)
            if not counts and joins is None:
                continue
            counted.records += counts
            if self._predicate is not None and not self._predicate(record):
                counted.passed["not_sampled"] += counts
                continue
            try:
                event = await reader.read(record)
            except DecodeError as error:
                counted.passed[error.reason] += counts
                continue
            if counts and self._single.routes:
                yield record, event, self._single
            if joins is None or event.conversation_id is None:
                continue
            if self._policy.decide_event(event, record.key).keep:
                for first, events in joins.add(record, {event.conversation_id: [event]}):
                    yield first, joined(events), self._whole
        for first, events in () if joins is None else joins.rest():
            yield first, joined(events), self._whole

    async def _groups(
        self, reader: GroupReader[Any], records: AsyncIterator[Record], counted: RecordCounts, inside: Inside
    ) -> AsyncIterator[Found]:
        bounds = reader.bounds
        joins = None if bounds is None else _Joins[Any](bounds, inside, reader.is_complete)
        sampler = GroupSampler(self._read, reader)
        async for record in records:
            counts = inside(record)
            counted.records += counts
            try:
                groups, skipped = sampler.read(record)
            except DecodeError:
                counted.passed["undecodable"] += counts
                continue
            counted.passed[sampler.skip_reason] += skipped if counts else 0
            if joins is not None:
                closed = joins.add(record, groups)
            else:
                closed = ((record, parts) for parts in groups.values() if counts)
            for found in self._become(reader, closed, counted):
                yield found
        for found in self._become(reader, () if joins is None else joins.rest(), counted):
            yield found

    def _become(
        self, reader: GroupReader[Any], closed: Iterable[tuple[Record, list[Any]]], counted: RecordCounts
    ) -> Iterator[Found]:
        for first, parts in closed:
            try:
                reading = reader.read(parts)
            except DecodeError as error:
                counted.passed[error.reason] += 1
                continue
            if reading.why_none is not None:
                counted.passed[reading.why_none] += 1
            for event in reading.events:
                yield first, event, self._single


class _Joins(Generic[T]):
    """Joins traces or conversations by the time of the records; yields those whose first record is inside."""

    def __init__(
        self, bounds: JoinBounds, inside: Inside, is_complete: Callable[[Sequence[T]], bool] | None = None
    ) -> None:
        self._inside = inside
        self._join = Join[T](bounds, is_complete=is_complete)
        self._first: dict[OpenGroup[T], Record] = {}

    def add(self, record: Record, parts: Mapping[str, list[T]]) -> Iterator[tuple[Record, list[T]]]:
        clock = self._join.clock((record.topic, record.partition))
        clock.read(record.timestamp)
        yield from self._closed(self._join.due())
        for key, own in parts.items():
            group = self._join.add(clock, key, own, size=len(record.value or b"") // len(parts))
            if group is not None:
                self._first.setdefault(group, record)

    def rest(self) -> Iterator[tuple[Record, list[T]]]:
        yield from self._closed(self._join.rest())

    def _closed(self, groups: Iterable[OpenGroup[T]]) -> Iterator[tuple[Record, list[T]]]:
        for group in groups:
            first = self._first.pop(group)
            if self._inside(first):
                yield first, group.parts
