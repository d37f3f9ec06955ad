from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.monitoring.statistics.changepoints import samples_since_shift
from tests.streams.randomness import seeded


@pytest.mark.parametrize(
    ("oldest_first", "expected"),
    [
        pytest.param([5, 5, 5, 2, 2], 2, id="a clean step"),
        # Since the 2: (2.5 + 0.5 + 2.5)² / 3 = 10.1; the last alone: 6.25; with the 5 before: (5.5 - 0.5)² /
        # 4 = 6.25.
        pytest.param([5, 5, 2, 4, 2], 3, id="a better one within"),
        pytest.param([5, 5, 5], 0, id="nothing fell"),
        pytest.param([2, 2, 2], 3, id="all of it"),
        pytest.param([], 0, id="no samples"),
    ],
)
def test_by_hand(oldest_first: list[int], expected: int) -> None:
    """The normal mean is 4.5."""
    pairs = [(float(x), 1.0) for x in reversed(oldest_first)]
    assert samples_since_shift(pairs, normal_mean=4.5) == expected


def test_weights_count() -> None:
    """A 5 with weight 10 outweighs a 2 with weight 1."""
    # Latest first: the 2 alone is 2.5² / 1; with the heavy 5 the sum is 2.5 - 10 * 0.5 < 0.
    assert samples_since_shift([(2, 1), (5, 10), (2, 1)], normal_mean=4.5) == 1
    # Unweighted, the run of all three has (2.5 - 0.5 + 2.5)² / 3 = 6.75, more than 6.25.
    assert samples_since_shift([(2, 1), (5, 1), (2, 1)], normal_mean=4.5) == 3


@given(st.lists(st.tuples(st.integers(1, 5), st.floats(1, 100))), st.floats(1, 5), st.floats(0.1, 10))
def test_the_scale_of_the_weights_does_not_matter(
    samples: list[tuple[int, float]], normal_mean: float, power: float
) -> None:
    """The result is at most the number of samples, and a common factor of the weights changes nothing.

    The factor is a power of two, so that it is exact.
    """
    factor = 2.0 ** round(power)
    since = samples_since_shift(samples, normal_mean=normal_mean)
    assert 0 <= since <= len(samples)
    assert since == samples_since_shift([(x, w * factor) for x, w in samples], normal_mean=normal_mean)


def test_close_to_the_truth() -> None:
    """Of 200 falls by 1.5 points, 40 samples ago, nine in ten are located within 6 samples."""
    off = []
    for seed in range(200):
        random = seeded(seed)
        scores = [*random.choices([5, 4, 3], [75, 20, 5], k=200), *random.choices([5, 4, 3, 2, 1], k=40)]
        off.append(abs(samples_since_shift([(x, 1.0) for x in reversed(scores)], normal_mean=4.7) - 40))
    assert sorted(off)[180] <= 6
