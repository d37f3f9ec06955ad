"""The intakes that join: parts of traces to one event each, and events of a conversation.

The commit of records whose group is open is delayed until the group's output is written, so after a crash
they are redelivered. Its records before the committed offset are reread once, for the whole group.
"""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

import structlog

from schemas import QAEvent
from streams.errors import DecodeError, SettingsError
from streams.intake.joining.join import Join, JoinBounds, OpenGroup, StreamClock, joined
from streams.intake.reader import GroupSampler, read_beside
from streams.intake.selector import Intake
from streams.kafka.reader import TopicReader
from streams.kafka.record import Record
from streams.telemetry.instruments import Metrics
from streams.telemetry.logs import where

_log = structlog.stdlib.get_logger(__name__)

SHORTEST_SLEEP_SECONDS: Final = 0.02
LONGEST_SLEEP_SECONDS: Final = 1.0
READ_BACK_SECONDS: Final = 120.0
"""Timeout of rereading; groups across the committed offset lack the records not reached by then."""
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Joining:
    """What a worker joins groups with."""

    counts: Metrics
    bounds: JoinBounds
    past: TopicReader
    polled: Callable[[str, int], float | None] = lambda *_: time.time()
    """Time of the last response about a partition, if everything is read; see `StreamClock.look`."""
    is_member: Callable[[], bool] = lambda: True
    """Whether the group has confirmed the assignment within its session timeout."""


class Gathering(ABC, Generic[T]):
    """Collects the groups of one worker; a subclass handles its records. `noun`: what a group is called."""

    def __init__(
        self,
        noun: str,
        joining: Joining,
        intake: Intake,
        *,
        is_key: Callable[[bytes | None, str], bool],
        key_problem: Callable[[str], str],
        is_complete: Callable[[Sequence[T]], bool] | None = None,
    ) -> None:
        self._intake = intake
        self._noun = noun
        self._joining = joining
        self._is_key = is_key
        self._key_problem = key_problem
        self._join = Join[T](joining.bounds, is_complete=is_complete)
        self._open: dict[OpenGroup[T], asyncio.Event] = {}  # set when the group is closed
        self._finishing: dict[str, asyncio.Task[None]] = {}
        self._closing: asyncio.Task[None] | None = None
        self._read_back: dict[tuple[str, int], tuple[int, asyncio.Task[None]]] = {}
        self._keyed: dict[str, bool] = {}
        joining.counts.set("judgestream_joins_open", noun, to=lambda: len(self._join))
        joining.counts.set("judgestream_joins_late_records", noun, to=lambda: self._join.late)
        self.on_surprise = intake.on_surprise

    @abstractmethod
    async def become(self, record: Record, parts: list[T]) -> None:
        """Write the output of a closed group; the record is the first of its records."""

    @abstractmethod
    async def parts_of(self, record: Record) -> Mapping[str, list[T]]:
        """Return a record's parts by group; raises DecodeError."""

    def release(self) -> None:
        """Abandon all open groups on a revocation; the next owner reads their records again."""
        if self._closing is not None:
            self._closing.cancel()
        for _, task in self._read_back.values():
            task.cancel()
        self._read_back.clear()
        self._join.release()
        for group in self._open:
            self._finishing.pop(group.key).cancel()
        self._open.clear()

    async def add(self, record: Record, parts: Mapping[str, list[T]]) -> None:
        """Add the parts in a record; return when the output of its groups is written."""
        if any(not self._is_key(record.key, key) for key in parts):
            await self._check_keys(record)
        place = (record.topic, record.partition)
        generation, reading = self._read_back.get(place, (None, None))
        if reading is None or generation != record.generation_id:
            # Once per assignment, the records of this partition before the first one.
            reading = asyncio.create_task(self._read_past(record))
            self._read_back[place] = (record.generation_id, reading)
        await asyncio.shield(reading)
        clock = self._clock(record)
        written: list[asyncio.Future[None]] = []
        size = len(record.value or b"") // len(parts)
        for key, own in parts.items():
            group = self._join.add(clock, key, own, size=size)
            if group is not None and group not in self._open:
                closed = self._open[group] = asyncio.Event()
                self._finishing[key] = asyncio.create_task(self._finish(group, record, closed))
            # Also late, or redelivered after a rebalance: finished only when the group's output is written.
            if key in self._finishing:
                written.append(_end_of(self._finishing[key]))
        self._close_due()
        if self._closing is None or self._closing.done():
            self._closing = asyncio.create_task(self._keep_closing())
        await asyncio.gather(*written)

    def _clock(self, record: Record) -> StreamClock:
        clock = self._join.clock((record.topic, record.partition))
        clock.read(record.timestamp, wall=time.time())
        return clock

    async def _check_keys(self, record: Record) -> None:
        keyed = self._keyed.get(record.topic)
        if keyed is None:
            # With one partition a group is always complete.
            keyed = self._keyed[record.topic] = await self._joining.past.partitions(record.topic) <= 1
        if not keyed:
            got = "no key" if record.key is None else f"the key {record.key[:40]!r}"
            place = f"{record.topic}[{record.partition}]@{record.offset}"
            raise SettingsError([self._key_problem(f"(got {got} at {place})")])

    async def _keep_closing(self) -> None:
        while (wait := self._join.wait) is not None:
            await asyncio.sleep(min(max(wait, SHORTEST_SLEEP_SECONDS), LONGEST_SLEEP_SECONDS))
            for (topic, partition), clock in self._join.clocks.items():
                clock.look(self._joining.polled(topic, partition))
            self._close_due()

    def _close_due(self) -> None:
        if not self._joining.is_member():
            return  # a process that was stopped: its partitions may have another owner
        self._join.forget_past()
        for group in self._join.due():
            self._joining.counts.count("judgestream_joins_closed_total", self._noun, str(group.closed))
            self._open.pop(group).set()

    async def _finish(self, group: OpenGroup[T], first: Record, closed: asyncio.Event) -> None:
        await closed.wait()
        try:
            await self.become(first, group.parts)
        except Exception as error:  # noqa: BLE001 - one group must not stop the others
            _log.error(
                f"unexpected error: the {self._noun} becomes a dead letter",
                **{f"{self._noun}_id": group.key},
                error=type(error).__name__,
                where=where(error),
            )
            await self.on_surprise(first, error)
        finally:
            del self._finishing[group.key]

    async def _read_past(self, record: Record) -> None:
        if record.offset == 0 or record.timestamp is None:
            return
        since = record.timestamp - self._joining.bounds.longest
        try:
            async with asyncio.timeout(READ_BACK_SECONDS):
                records = self._joining.past.read_since(
                    record.topic, record.partition, since=since, before=record.offset
                )
                clock = self._clock(record)
                async for earlier in records:
                    with suppress(DecodeError):
                        parts = await self.parts_of(earlier)
                        for key, own in parts.items():
                            self._join.recall(clock, key, own, size=len(earlier.value or b"") // len(parts))
        except Exception as error:  # noqa: BLE001 - only groups across the committed offset lack parts
            _log.warning(
                f"rereading failed: a {self._noun} that began before this offset may be incomplete",
                topic=record.topic,
                partition=record.partition,
                offset=record.offset,
                error=repr(error),
            )


def _end_of(task: asyncio.Task[None]) -> asyncio.Future[None]:
    """Like `asyncio.shield`, whose cancellation would search all who wait, up to a million records."""
    end = asyncio.get_running_loop().create_future()

    def pass_on(ended: asyncio.Task[None]) -> None:
        error = None if ended.cancelled() else ended.exception()
        if ended.cancelled():
            end.cancel()
        elif not end.done():
            end.set_result(None) if error is None else end.set_exception(error)

    task.add_done_callback(pass_on)
    return end


class GroupIntake(Gathering[T]):
    """Decides the outcome of groups, such as traces."""

    def __init__(self, *, sampler: GroupSampler[T], intake: Intake, joining: Joining) -> None:
        reader = self._reader = sampler.reader
        self._sampler = sampler
        super().__init__(
            reader.noun,
            joining,
            intake,
            is_key=reader.is_key,
            key_problem=reader.key_problem,
            is_complete=reader.is_complete,
        )
        self._counts = joining.counts

    async def handle(self, record: Record) -> None:
        """Take one record; return when the output of its groups is written."""
        try:
            groups, skipped = self._sampler.read(record)
        except DecodeError as error:
            await self._intake.refuse(record, error)
            return
        if skipped:
            self._counts.count_event("skipped", self._sampler.skip_reason, count=skipped)
        if self._reader.bounds is None:
            for parts in groups.values():
                await self.become(record, parts)
        elif groups:
            await self.add(record, groups)

    async def parts_of(self, record: Record) -> dict[str, list[T]]:
        return self._sampler.read(record)[0]

    async def become(self, record: Record, parts: list[T]) -> None:
        reader = self._reader
        try:
            reading = await read_beside(reader.size(parts), reader.read, parts)
        except DecodeError as error:
            await self._intake.refuse(record, error)
            return
        for family in reading.silent:
            self._counts.count("judgestream_traces_without_content_total", family)
        if reading.why_none is not None:
            self._counts.count_event("skipped", reading.why_none)
        for event in reading.events:
            await self._intake.take(record, event)
        await asyncio.sleep(0)  # a record may hold hundreds of groups


class ConversationIntake(Gathering[QAEvent]):
    """Decides the outcome of events that belong to conversations."""

    def __init__(self, *, events: Intake, whole: Intake, joining: Joining) -> None:
        super().__init__("conversation", joining, events, is_key=_is_key, key_problem=_key_problem)
        self._policy = events.selector.policy
        self._whole = whole

    async def handle(self, record: Record) -> None:
        """Take one record; return when its event and, if sampled, its conversation are processed."""
        try:
            event = await self._intake.read(record)
        except DecodeError as error:
            await self._intake.refuse(record, error)
            return
        of_event = self._intake.take(record, event, in_conversation=event.conversation_id is not None)
        parts = self._sampled(record, event)
        if not parts:
            await of_event
            return
        # At once: until its task is written, its conversation would be closed without it.
        await asyncio.gather(self.add(record, parts), of_event)

    async def become(self, record: Record, events: list[QAEvent]) -> None:
        await self._whole.take(record, joined(events), in_conversation=True)

    async def parts_of(self, record: Record) -> dict[str, list[QAEvent]]:
        return self._sampled(record, await self._intake.read(record))

    def _sampled(self, record: Record, event: QAEvent) -> dict[str, list[QAEvent]]:
        if event.conversation_id is None or not self._policy.decide_event(event, record.key).keep:
            return {}
        return {event.conversation_id: [event]}


def _is_key(key: bytes | None, conversation: str) -> bool:
    return key == conversation.encode("utf-8", "surrogatepass")


def _key_problem(got: str) -> str:
    return (
        "metrics.*.unit: conversation needs records keyed by conversation_id, otherwise a conversation "
        f"is spread over partitions {got}; use that key, or remove unit: conversation"
    )
