"""The offset at which a partition resumes after OffsetOutOfRange."""

from __future__ import annotations

import io
import json

import pytest
from aiokafka import TopicPartition
from aiokafka.errors import KafkaError
from hypothesis import given
from hypothesis import strategies as st

from streams.kafka.offsets import CHECKS, Bounds, confirmed_bounds, decide, first_offsets
from streams.settings.outputs import TelemetrySettings
from streams.telemetry.logs import set_up_logs


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
