"""The positions of a consumer's partitions, where one resumes after OffsetOutOfRange, and its thread."""

from __future__ import annotations

import io
import json
import threading
from typing import Any

import pytest
from aiokafka import TopicPartition
from aiokafka.errors import KafkaError
from hypothesis import given
from hypothesis import strategies as st

from streams.kafka import consumer_thread
from streams.kafka.delivery import OffsetBook
from streams.kafka.offsets import CHECKS, Bounds, confirmed_bounds, decide, first_offsets
from streams.settings.outputs import TelemetrySettings
from streams.telemetry.logs import set_up_logs


def test_passed_over_records_move_the_position_but_not_past_the_head() -> None:
    """With 10 unfinished and all up to 500 skipped, 10 is committable."""
    book = OffsetBook(10)
    book.deliver(10, timestamp=1.5)
    book.advance(500)
    assert (book.committable, book.position, book.oldest_timestamp) == (10, 500, 1.5)
    book.finish(10)
    assert (book.committable, book.unfinished, book.oldest_timestamp) == (500, 0, None)


def test_reading_backwards_needs_a_new_book() -> None:
    """An offset below the position is refused."""
    book = OffsetBook(5)
    with pytest.raises(ValueError, match="at least the position 5, got 4"):
        book.deliver(4)


@given(st.data())
def test_agrees_with_the_obvious_model(data: st.DataObject) -> None:
    """The committable offset is the lowest unfinished one, or the position."""
    position = data.draw(st.integers(0, 9))
    book = OffsetBook(position)
    unfinished: list[int] = []
    for _ in range(data.draw(st.integers(0, 60))):
        action = data.draw(st.sampled_from(["deliver", "advance", "finish", "finish_any"]))
        if action == "deliver":
            offset = position + data.draw(st.integers(0, 3))
            book.deliver(offset)
            unfinished.append(offset)
            position = offset + 1
        elif action == "advance":
            target = data.draw(st.integers(0, 200))
            book.advance(target)
            position = max(position, target)
        elif action == "finish" and unfinished:
            offset = data.draw(st.sampled_from(unfinished))
            unfinished.remove(offset)
            assert book.finish(offset)
        else:
            offset = data.draw(st.integers(0, 200))
            known = offset in unfinished
            assert book.finish(offset) is known
            if known:
                unfinished.remove(offset)
        assert book.position == position
        assert book.unfinished == len(unfinished)
        assert book.committable == (min(unfinished) if unfinished else position)


@pytest.mark.parametrize(
    ("offset", "bounds", "expected"),
    [
        (1184, Bounds(0, 2000, 1100), 1184),  # in range
        (2000, Bounds(0, 2000, 1100), 2000),  # the end of the log is in range
        (100, Bounds(1638, 1800, 100), 1638),  # retention
        (1184, Bounds(0, 1150, 1100), 1100),  # shorter; the committed offset exists
        (1184, Bounds(0, 20, 1100), 0),  # recreated
        (1184, Bounds(5, 20), 5),
    ],
)
def test_where_it_goes_on(offset: int, bounds: Bounds, expected: int) -> None:
    """An offset in range stays; one before the log moves to its start.

    One behind the log moves to the committed offset, or to the start.
    """
    assert decide(offset, bounds) == expected


@given(st.integers(0, 50), st.integers(0, 50), st.integers(0, 50), st.one_of(st.none(), st.integers(0, 50)))
def test_where_it_goes_on_is_in_the_log(offset: int, begin: int, length: int, committed: int | None) -> None:
    """The resumed offset is always within the log."""
    bounds = Bounds(begin, begin + length, committed)
    assert decide(offset, bounds) in bounds


SHORT, STALE = Bounds(0, 20), Bounds(0, 1000)


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        ([STALE, STALE, Bounds(0, 2000)], Bounds(0, 2000)),  # in range once
        ([SHORT, SHORT, KafkaError(), *[SHORT] * CHECKS], SHORT),  # an error resets the count
    ],
)
async def test_an_offset_is_out_of_range_after_equal_answers(
    answers: list[Bounds | KafkaError], expected: Bounds
) -> None:
    async def ask() -> Bounds:
        answer = answers.pop(0)
        if isinstance(answer, KafkaError):
            raise answer
        return answer

    async def at_once(_: float) -> None:
        """Do not wait."""

    assert await confirmed_bounds(1184, ask, sleep=at_once) == expected
    assert answers == []


class _Group:
    """A group without committed offsets on a topic whose partition 0 ends at 7 and 1 at 9."""

    def partitions_for_topic(self, _: str) -> set[int]:
        return {0, 1}

    async def committed(self, _: TopicPartition) -> None:
        return None

    async def end_offsets(self, places: list[TopicPartition]) -> dict[TopicPartition, int]:
        return {place: 7 + 2 * place.partition for place in places}

    async def beginning_offsets(self, places: list[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(places, 0)


async def test_the_log_has_the_start_offsets_of_a_new_group() -> None:
    """At the default level the log has one line per configured topic with the setting and the offsets."""
    stream = io.StringIO()
    set_up_logs(TelemetrySettings(), stream)
    places = [TopicPartition(*place) for place in (("qa.events", 1), ("qa.events", 0), ("x", 0))]
    assert set((await first_offsets(_Group(), places, {"qa.events": "latest"})).values()) == {0, 7, 9}
    (line,) = stream.getvalue().splitlines()
    told = json.loads(line)
    assert told["event"] == "the group has no offsets on this topic and starts at kafka.start"
    assert (told["topic"], told["start"], told["offsets"]) == ("qa.events", "latest", {"0": 7, "1": 9})


class _Hanging:
    def __init__(self) -> None:
        self.go_on = threading.Event()

    def _start_thread(self) -> None:
        self.go_on.wait()


def test_a_hanging_thread_does_not_block_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumer_thread, "THREAD_END_SECONDS", 0.01)
    service: Any = _Hanging()
    thread = consumer_thread.ConsumerThread.Worker(service)
    thread.start()
    try:
        thread.stop()
        assert thread.is_alive()
        assert thread.daemon
    finally:
        service.go_on.set()
        thread.join()
