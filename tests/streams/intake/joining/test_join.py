"""`Join`: when a trace is closed, and the parts that it keeps."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from streams.intake.joining.join import Bounds, Join
from streams.intake.reading.otlp.span import Span, has_root

BOUNDS = Bounds(grace=5, idle=60, longest=300, groups=3, size=1000)


def span(number: int, parent: int | None = 0) -> Span:
    parent_id = "" if parent is None else f"p{parent}"
    return Span("t", str(number), parent_id, tracestate="", name="", scope="", resource={}, attributes={})


ROOT = span(9, parent=None)


def closed(join: Join[Span], now: float) -> list[tuple[str, Any, int]]:
    return [(trace.key, trace.closed, len(trace.parts)) for trace in join.due(now)]


def test_a_trace_is_closed_a_grace_after_its_root() -> None:
    """A trace is closed one grace after its root arrived, with the spans that arrived meanwhile."""
    join = Join(BOUNDS, is_complete=has_root)
    join.add("t", [span(1)], size=10, now=0)
    join.add("t", [ROOT], size=10, now=2)
    assert closed(join, 6.9) == []
    join.add("t", [span(2)], size=10, now=6.9)
    assert closed(join, 7) == [("t", "root", 3)]
    assert (len(join), join.size, join.next_due) == (0, 0, None)


def test_a_trace_without_its_root_is_closed_when_nothing_comes() -> None:
    """A trace without a root is closed when idle; each record delays this, up to the longest age."""
    join = Join(BOUNDS, is_complete=has_root)
    for now in range(0, 300, 50):
        join.add("t", [span(now)], size=10, now=now)
        assert closed(join, now) == []
    assert closed(join, 299) == []
    assert closed(join, 300) == [("t", "longest", 6)]
    join.add("u", [span(1)], size=10, now=400)
    assert closed(join, 460) == [("u", "idle", 1)]


def test_the_oldest_traces_are_closed_above_the_limits() -> None:
    """The oldest traces are closed above 3 traces or 1,000 bytes."""
    join = Join(BOUNDS, is_complete=has_root)
    for number, name in enumerate("abcd"):
        join.add(name, [span(number)], size=10, now=number)
    assert closed(join, 4) == [("a", "room", 1)]
    join.add("e", [span(5)], size=985, now=5)  # 985 + 10 is at most 1,000, and 985 + 2 * 10 is not
    assert closed(join, 5) == [("b", "room", 1), ("c", "room", 1)]
    assert join.size == 995


def test_a_span_after_the_close_is_late() -> None:
    """A span after the close is late and does not reopen the trace.

    A reopened trace would replace the complete event with a partial one.
    """
    join = Join(BOUNDS, is_complete=has_root)
    join.add("t", [ROOT], size=10, now=0)
    assert closed(join, 5) == [("t", "root", 1)]
    assert join.add("t", [span(1)], size=10, now=6) is None
    assert (len(join), join.late) == (0, 1)


def test_an_abandoned_trace_restarts() -> None:
    """An abandoned trace restarts when its records are read again after a rebalance."""
    join = Join(BOUNDS, is_complete=has_root)
    trace = join.add("t", [span(1)], size=10, now=0)
    assert trace is not None
    join.abandon(trace)
    assert (len(join), join.size) == (0, 0)
    again = join.add("t", [span(1), ROOT], size=10, now=1)
    assert again is not None
    assert again is not trace
    assert closed(join, 6) == [("t", "root", 2)]


def test_recalled_spans_join_their_trace() -> None:
    """Recalled spans before the committed offset join a trace that is read again."""
    join = Join(BOUNDS, is_complete=has_root)
    join.recall("t", [span(1), span(2)], size=10, now=0)
    join.recall("gone", [span(1)], size=10, now=0)
    join.add("t", [ROOT], size=10, now=1)
    join.forget_past(0.5)
    join.add("gone", [ROOT], size=10, now=2)
    assert closed(join, 7) == [("t", "root", 3), ("gone", "root", 1)]


def test_what_is_recalled_is_bounded() -> None:
    """Recalled spans are limited to the same bytes as open traces; the oldest are dropped first."""
    join = Join(BOUNDS, is_complete=has_root)
    for number in range(5):
        join.recall(str(number), [span(1)], size=300, now=number)
    for number in range(5):
        trace = join.add(str(number), [ROOT], size=1, now=10)
        assert trace is not None
        assert len(trace.parts) == (2 if number >= 2 else 1)  # 3 * 300 bytes fit into 1,000
        join.abandon(trace)


@given(
    st.lists(
        st.tuples(st.sampled_from("abcde"), st.booleans(), st.floats(0, 100), st.integers(1, 400)),
        max_size=40,
    )
)
def test_every_trace_is_closed_once_within_the_bounds(steps: list[tuple[str, bool, float, int]]) -> None:
    """Each trace is closed exactly once, and open traces stay within the bounds, in any order of records."""
    join = Join(BOUNDS, is_complete=has_root)
    now, opened, ended = 0.0, set(), []
    for name, is_root, wait, size in steps:
        now += wait
        if join.add(name, [ROOT if is_root else span(1)], size=size, now=now) is not None:
            opened.add(name)
        ended += [trace.key for trace in join.due(now)]
        assert len(join) <= BOUNDS.groups
        assert join.size <= BOUNDS.size
    ended += [trace.key for trace in join.due(now + BOUNDS.longest)]
    assert sorted(ended) == sorted(opened)
    assert (len(join), join.size) == (0, 0)
