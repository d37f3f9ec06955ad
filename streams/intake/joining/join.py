"""Joins what comes in several records, within bounds: the parts of a trace, the events of a conversation.

Pure: the time is an argument. A group is closed when it is complete and the grace is over (a trace's root
span came; its children mostly came before it, for a span is exported when it ends), else when nothing came
for a while, else at a longest age, else when there is no more room, the oldest first. What comes after the
close is late: it changes nothing any longer, and is counted.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, Generic, Literal, TypeVar

Why = Literal["root", "idle", "longest", "room"]
"""Why a group was closed: complete and grace, idle, at its longest age, or for want of room."""
REMEMBERED: Final = 200_000
"""Closed groups whose late parts are known for what they are."""
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """When groups are closed.

    Args:
        grace: Seconds after the group was complete.
        idle: Seconds after the last record, for a group that is not complete.
        longest: Seconds after the first record.
        groups: Open groups at most.
        size: Bytes of the records of open groups at most.
    """

    grace: float
    idle: float
    longest: float
    groups: int
    size: int


@dataclass(slots=True, eq=False)
class Group(Generic[T]):
    """What is being gathered under one key.

    Args:
        key: The trace's id, or the conversation's.
        opened: When its first record came.
        last: When its last one came.
        root: When it was complete; None before.
        size: Bytes of its records.
        parts: What came so far.
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
        is_complete: Whether what came is all that is waited for; None: that is never known.
    """

    def __init__(self, bounds: Bounds, *, is_complete: Callable[[Sequence[T]], bool] | None = None) -> None:
        self.late = 0
        """Records of groups that were closed already."""
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
        """Bytes of the records of open groups."""
        return self._size

    def add(self, key: str, parts: Sequence[T], *, size: int, now: float) -> Group[T] | None:
        """Add what a record holds of a group.

        Args:
            key: The trace's or the conversation's id.
            parts: What the record holds of it.
            size: Bytes of the record.
            now: The time in seconds.

        Returns:
            The open group; None where it was closed before and this comes late.
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
        """When to look for groups to close; None without any."""
        return self._due[0][0] if self._due else None

    def due(self, now: float) -> list[Group[T]]:
        """Close and give the groups whose time has come, and the oldest where there is no more room."""
        closed = []
        while self._due and self._due[0][0] <= now:
            _, key = heapq.heappop(self._due)
            group = self._open.get(key)
            if group is not None and self._due_at(group) <= now:
                closed.append(self._close(group, self._why(group, now)))
        while self._open and (len(self._open) > self._bounds.groups or self._size > self._bounds.size):
            closed.append(self._close(next(iter(self._open.values())), "room"))
        while self._due and self._due[0][1] not in self._open:
            heapq.heappop(self._due)  # of a record that another put off
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
        """Forget an open group: its records will be read again, here or elsewhere, and it restarts."""
        if self._open.get(group.key) is group:
            self._remove(group)

    # What lies before the offset from which on records are read

    def recall(self, key: str, parts: Sequence[T], *, size: int, now: float) -> None:
        """Keep what an earlier record holds of a group, in case a later record of it comes.

        After a restart the records from the committed offset on are read again, and those before are not.
        Where a group straddles that offset, its end alone would become a poorer event under the same id.
        """
        _, known, gathered = self._past.pop(key, (now, 0, []))
        gathered += parts
        self._past[key] = (now, known + size, gathered)
        self._past_size += size
        while self._past_size > self._bounds.size:
            _, (_, gone, _) = self._past.popitem(last=False)
            self._past_size -= gone

    def forget_past(self, before: float) -> None:
        """Let go of what was recalled before a time: nothing more comes of those groups."""
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
