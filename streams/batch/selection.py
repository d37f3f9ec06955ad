"""Past records as work for the batch engine, with the sampling, routes and joins of the live intake."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeAlias, TypeVar

from judge.errors import EventError
from judge.metric import Metric
from schemas import JudgeTask, QAEvent
from streams.errors import DecodeError
from streams.intake.from_settings import (
    conversation_bounds,
    metric_routes,
    reading_policy,
    sampling_policy,
)
from streams.intake.joining.intakes import joined
from streams.intake.joining.join import Join, JoinBounds, OpenGroup
from streams.intake.reader import EventReader, GroupReader, GroupSampler, RecordReader
from streams.intake.sampling import SamplingPolicy
from streams.intake.selector import Selector
from streams.kafka.record import Record
from streams.settings import Settings

T = TypeVar("T")
UNITS: Final = ("event", "conversation")
_Found: TypeAlias = tuple[Record, QAEvent, Selector]
"""The first record of an event, the event, and what selects its tasks."""
Records: TypeAlias = AsyncIterator[Record]
Inside: TypeAlias = Callable[[Record], bool]


@dataclass(slots=True)
class RecordCounts:
    """What became of the records in a time range."""

    records: int = 0
    sampled: int = 0
    """Events that become tasks."""
    passed: Counter[str] = field(default_factory=Counter)
    """Other events and records, by reason."""

    def as_json(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {"records": self.records, "sampled": self.sampled, "passed": dict(self.passed.most_common())}


def selectors(
    policy: SamplingPolicy, settings: Settings, metrics: Mapping[str, Metric], replay_id: str
) -> tuple[Selector, ...]:
    """Return what selects the tasks of events, and those of conversations."""
    return tuple(
        Selector(
            policy,
            metric_routes(settings, unit),
            metrics,
            replay_id=replay_id,
        )
        for unit in UNITS
    )


class PastSelection:
    """Turns past records into tasks.

    Args:
        parts: Labels of the selected parts of the traffic; empty for all.
        reader: Reads the records; the caller must close it.
    """

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
        self._bounds = conversation_bounds(settings.ingest) if self._whole.routes else None
        if isinstance(reader, GroupReader):
            self._bounds = reader.bounds
        self.straddle_seconds = 0 if self._bounds is None else self._bounds.longest
        """Seconds before and after the time range in which its traces or conversations may have records."""

    async def tasks(
        self, records: Records, counted: RecordCounts, inside: Inside
    ) -> AsyncGenerator[JudgeTask, None]:
        """Yield the tasks of records, given in order per partition.

        A trace or conversation is in the time range (`inside`) if its first record is.
        """
        if isinstance(self._reader, GroupReader):
            events = self._groups(self._reader, records, counted, inside)
        else:
            events = self._events(self._reader, records, counted, inside)
        async for record, event, selector in events:
            if self._parts and not any(part.items() <= event.labels.items() for part in self._parts):
                counted.passed["other_part"] += 1
                continue
            selection = selector.select(event, record.key)
            if selection.skipped is not None:
                counted.passed[selection.skipped] += 1
                continue
            try:
                tasks = await selector.tasks(record, event, selection)
            except EventError:
                counted.passed["oversized"] += 1
                continue
            counted.sampled += 1
            for task in tasks:
                yield task

    async def _events(
        self, reader: RecordReader, records: Records, counted: RecordCounts, inside: Inside
    ) -> AsyncIterator[_Found]:
        assert isinstance(reader, EventReader)  # noqa: S101 - the other kind has groups
        joins: dict[int, _PartitionJoin[QAEvent]] = {}
        async for record in records:
            counts = inside(record)
            if not counts and not self._whole.routes:
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
            for found in self._conversations(joins, record, event, inside):
                yield found
        for join in joins.values():
            for first, events in join.rest():
                if inside(first):
                    yield first, joined(events), self._whole

    def _conversations(
        self, joins: dict[int, _PartitionJoin[QAEvent]], record: Record, event: QAEvent, inside: Inside
    ) -> Iterator[_Found]:
        """Yield the conversations that are closed by a record's time."""
        if self._bounds is None or event.conversation_id is None:
            return
        if not self._policy.decide_event(event, record.key).keep:
            return
        join = joins.setdefault(record.partition, _PartitionJoin(self._bounds))
        for first, events in join.add(record, {event.conversation_id: [event]}):
            if inside(first):
                yield first, joined(events), self._whole

    # Groups, such as traces

    async def _groups(
        self, reader: GroupReader[Any], records: Records, counted: RecordCounts, inside: Inside
    ) -> AsyncIterator[_Found]:
        joins: dict[int, _PartitionJoin[Any]] = {}
        sampler = GroupSampler(self._read)
        async for record in records:
            counted.records += inside(record)
            try:
                split = sampler.split(reader.heads(record.value), record.key)
                groups = reader.parts(record.value, split.kept.__contains__) if split.kept else {}
            except (DecodeError, ValueError):
                counted.passed["undecodable"] += inside(record)
                continue
            counted.passed[sampler.skip_reason] += split.skipped if inside(record) else 0
            if reader.bounds is None:
                closed: Iterable[tuple[Record, list[Any]]] = ((record, one) for one in groups.values())
            else:
                join = joins.setdefault(record.partition, _PartitionJoin(reader.bounds, reader.is_complete))
                closed = join.add(record, groups)
            for found in self._become(reader, closed, counted, inside):
                yield found
        for join in joins.values():
            for found in self._become(reader, join.rest(), counted, inside):
                yield found

    def _become(
        self,
        reader: GroupReader[Any],
        closed: Iterable[tuple[Record, list[Any]]],
        counted: RecordCounts,
        inside: Inside,
    ) -> Iterator[_Found]:
        for first, parts in closed:
            if not inside(first):
                continue
            try:
                reading = reader.read(parts)
            except DecodeError as error:
                counted.passed[error.reason] += 1
                continue
            if reading.why_none is not None:
                counted.passed[reading.why_none] += 1
            for event in reading.events:
                yield first, event, self._single


class _PartitionJoin(Generic[T]):
    """Joins the traces or conversations of one partition, by the time of its records."""

    def __init__(self, bounds: JoinBounds, is_complete: Callable[[Sequence[T]], bool] | None = None) -> None:
        self._join = Join[T](bounds, is_complete=is_complete)
        self._clock = self._join.clock(("", 0))
        self._first: dict[OpenGroup[T], Record] = {}

    def add(self, record: Record, parts: Mapping[str, list[T]]) -> Iterator[tuple[Record, list[T]]]:
        """Add a record, and yield the groups that are closed by its time."""
        self._clock.read(record.timestamp)
        yield from self._closed(self._join.due())
        for key, own in parts.items():
            size = len(record.value or b"") // len(parts)
            group = self._join.add(self._clock, key, own, size=size)
            if group is not None:
                self._first.setdefault(group, record)

    def rest(self) -> Iterator[tuple[Record, list[T]]]:
        """Close and yield the open groups."""
        yield from self._closed(self._join.rest())

    def _closed(self, groups: Iterable[OpenGroup[T]]) -> Iterator[tuple[Record, list[T]]]:
        for group in groups:
            yield self._first.pop(group), group.parts
