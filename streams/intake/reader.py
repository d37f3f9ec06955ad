"""What reads records of one format, found by the entry point that `ingest.format` names."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import ClassVar, Final, Generic, NamedTuple, Protocol, Self, TypeAlias, TypeVar

from judge.errors import EventError, ExtensionError
from judge.evaluate import limited
from judge.extensions import load
from judge.metric import READ_AT_ONCE
from schemas import QAEvent
from schemas.base import MAX_LABEL_VALUE_CHARS
from streams.errors import DecodeError, SettingsError, undecodable
from streams.intake.joining.join import JoinBounds
from streams.intake.sampling import (
    NO_TRACE,
    RANGE,
    Head,
    SamplingPolicy,
    SkipReason,
    event_randomness,
    random_value,
)
from streams.kafka.record import Record
from streams.settings.problems import describe
from streams.settings.tree import Settings

Headers: TypeAlias = Sequence[tuple[str, bytes | None]]
Keep: TypeAlias = Callable[[str], bool]
EARLIEST: Final = datetime(2000, 1, 1, tzinfo=UTC)
LONGEST_AHEAD: Final = timedelta(hours=1)
T = TypeVar("T")


class Predicate(Protocol):
    """Decides whether a raw record is delivered, and counts what it skips. Not thread-safe."""

    skipped: dict[SkipReason, int]

    def __call__(self, record: Record) -> bool:
        """Return whether to deliver a record; count it if not."""


class RecordReader:
    """An `EventReader` or a `GroupReader`; `ingest.format` names its entry point of `judgestream.readers`."""

    @classmethod
    def of(cls, settings: Settings, env: Mapping[str, str], *, patient: bool = True) -> Self:
        """Build the reader; sends no request; raises SettingsError.

        Args:
            patient: Whether reading waits during an outage of another system; otherwise it raises.
        """
        del settings, env, patient
        return cls()

    @property
    def trouble(self) -> str | None:
        """The system that reading waits for, and why; None if it does not wait."""
        return None

    def push_down(self, policy: SamplingPolicy) -> Predicate | None:
        """Build the predicate that skips records before they are delivered; None to deliver all."""
        del policy
        return None

    async def check(self) -> str | None:
        """Ask the other system that reading needs what it supports; None without one.

        Raises ReaderDownError if it does not answer.
        """
        return None

    async def close(self) -> None:
        """Release what the reader opened."""


class EventReader(RecordReader, ABC):
    """Reads the event in each record; a subclass needs `decode` alone."""

    max_event_bytes: int = 4 * 1024 * 1024
    is_plain: bool = False
    """Whether records may have the fields of an event at the top level of JSON."""

    @abstractmethod
    def decode(
        self, value: bytes | None, headers: Headers | None = None, timestamp_ms: int | None = None
    ) -> QAEvent:
        """Decode the event of a record; no bytes raise another exception than DecodeError.

        Args:
            timestamp_ms: The record's timestamp in Unix milliseconds; None or negative for none.
        """

    def parts(self, value: bytes | None) -> int:
        """Return an upper bound on the objects that `decode` makes; many are made in a child process."""
        del value
        return 0

    async def unpack(self, value: bytes | None, headers: Headers) -> bytes | None:
        """Return the value that `decode` reads, after what may wait for another system."""
        del headers
        return value

    async def read(self, record: Record) -> QAEvent:
        value = record.value
        # A value beyond the limit is not unpacked: `decode` must refuse it, at once.
        if value is None or len(value) <= self.max_event_bytes:
            value = await self.unpack(value, record.headers)
        is_large = value is not None and len(value) > self.max_event_bytes
        size = 0 if is_large else self.parts(value)
        milliseconds = None if record.timestamp is None else round(record.timestamp * 1000)
        return await read_beside(size, self.decode, value, record.headers, milliseconds)


@dataclass(frozen=True, slots=True)
class GroupReading:
    """The events of a group, such as a trace."""

    events: tuple[QAEvent, ...] = ()
    why_none: str | None = None  # the reason to count where there are none
    problem: str = ""  # the reason as a sentence
    silent: tuple[str, ...] = ()  # families of instrumentations whose model calls have no recorded content
    hints: tuple[str, ...] = ()  # how to have content recorded


class GroupReader(RecordReader, ABC, Generic[T]):
    """Reads events whose parts are in several records, such as the spans of a trace."""

    noun: ClassVar[str]  # what a group is called
    bounds: JoinBounds | None = None  # when groups are closed; None if each record is read alone

    @abstractmethod
    def heads(self, value: bytes | None) -> list[Head]:
        """Read what sampling needs; raises DecodeError if the record cannot be read."""

    @abstractmethod
    def parts(self, value: bytes | None, keep: Keep = lambda _: True) -> dict[str, list[T]]:
        """Read a record's parts of the wanted groups; raises DecodeError if it cannot be read."""

    @abstractmethod
    def read(self, parts: Sequence[T]) -> GroupReading:
        """Make events of the parts of one group; raises DecodeError if its fields are no valid event."""

    @abstractmethod
    def size(self, parts: Iterable[T]) -> int:
        """Return an upper bound on the objects that `read` makes."""

    @abstractmethod
    def is_complete(self, parts: Iterable[T]) -> bool:
        """Whether a group needs no more parts."""

    @abstractmethod
    def is_key(self, key: bytes | None, group: str) -> bool:
        """Whether a record's key is the group's, so that the whole group is on one partition."""

    @abstractmethod
    def key_problem(self, got: str) -> str:
        """Return the message about records with another key."""

    def randomness(self, group: str) -> int:
        return event_randomness(group, group, None)

    def opening(self, parts: Sequence[T]) -> list[T]:
        """Return the parts that may open a group; others come after it and would open it again."""
        return list(parts)

    def push_down(self, policy: SamplingPolicy) -> Predicate | None:
        return None if policy.keeps_all else GroupSampler(policy, self)


class GroupSampler(Generic[T]):
    """Samples the groups of a record by their ids, before the rest of them is parsed.

    The stratum is known only for a whole group: until it is closed the highest rate of all strata applies.
    """

    def __init__(self, policy: SamplingPolicy, reader: GroupReader[T]) -> None:
        self.reader = reader
        self._policy = policy
        self._least = policy.least_threshold
        self.skip_reason: SkipReason = "filtered" if self._least == RANGE else "not_sampled"
        self.skipped: dict[SkipReason, int] = {"filtered": 0, "not_sampled": 0}

    def __call__(self, record: Record) -> bool:
        try:
            kept, skipped = self._split(record)
        except DecodeError:
            return True  # it becomes a dead letter
        if not kept:
            self.skipped[self.skip_reason] += skipped
        return bool(kept)

    def read(self, record: Record) -> tuple[dict[str, list[T]], int]:
        """Return the parts of sampled groups that may open one, and how many others begin in the record."""
        kept, skipped = self._split(record)
        groups = self.reader.parts(record.value, kept.__contains__) if kept else {}
        opening = {group: self.reader.opening(parts) for group, parts in groups.items()}
        return {group: parts for group, parts in opening.items() if parts}, skipped

    def _split(self, record: Record) -> tuple[frozenset[str], int]:
        kept = []
        skipped = 0
        of_key = self._policy.key_randomness(record.key)
        for group, tracestate, begun in self.reader.heads(record.value):
            randomness = of_key
            if randomness is None and tracestate:
                randomness = random_value(tracestate)
            if randomness is None:
                randomness = self.reader.randomness(group)
            if randomness >= self._least:
                kept.append(group)
            else:
                skipped += begun
        return frozenset(kept), skipped


def open_reader(
    settings: Settings, env: Mapping[str, str], *, format_: str | None = None, patient: bool = True
) -> RecordReader:
    """Build the reader of `ingest.format`, or of another format; raises SettingsError."""
    try:
        kind: type[RecordReader] = load(
            "judgestream.readers", format_ or settings.ingest.format, RecordReader
        )
    except ExtensionError as error:
        raise SettingsError([f"ingest.format: {error}"]) from None
    if format_ is None and issubclass(kind, GroupReader):
        why = (
            f"is not for ingest.format {settings.ingest.format}, where a {kind.noun} is one event; remove it"
        )
        whole = [name for name, metric in settings.metrics.items() if metric.unit == "conversation"]
        if whole:
            raise SettingsError([f"metrics.{name}.unit: conversation {why}" for name in whole])
    return kind.of(settings, env, patient=patient)


def without_registry(settings: Settings) -> Settings:
    """Return settings for records that need no schema: lines of a file, unpacked records."""
    return settings.model_copy(update={"ingest": settings.ingest.model_copy(update={"registry": None})})


def open_line_reader(settings: Settings) -> EventReader:
    reader = open_reader(without_registry(settings), {}, format_="json")
    assert isinstance(reader, EventReader)  # noqa: S101 - ours
    return reader


def is_plausible(at: datetime, recorded: datetime | None) -> bool:
    """Return whether an event can have happened at a time: before its record, or else before now."""
    return EARLIEST <= at <= (recorded or datetime.now(UTC)) + LONGEST_AHEAD


def normal_labels(raw: object) -> dict[str, str]:
    """Convert numbers and booleans of an event's `labels` to texts; nulls are omitted."""
    if raw is None:
        return {}
    if not isinstance(raw, dict):
        raise undecodable(
            f"labels: must be a mapping of short texts (got {describe(raw)}); correct the producer"
        )
    labels: dict[str, str] = {}
    for name, value in raw.items():
        if value is None:
            continue
        if isinstance(value, str):
            labels[name] = value[:MAX_LABEL_VALUE_CHARS]
        elif isinstance(value, bool):
            labels[name] = "true" if value else "false"
        elif isinstance(value, int | float):
            labels[name] = str(value)[:MAX_LABEL_VALUE_CHARS]
        else:
            raise undecodable(
                f"labels.{name[:80]}: must be text, a number or a truth value (got {describe(value)}); "
                "correct the producer or map one value by ingest.mapping"
            )
    return labels


# W3C Trace Context

MAX_TRACESTATE_CHARS: Final = 512  # the specification's minimum for propagation
_TRACEPARENT: Final = re.compile(
    r"(?!ff)[0-9a-f]{2}-(?P<trace>[0-9a-f]{32})-(?P<span>[0-9a-f]{16})-[0-9a-f]{2}(?P<rest>-.*)?", re.ASCII
)
_NO_SPAN: Final = "0" * 16


class TraceContext(NamedTuple):
    trace_id: str
    span_id: str
    tracestate: str | None


def normal_id(value: str | None) -> str | None:
    return value.lower() if value and value.strip("0") else None


def normal_tracestate(value: str | None) -> str | None:
    return value if value and len(value) <= MAX_TRACESTATE_CHARS else None


def parse_trace_context(traceparent: str, tracestate: str | None) -> TraceContext | None:
    """Return None for a malformed traceparent; a version after 00 may have more than four parts."""
    match = _TRACEPARENT.fullmatch(traceparent.strip(" \t"))
    if match is None or (match["rest"] and traceparent.lstrip(" \t").startswith("00")):
        return None
    if match["trace"] == NO_TRACE or match["span"] == _NO_SPAN:
        return None
    return TraceContext(match["trace"], match["span"], normal_tracestate(tracestate))


def trace_from_headers(headers: Headers) -> TraceContext | None:
    """Read `traceparent` and `tracestate`, else those of CloudEvents; repeated tracestates form one list."""
    values: dict[str, list[str]] = {}
    for name, value in headers:
        if name.endswith(("traceparent", "tracestate")) and value is not None:
            # Latin-1 decodes any bytes; non-ASCII characters do not match.
            values.setdefault(name, []).append(value.decode("latin-1"))
    if not values:
        return None
    for prefix in ("", "ce_"):
        parents = values.get(f"{prefix}traceparent", ())
        if len(parents) == 1:
            states = values.get(f"{prefix}tracestate")
            context = parse_trace_context(parents[0], ",".join(states) if states else None)
            if context is not None:
                return context
    return None


# Records with many parts


async def read_beside(
    size: int, function: Callable[..., T], /, *args: object, seconds: float = limited.DEFAULT_SECONDS
) -> T:
    """Call a function that reads a record, in the child process if it has many parts; raises DecodeError.

    Four megabytes of `{},{},...` become a gigabyte of objects and would block the event loop for seconds.
    """
    if size <= READ_AT_ONCE:
        return function(*args)
    try:
        found = await limited.run_limited(size, seconds, _tried, function, args)
    except EventError:
        held = limited.MEMORY_BYTES // (1024 * 1024)
        raise DecodeError(
            "oversized",
            f"value: has too many parts to be read within {seconds:g} s and {held} MiB; send less",
        ) from None
    if isinstance(found, DecodeError):
        raise found
    return found


def _tried(function: Callable[..., T], args: tuple[object, ...]) -> T | DecodeError:
    """Run in the child process, which raises only errors of `judge` here."""
    try:
        return function(*args)
    except DecodeError as error:
        return error
