from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.intake.joining.join import Join, JoinBounds, OpenGroup, StreamClock
from streams.intake.reading.otlp.reader import OtlpReader
from streams.intake.reading.otlp.span import Span

P = ("events", 0)
READER = OtlpReader(unit="trace", max_event_bytes=1)
BOUNDS = JoinBounds(grace=5, idle=60, longest=300, groups=3, size=1000)


def span(number: int, parent: int | None = 0) -> Span:
    parent_id = "" if parent is None else f"p{parent}"
    return Span("t", str(number), parent_id, tracestate="", name="", scope="", resource={}, attributes={})


ROOT = span(9, parent=None)


def add(join: Join[Any], key: str, parts: list[Any], *, size: int, now: float) -> OpenGroup[Any] | None:
    join.clock(P).read(now)
    return join.add(join.clock(P), key, parts, size=size)


def closed(join: Join[Span], now: float) -> list[tuple[str, Any, int]]:
    join.clock(P).read(now)
    return [(trace.key, trace.closed, len(trace.parts)) for trace in join.due()]


def test_a_trace_is_closed_a_grace_after_its_root() -> None:
    join = Join(BOUNDS, is_complete=READER.is_complete)
    add(join, "t", [span(1)], size=10, now=0)
    add(join, "t", [ROOT], size=10, now=2)
    assert closed(join, 6.9) == []
    add(join, "t", [span(2)], size=10, now=6.9)
    assert closed(join, 7) == [("t", "root", 3)]
    assert (len(join), join.size, join.wait, join.late) == (0, 0, None, 0)
    # A span after the close is late: a reopened trace would replace the complete event with a partial one.
    assert add(join, "t", [span(3)], size=10, now=8) is None
    assert (len(join), join.late) == (0, 1)


def test_a_trace_without_its_root_is_closed_when_nothing_comes() -> None:
    """Each record delays this, up to the longest age."""
    join = Join(BOUNDS, is_complete=READER.is_complete)
    for now in range(0, 300, 50):
        add(join, "t", [span(now)], size=10, now=now)
        assert closed(join, now) == []
    assert closed(join, 299) == []
    assert closed(join, 300) == [("t", "longest", 6)]
    add(join, "u", [span(1)], size=10, now=400)
    assert closed(join, 460) == [("u", "idle", 1)]


def test_the_oldest_traces_are_closed_above_the_limits() -> None:
    join = Join(BOUNDS, is_complete=READER.is_complete)
    for number, name in enumerate("abcd"):
        add(join, name, [span(number)], size=10, now=number)
    assert closed(join, 4) == [("a", "room", 1)]
    add(join, "e", [span(5)], size=985, now=5)  # 985 + 10 is at most 1,000, and 985 + 2 * 10 is not
    assert closed(join, 5) == [("b", "room", 1), ("c", "room", 1)]
    assert join.size == 995


def test_a_released_trace_restarts() -> None:
    join = Join(BOUNDS, is_complete=READER.is_complete)
    add(join, "t", [span(1)], size=10, now=0)
    join.release()
    assert (len(join), join.size, join.wait) == (0, 0, None)
    add(join, "t", [span(1), ROOT], size=10, now=1)
    assert closed(join, 6) == [("t", "root", 2)]


def test_recalled_spans_join_their_trace() -> None:
    join = Join(BOUNDS, is_complete=READER.is_complete)
    join.recall(join.clock(P), "t", [span(1), span(2)], size=10)
    join.recall(join.clock(P), "gone", [span(1)], size=10)
    add(join, "t", [ROOT], size=10, now=1)
    join.clock(P).read(300.5)
    join.forget_past()
    add(join, "gone", [ROOT], size=10, now=301)
    assert closed(join, 306) == [("t", "root", 3), ("gone", "root", 1)]


def test_what_is_recalled_is_bounded() -> None:
    """By the same bytes as open traces; the oldest are dropped first."""
    join = Join(BOUNDS, is_complete=READER.is_complete)
    for number in range(5):
        join.recall(join.clock(P), str(number), [span(1)], size=300)
    traces = [add(join, str(number), [ROOT], size=1, now=10) for number in range(5)]
    assert [len(trace.parts) for trace in traces if trace] == [1, 1, 2, 2, 2]  # 3 * 300 bytes fit into 1,000


STEPS = st.tuples(st.sampled_from("abcde"), st.booleans(), st.floats(0, 100), st.integers(1, 400))


@given(st.lists(STEPS, max_size=40))
def test_every_trace_is_closed_once_within_the_bounds(steps: list[tuple[str, bool, float, int]]) -> None:
    join = Join(BOUNDS, is_complete=READER.is_complete)
    now, opened, ended = 0.0, set(), []
    for name, is_root, wait, size in steps:
        now += wait
        if add(join, name, [ROOT if is_root else span(1)], size=size, now=now) is not None:
            opened.add(name)
        ended += [key for key, *_ in closed(join, now)]
        assert len(join) <= BOUNDS.groups
        assert join.size <= BOUNDS.size
    ended += [trace.key for trace in join.rest()]
    assert sorted(ended) == sorted(opened)
    assert (len(join), join.size) == (0, 0)


# The time of a partition

WIDE = JoinBounds(grace=2, idle=10, longest=60, groups=100, size=1_000)


def opened(timestamp: float | None, *, wall: float) -> tuple[Join[str], StreamClock]:
    join = Join[str](WIDE)
    clock = join.clock(P)
    clock.read(timestamp, wall=wall)
    join.add(clock, "t", ["a"], size=1)
    return join, clock


def keys(join: Join[str]) -> list[tuple[str, Any]]:
    return [(group.key, group.closed) for group in join.due()]


def look(clock: StreamClock, *polled: float | None) -> None:
    for one in polled:
        clock.look(one)


def test_a_backlog_that_takes_long_to_read_splits_no_group() -> None:
    """Two records of a group, 5 s apart, are read 300 s apart."""
    join, clock = opened(100, wall=1_000)
    look(clock, *[None] * 300)
    assert keys(join) == []
    clock.read(105, wall=1_300)
    group = join.add(clock, "t", ["b"], size=1)
    assert group is not None
    assert group.parts == ["a", "b"]


@pytest.mark.parametrize(
    ("timestamp", "wall", "closed"),
    [
        (111, 1_000, [("t", "idle")]),  # the idle time of 10 s is over, however fast the records were read
        (4_102_444_800, 101, []),  # the year 2100 does not advance the clock beyond the worker's time
    ],
)
def test_a_later_record_closes_an_idle_group(timestamp: float, wall: float, closed: list[Any]) -> None:
    join, clock = opened(100, wall=wall)
    clock.read(timestamp, wall=wall)
    assert keys(join) == closed


def test_each_partition_has_its_own_time() -> None:
    join, _ = opened(100, wall=1_000)
    other = join.clock(("events", 1))
    other.read(1_000, wall=1_000)
    look(other, *range(1_000, 1_100))
    join.add(other, "u", ["b"], size=1)
    assert keys(join) == []
    other.read(1_110, wall=1_110)
    assert keys(join) == [("u", "idle")]


def test_at_the_end_of_a_partition_the_time_between_responses_counts() -> None:
    """Nine seconds at the end, then 200 with unread records, then two at the end again."""
    join, clock = opened(100, wall=100)
    look(clock, *range(100, 111))  # the last response tells only of the time up to the one before
    assert keys(join) == []
    look(clock, *[None] * 200, 310, 311)
    assert keys(join) == []
    look(clock, 312)
    assert keys(join) == [("t", "idle")]


@given(st.floats(3.1, 1e6), st.integers(0, 8))
def test_a_gap_between_responses_is_no_quiet_time(gap: float, seconds: int) -> None:
    """Worker, broker or producers were stopped: the response after it may have been sent before."""
    join, clock = opened(100, wall=100)
    look(clock, *range(100, 101 + seconds), 100 + seconds + gap, 101 + seconds + gap)
    assert keys(join) == []
    assert clock.now == 100 + seconds


def test_a_clock_that_was_ahead_for_a_moment_stops_no_partition() -> None:
    """The clocks of worker and producers were 30 h ahead; the records after it still close groups."""
    join, clock = opened(100, wall=100)
    clock.read(108_100, wall=108_100)
    assert keys(join) == [("t", "longest")]
    clock.read(101, wall=101)
    join.add(clock, "u", ["b"], size=1)
    clock.read(110, wall=110)
    assert keys(join) == []
    clock.read(112, wall=112)
    assert keys(join) == [("u", "idle")]


def test_a_record_without_a_time_counts_only_at_the_end() -> None:
    join, clock = opened(None, wall=1_000)
    look(clock, *range(1_000, 1_011))
    assert keys(join) == []
    look(clock, 1_011)
    assert keys(join) == [("t", "idle")]
