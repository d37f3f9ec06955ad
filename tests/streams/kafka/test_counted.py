"""A result counts once, however often it is written."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from streams.kafka.counted import CountedResults


@given(st.lists(st.integers(0, 30)))
def test_of_few_results_each_counts_once(numbers: list[int]) -> None:
    """As a set would have it, as long as they are not more than are remembered."""
    counted, seen = CountedResults(remembered=31), set[int]()
    for number in numbers:
        assert counted.add(f"r{number}") == (number not in seen)
        seen.add(number)


def test_memory_is_bounded_and_the_latest_are_known() -> None:
    """Of 1,000 results at 10 a generation the last 10 are known, and at most 20 are kept."""
    counted = CountedResults(remembered=10)
    assert all(counted.add(f"r{number}") for number in range(1_000))
    assert len(counted._young) + len(counted._old) <= 20
    assert not any(counted.add(f"r{number}") for number in range(990, 1_000))
