"""Join parts from several records, within bounds: the spans of a trace, the events of a conversation.

Pure: the time is an argument. A group is closed when it is complete and the grace period is over (a trace's
root span has arrived; its children usually arrived before, because a span is exported at its end), else when
it is idle, else at its maximum age, else when the limits on open groups are exceeded, the oldest first. Parts
after the close are late: they are only counted.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, Generic, Literal, TypeVar

Why = Literal["root", "idle", "longest", "room"]
"""Why a group was closed: complete and grace period over, idle, maximum age, or limits exceeded."""
REMEMBERED: Final = 200_000
"""Closed groups that are remembered, to detect late parts."""
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """When groups are closed.

    Args:
        grace: Seconds after the group is complete.
        idle: Seconds after the last record, for an incomplete group.
        longest: Seconds after the first record.
        groups: Limit on open groups.
        size: Limit on the bytes of open groups' records.
    """

    grace: float
    idle: float
    longest: float
    groups: int
    size: int


@dataclass(slots=True, eq=False)
class Group(Generic[T]):
    """A group with its parts so far.

    Args:
        key: Id of the trace or conversation.
        opened: Time of its first record.
        last: Time of its last record.
        root: Time when it was complete; None before.
        size: Bytes of its records.
        parts: Its parts.
        closed: Why it was closed; None while it is open.
    """

    key: str
    opened: float
    last: float
    root: float | None = None
    size: int = 0
    parts: list[T] = field(default_factory=list)
    closed: Why | None = None


class Join(Generic[T]):
    """The open groups of one worker.

    Args:
        bounds: When they are closed.
        is_complete: Whether the parts so far complete a group; None if that is never known.
    """

    def __init__(self, bounds: Bounds, *, is_complete: Callable[[Sequence[T]], bool] | None = None) -> None:
        self.late = 0
        """Number of records of groups that were already closed."""
        self._bounds = bounds
        self._is_complete = is_complete
        self._open: OrderedDict[str, Group[T]] = OrderedDict()
        self._due: list[tuple[float, str]] = []
        self._closed: OrderedDict[str, None] = OrderedDict()
        self._size = 0
        self._past: OrderedDict[str, tuple[float, int, list[T]]] = OrderedDict()
        self._past_size = 0

    def __len__(self) -> int:
        return len(self._open)

    @property
    def size(self) -> int:
        """Bytes of open groups' records."""
        return self._size

    def add(self, key: str, parts: Sequence[T], *, size: int, now: float) -> Group[T] | None:
        """Add a record's parts of a group.

        Args:
            key: Id of the trace or conversation.
            parts: The parts.
            size: Bytes of the record.
            now: The time in seconds.

        Returns:
            The open group; None if it is already closed.
        """
        group = self._open.get(key)
        if group is None:
            if key in self._closed:
                self.late += 1
                return None
            group = self._open[key] = Group(key, opened=now, last=now)
            self._take_past(group)
        group.last = now
        group.size += size
        self._size += size
        group.parts += parts
        if group.root is None and self._is_complete is not None and self._is_complete(group.parts):
            group.root = now
        heapq.heappush(self._due, (self._due_at(group), key))
        return group

    def _due_at(self, group: Group[T]) -> float:
        bounds = self._bounds
        wait = group.last + bounds.idle if group.root is None else group.root + bounds.grace
        return min(wait, group.opened + bounds.longest)

    @property
    def next_due(self) -> float | None:
        """When to check for groups to close; None without any."""
        return self._due[0][0] if self._due else None

    def due(self, now: float) -> list[Group[T]]:
        """Close and return the groups that are due, and the oldest ones beyond the limits."""
        closed = []
        while self._due and self._due[0][0] <= now:
            _, key = heapq.heappop(self._due)
            group = self._open.get(key)
            if group is not None and self._due_at(group) <= now:
                closed.append(self._close(group, self._why(group, now)))
        while self._open and (len(self._open) > self._bounds.groups or self._size > self._bounds.size):
            closed.append(self._close(next(iter(self._open.values())), "room"))
        while self._due and self._due[0][1] not in self._open:
            heapq.heappop(self._due)  # an outdated entry
        return closed

    def _why(self, group: Group[T], now: float) -> Why:
        if group.root is not None and group.root + self._bounds.grace <= now:
            return "root"
        return "longest" if group.opened + self._bounds.longest <= now else "idle"

    def _close(self, group: Group[T], why: Why) -> Group[T]:
        self._remove(group)
        group.closed = why
        self._closed[group.key] = None
        while len(self._closed) > REMEMBERED:
            self._closed.popitem(last=False)
        return group

    def _remove(self, group: Group[T]) -> None:
        del self._open[group.key]
        self._size -= group.size

    def abandon(self, group: Group[T]) -> None:
        """Remove an open group: its records will be read again, here or elsewhere."""
        if self._open.get(group.key) is group:
            self._remove(group)

    # Parts before the first offset that is read

    def recall(self, key: str, parts: Sequence[T], *, size: int, now: float) -> None:
        """Keep parts of a group from an earlier record, in case a later record of the group arrives.

        After a restart only the records from the committed offset on are redelivered. If a group spans that
        offset, its end alone would become an incomplete event with the same id.
        """
        _, known, gathered = self._past.pop(key, (now, 0, []))
        gathered += parts
        self._past[key] = (now, known + size, gathered)
        self._past_size += size
        while self._past_size > self._bounds.size:
            _, (_, gone, _) = self._past.popitem(last=False)
            self._past_size -= gone

    def forget_past(self, before: float) -> None:
        """Drop parts that were recalled before a time: their groups get no more records."""
        while self._past:
            key, (at, size, _) = next(iter(self._past.items()))
            if at >= before:
                return
            del self._past[key]
            self._past_size -= size

    def _take_past(self, group: Group[T]) -> None:
        known = self._past.pop(group.key, None)
        if known is not None:
            _, size, parts = known
            self._past_size -= size
            group.parts += parts
