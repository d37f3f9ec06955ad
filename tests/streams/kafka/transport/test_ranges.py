"""The offset at which a partition resumes after OffsetOutOfRange."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from aiokafka import TopicPartition
from aiokafka.errors import KafkaError
from hypothesis import given
from hypothesis import strategies as st

from streams.kafka.transport.ranges import CHECKS, Bounds, Move, confirmed_bounds, decide

TP = TopicPartition("t", 0)


@pytest.mark.parametrize(
    ("offset", "bounds", "committed", "expected"),
    [
        (1184, Bounds(0, 2000), 1100, None),  # in range
        (2000, Bounds(0, 2000), 1100, None),  # the end of the log is in range
        (100, Bounds(1638, 1800), 100, 1638),  # retention
        (1184, Bounds(0, 1150), 1100, 1100),  # shorter; the committed offset exists
        (1184, Bounds(0, 20), 1100, 0),  # recreated
        (1184, Bounds(5, 20), None, 5),
    ],
)
def test_where_it_goes_on(offset: int, bounds: Bounds, committed: int | None, expected: int | None) -> None:
    """An offset in range stays; one before the log moves to its start.

    One behind the log moves to the committed offset, or to the start.
    """
    assert decide(offset, bounds, committed) == expected


@given(st.integers(0, 50), st.integers(0, 50), st.integers(0, 50), st.one_of(st.none(), st.integers(0, 50)))
def test_where_it_goes_on_is_in_the_log(offset: int, begin: int, length: int, committed: int | None) -> None:
    """The resumed offset is always within the log."""
    bounds = Bounds(begin, begin + length)
    after = decide(offset, bounds, committed)
    assert bounds.begin <= (offset if after is None else after) <= bounds.end


def test_only_a_move_forward_loses_offsets() -> None:
    """Moving from 100 to 1638 loses 1538 offsets; moving back loses none."""
    assert Move("t", 0, 100, 1638, "retention").lost == 1538
    assert Move("t", 0, 1184, 0, "shorter").lost == 0


class _Leader:
    """Answers from a list."""

    def __init__(self, *answers: Bounds | KafkaError) -> None:
        self._answers: Iterator[Bounds | KafkaError] = iter(answers)
        self.asked = 0

    async def __call__(self, _: TopicPartition) -> Bounds:
        self.asked += 1
        answer = next(self._answers)
        if isinstance(answer, KafkaError):
            raise answer
        return answer


async def _at_once(_: float) -> None:
    """Do not wait."""


async def test_a_stale_answer_is_detected() -> None:
    """Two stale answers followed by one in range give the latter."""
    leader = _Leader(Bounds(0, 1000), Bounds(0, 1000), Bounds(0, 2000))
    assert await confirmed_bounds(TP, 1184, leader, sleep=_at_once) == Bounds(0, 2000)


async def test_an_offset_is_out_of_range_after_equal_answers() -> None:
    """An offset is out of range after CHECKS equal answers in a row; an error resets the count."""
    short = Bounds(0, 20)
    leader = _Leader(short, short, KafkaError(), *[short] * CHECKS)
    assert await confirmed_bounds(TP, 1184, leader, sleep=_at_once) == short
    assert leader.asked == 3 + CHECKS
