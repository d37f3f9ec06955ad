"""Joins the spans of a trace that come in several records, within bounds. Pure: the time is an argument.

A trace is closed when its root span came and the grace is over (its children mostly came before it: a span is
exported when it ends), else when nothing came for a while, else at a longest age, else when there is no more
room, the oldest first. What comes after the close is late: it changes nothing any more, and is counted.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from streams.intake.reading.otlp.span import Span

Why = Literal["root", "idle", "longest", "room"]
"""Why a trace was closed: root and grace, idle, at its longest age, or for want of room."""
REMEMBERED_TRACES: Final = 200_000
"""Closed traces whose late spans are known for what they are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """When traces are closed.

    Args:
        grace: Seconds after the root came.
        idle: Seconds after the last record, for a trace without its root.
        longest: Seconds after the first record.
        traces: Open traces at most.
        size: Bytes of the records of open traces at most.
    """

    grace: float
    idle: float
    longest: float
    traces: int
    size: int


@dataclass(slots=True, eq=False)
class OpenTrace:
    """A trace whose spans are being gathered.

    Args:
        trace_id: The trace.
        opened: When its first record came.
        last: When its last one came.
        root: When its root came; None before.
        size: Bytes of its records.
        spans: Its spans so far.
        closed: Why it was closed; None while it is open.
    """

    trace_id: str
    opened: float
    last: float
    root: float | None = None
    size: int = 0
    spans: list[Span] = field(default_factory=list)
    closed: Why | None = None


class TraceJoin:
    """The open traces of one worker.

    Args:
        bounds: When they are closed.
    """

    def __init__(self, bounds: Bounds) -> None:
        self.late = 0
        """Records of traces that were closed already."""
        self._bounds = bounds
        self._open: OrderedDict[str, OpenTrace] = OrderedDict()
        self._due: list[tuple[float, str]] = []
        self._closed: OrderedDict[str, None] = OrderedDict()
        self._size = 0
        self._past: OrderedDict[str, tuple[float, int, list[Span]]] = OrderedDict()
        self._past_size = 0

    def __len__(self) -> int:
        return len(self._open)

    @property
    def size(self) -> int:
        """Bytes of the records of open traces."""
        return self._size

    def add(self, trace_id: str, spans: Sequence[Span], *, size: int, now: float) -> OpenTrace | None:
        """Add what a record holds of a trace.

        Args:
            trace_id: The trace.
            spans: Its spans in the record.
            size: Bytes of the record.
            now: The time in seconds.

        Returns:
            The open trace; None where it was closed before and this comes late.
        """
        trace = self._open.get(trace_id)
        if trace is None:
            if trace_id in self._closed:
                self.late += 1
                return None
            trace = self._open[trace_id] = OpenTrace(trace_id, opened=now, last=now)
            self._take_past(trace)
        trace.last = now
        trace.size += size
        self._size += size
        trace.spans += spans
        if trace.root is None and any(not span.parent_id and not span.is_log for span in trace.spans):
            trace.root = now
        heapq.heappush(self._due, (self._due_at(trace), trace_id))
        return trace

    def _due_at(self, trace: OpenTrace) -> float:
        bounds = self._bounds
        wait = trace.last + bounds.idle if trace.root is None else trace.root + bounds.grace
        return min(wait, trace.opened + bounds.longest)

    @property
    def next_due(self) -> float | None:
        """When to look for traces to close; None without any."""
        return self._due[0][0] if self._due else None

    def due(self, now: float) -> list[OpenTrace]:
        """Close and give the traces whose time has come, and the oldest where there is no more room."""
        closed = []
        while self._due and self._due[0][0] <= now:
            _, trace_id = heapq.heappop(self._due)
            trace = self._open.get(trace_id)
            if trace is not None and self._due_at(trace) <= now:
                closed.append(self._close(trace, self._why(trace, now)))
        while self._open and (len(self._open) > self._bounds.traces or self._size > self._bounds.size):
            closed.append(self._close(next(iter(self._open.values())), "room"))
        while self._due and self._due[0][1] not in self._open:
            heapq.heappop(self._due)  # of a record that another put off
        return closed

    def _why(self, trace: OpenTrace, now: float) -> Why:
        if trace.root is not None and trace.root + self._bounds.grace <= now:
            return "root"
        return "longest" if trace.opened + self._bounds.longest <= now else "idle"

    def _close(self, trace: OpenTrace, why: Why) -> OpenTrace:
        self._remove(trace)
        trace.closed = why
        self._closed[trace.trace_id] = None
        while len(self._closed) > REMEMBERED_TRACES:
            self._closed.popitem(last=False)
        return trace

    def _remove(self, trace: OpenTrace) -> None:
        del self._open[trace.trace_id]
        self._size -= trace.size

    def abandon(self, trace: OpenTrace) -> None:
        """Forget an open trace: its records will be read again, here or elsewhere, and it begins anew."""
        if self._open.get(trace.trace_id) is trace:
            self._remove(trace)

    # What lies before the offset from which on records are read

    def recall(self, trace_id: str, spans: Sequence[Span], *, size: int, now: float) -> None:
        """Keep what an earlier record holds of a trace, in case a later record of it comes.

        After a restart the records from the committed offset on are read again, and those before are not.
        Where a trace straddles that offset, its end alone would become a poorer event under the same id.
        """
        _, known, gathered = self._past.pop(trace_id, (now, 0, []))
        self._past[trace_id] = (now, known + size, [*gathered, *spans])
        self._past_size += size
        while self._past_size > self._bounds.size:
            _, (_, gone, _) = self._past.popitem(last=False)
            self._past_size -= gone

    def forget_past(self, before: float) -> None:
        """Let go of what was recalled before a time: nothing more comes of those traces."""
        while self._past:
            trace_id, (at, size, _) = next(iter(self._past.items()))
            if at >= before:
                return
            del self._past[trace_id]
            self._past_size -= size

    def _take_past(self, trace: OpenTrace) -> None:
        known = self._past.pop(trace.trace_id, None)
        if known is not None:
            _, size, spans = known
            self._past_size -= size
            trace.spans += spans
