"""Join parts from several records, within bounds: the spans of a trace, the events of a conversation. Pure.

A group is closed a grace period after it is complete (a trace's root span has arrived, usually after its
children), else when it is idle or at its maximum age, else, the oldest first, if open groups exceed limits.
Parts after the close are late: they are only counted. Each partition has its own time (`StreamClock`).
"""

from __future__ import annotations

import heapq
import math
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, Generic, Literal, Self, TypeVar

from schemas import ChatMessage, QAEvent
from schemas.event import MAX_MESSAGES
from streams.settings.intake import IngestSettings

Why = Literal["root", "idle", "longest", "room"]
REMEMBERED: Final = 200_000
"""Closed groups that are remembered, to detect late parts."""
LONGEST_GAP_SECONDS: Final = 3.0
"""A longer time without a response is no quiet time: worker, broker or producers were stopped meanwhile."""
CONVERSATION_IDLE_SECONDS: Final = 300.0
LONGEST_IDLE_TIMES: Final = 12
GROUP_BYTES: Final = 4_096
"""What an open trace or conversation counts for at least: the memory of many small ones."""
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinBounds:
    """When groups are closed."""

    grace: float  # seconds after the group is complete
    idle: float  # seconds after the last record, for an incomplete group
    longest: float  # seconds after the first record
    groups: int  # limit on open groups
    size: int  # limit on the bytes of open groups' records

    @classmethod
    def of(cls, ingest: IngestSettings, *, grace: float = 0, idle: float = CONVERSATION_IDLE_SECONDS) -> Self:
        """Return the bounds by the settings; a conversation is never known to be complete."""
        size, idle = ingest.max_open_bytes, ingest.idle_seconds or idle
        longest = LONGEST_IDLE_TIMES * idle
        return cls(grace=grace, idle=idle, longest=longest, groups=size // GROUP_BYTES, size=size)


class StreamClock:
    """The time of one partition, in seconds.

    While records are unread it follows their timestamps: by the worker's time, what is read late would be
    closed incomplete. At the partition's end it counts the time between responses of the broker.
    """

    def __init__(self) -> None:
        self.now = 0.0
        self.due: list[tuple[float, str]] = []  # a heap of when to check which groups of this partition
        self._ahead = 0.0
        self._polled: float | None = None
        self._quiet = 0.0

    def read(self, timestamp: float | None, *, wall: float = math.inf) -> None:
        """Advance to a record's time, but not beyond the worker's (`wall`)."""
        # If the worker's clock was set back, the partition's goes on from where it is.
        self._ahead = max(self._ahead, self.now - wall)
        self.now = max(self.now, min(timestamp or 0.0, wall) + self._ahead)

    def look(self, polled: float | None) -> None:
        """Advance by the quiet time up to a response that nothing is unread; None if something is."""
        if polled is None or self._polled is None:
            self._quiet = 0.0
        elif polled != self._polled:
            # What a stopped process reads first was sent before the stop. So a response tells only of the
            # time up to the one before, after which it was requested.
            self.now += self._quiet
            passed = polled - self._polled
            self._quiet = passed if 0 < passed <= LONGEST_GAP_SECONDS else 0.0
        self._polled = polled


@dataclass(slots=True, eq=False)
class OpenGroup(Generic[T]):
    key: str
    clock: StreamClock
    opened: float  # the time of its first record
    last: float  # of its last record
    root: float | None = None  # when it was complete
    size: int = 0
    parts: list[T] = field(default_factory=list)
    closed: Why | None = None


@dataclass(slots=True, eq=False)
class Join(Generic[T]):
    """The open groups of one worker; `is_complete` is None if the end of a group is never known."""

    bounds: JoinBounds
    is_complete: Callable[[Sequence[T]], bool] | None = None
    late: int = 0  # records of groups that were already closed
    clocks: dict[tuple[str, int], StreamClock] = field(default_factory=dict)  # by topic and partition
    size: int = 0  # the bytes of open groups' records
    _open: OrderedDict[str, OpenGroup[T]] = field(default_factory=OrderedDict)
    _closed: OrderedDict[str, None] = field(default_factory=OrderedDict)
    _past: OrderedDict[str, tuple[StreamClock, float, int, list[T]]] = field(default_factory=OrderedDict)
    _past_size: int = 0

    def __len__(self) -> int:
        return len(self._open)

    def clock(self, partition: tuple[str, int]) -> StreamClock:
        return self.clocks.setdefault(partition, StreamClock())

    def add(self, clock: StreamClock, key: str, parts: Sequence[T], *, size: int) -> OpenGroup[T] | None:
        """Return the open group of a record's parts, or None if it is already closed."""
        group = self._open.get(key)
        if group is None:
            if key in self._closed:
                self.late += 1
                return None
            group = self._open[key] = OpenGroup(key, clock, opened=clock.now, last=clock.now)
            group.parts += self._take_past(key)
        # By its own clock: a trace may be on two partitions after their number was raised.
        now = group.last = group.clock.now
        group.size += size
        self.size += size
        group.parts += parts
        if group.root is None and self.is_complete is not None and self.is_complete(group.parts):
            group.root = now
        heapq.heappush(group.clock.due, (self._due_at(group), key))
        return group

    def _due_at(self, group: OpenGroup[T]) -> float:
        bounds = self.bounds
        wait = group.last + bounds.idle if group.root is None else group.root + bounds.grace
        return min(wait, group.opened + bounds.longest)

    @property
    def wait(self) -> float | None:
        """Seconds of its partition until the first group is due; None without open groups."""
        return min((clock.due[0][0] - clock.now for clock in self.clocks.values() if clock.due), default=None)

    def due(self) -> list[OpenGroup[T]]:
        closed = []
        for clock in self.clocks.values():
            while clock.due and clock.due[0][0] <= clock.now:
                _, key = heapq.heappop(clock.due)
                group = self._open.get(key)
                if group is not None and self._due_at(group) <= clock.now:
                    closed.append(self._close(group, self._why(group)))
        while self._open and (len(self._open) > self.bounds.groups or self.size > self.bounds.size):
            closed.append(self._close(next(iter(self._open.values())), "room"))
        for clock in self.clocks.values():
            while clock.due and clock.due[0][1] not in self._open:
                heapq.heappop(clock.due)  # an outdated entry
        return closed

    def rest(self) -> list[OpenGroup[T]]:
        for clock in self.clocks.values():
            clock.now = math.inf
        return self.due()

    def _why(self, group: OpenGroup[T]) -> Why:
        if group.root is not None and group.root + self.bounds.grace <= group.clock.now:
            return "root"
        return "longest" if group.opened + self.bounds.longest <= group.clock.now else "idle"

    def _close(self, group: OpenGroup[T], why: Why) -> OpenGroup[T]:
        del self._open[group.key]
        self.size -= group.size
        group.closed = why
        self._closed[group.key] = None
        while len(self._closed) > REMEMBERED:
            self._closed.popitem(last=False)
        return group

    def release(self) -> None:
        self._open.clear()
        self._past.clear()
        self.clocks.clear()
        self.size = self._past_size = 0

    # Parts before the first offset that is read

    def recall(self, clock: StreamClock, key: str, parts: Sequence[T], *, size: int) -> None:
        """Keep parts from before the offset: a group's end alone would be an incomplete event of its id."""
        _, _, known, gathered = self._past.pop(key, (clock, clock.now, 0, []))
        gathered += parts
        self._past[key] = (clock, clock.now, known + size, gathered)
        self._past_size += size
        while self._past_size > self.bounds.size:
            self._take_past(next(iter(self._past)))

    def forget_past(self) -> None:
        while self._past:
            clock, at, _, _ = next(iter(self._past.values()))
            if at >= clock.now - self.bounds.longest:
                return
            self._take_past(next(iter(self._past)))

    def _take_past(self, key: str) -> list[T]:
        _, _, size, parts = self._past.pop(key, (None, None, 0, []))
        self._past_size -= size
        return parts


# The events of a conversation


def joined(events: Sequence[QAEvent]) -> QAEvent:
    """Return one event for a conversation: its last event, with its id and the latest 200 turns of all.

    An event with the conversation so far, or with its latest messages, adds its new messages; another event
    adds its question and answer. Duplicates are ignored; there must be at least one event.
    """
    distinct = {event.event_id: event for event in reversed(events)}
    in_order = list(reversed(distinct.values()))
    if all(event.occurred_at is not None for event in in_order):
        in_order.sort(key=lambda event: (event.occurred_at is None, event.occurred_at))
    turns: list[ChatMessage] = []
    for event in in_order:
        said = _said(event)
        turns += said[_repeated(turns, said) if event.messages else 0 :]
    last = in_order[-1]
    return last.model_copy(
        update={"event_id": last.conversation_id, "messages": tuple(turns[-MAX_MESSAGES:])}
    )


def _said(event: QAEvent) -> list[ChatMessage]:
    answer = ChatMessage(role="assistant", content=event.answer)
    if not event.messages:
        return [ChatMessage(role="user", content=event.question), answer]
    return [*event.messages] if event.messages[-1].role == "assistant" else [*event.messages, answer]


def _repeated(turns: Sequence[ChatMessage], said: Sequence[ChatMessage]) -> int:
    """Return how many first messages of an event repeat the last turns before it (Knuth, Morris, Pratt)."""
    fallbacks = [0]
    for message in said[1:]:
        fallbacks.append(_longer(fallbacks[-1], message, said, fallbacks))
    matched = 0
    for turn in turns[-len(said) :]:
        if matched == len(said):
            matched = fallbacks[-1]
        matched = _longer(matched, turn, said, fallbacks)
    return matched


def _longer(matched: int, message: ChatMessage, said: Sequence[ChatMessage], fallbacks: list[int]) -> int:
    while matched and said[matched] != message:
        matched = fallbacks[matched - 1]
    return matched + (said[matched] == message)
