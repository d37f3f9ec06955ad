"""Agreement of two raters beyond chance."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.monitoring.statistics.agreement import kappa, kappa_interval


def test_kappa_is_the_agreement_beyond_chance() -> None:
    """Cohen's example: 20 + 15 of 50 alike, 0.5 by chance: (0.7 - 0.5) / 0.5 = 0.4.

    Numbers 1, 2, 3 against 2, 2, 3: the mean squared difference is 1/3. Expected: the means of squares are
    14/3 and 17/3, less twice 2 * 7/3: 1. So 1 - 1/3.
    """
    names = [("y", "y")] * 20 + [("y", "n")] * 5 + [("n", "y")] * 10 + [("n", "n")] * 15
    assert kappa(names) == pytest.approx(0.4)
    assert kappa([(1, 2), (2, 2), (3, 3)]) == pytest.approx(2 / 3)
    assert kappa([("y", "y"), ("y", "y")]) is None
    assert kappa([]) is None


@given(st.lists(st.tuples(st.integers(1, 5), st.integers(1, 5)), min_size=2, max_size=60))
def test_the_interval_is_within_its_bounds(pairs: list[tuple[int, int]]) -> None:
    """The interval is within -1 and 1, and there is one exactly if there is a kappa."""
    found = kappa_interval(pairs)
    assert (found is None) == (kappa(pairs) is None)
    if found is not None:
        assert -1 <= found[0] <= found[1] <= 1


@pytest.mark.parametrize("wrong", [0.1, 0.4])
@pytest.mark.parametrize("values", ["abc", (0, 1, 2, 3, 4, 5)])
def test_the_interval_holds_the_true_kappa(values: tuple[int | str, ...], wrong: float) -> None:
    """In at least 90% of 400 samples of 50, the interval holds 1 - wrong.

    A rater who says the truth, and at the rate `wrong` any value at random: kappa is 1 - wrong.
    """
    source = random.Random(7)

    def pair() -> tuple[int | str, int | str]:
        truth = source.choice(values)
        return truth, source.choice(values) if source.random() < wrong else truth

    samples = [kappa_interval([pair() for _ in range(50)]) for _ in range(400)]
    held = sum(ends is not None and ends[0] <= 1 - wrong <= ends[1] for ends in samples)
    assert held >= 360


def test_equal_choices_leave_room_for_doubt() -> None:
    """Ten equal choices do not prove a kappa of 1: the interval reaches below 0.9."""
    found = kappa_interval([(1, 1), (5, 5)] * 5)
    assert found is not None
    assert found[0] < 0.9
    assert found[1] == 1.0
