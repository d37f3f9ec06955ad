from __future__ import annotations

from dataclasses import astuple
from math import sqrt
from statistics import fmean, stdev

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.monitoring.statistics.estimators import WeightedSums, student_quantile

SAMPLES = st.lists(
    st.tuples(st.integers(0, 5), st.sampled_from([1.0, 0.5, 0.2, 0.05])), min_size=0, max_size=40
)


def close(one: WeightedSums, other: WeightedSums) -> bool:
    """Tell whether the sums are equal up to rounding."""
    return astuple(one) == pytest.approx(astuple(other), rel=1e-9, abs=1e-6)


def test_sums_by_hand() -> None:
    sums = WeightedSums.of([(5, 1.0), (2, 0.25)])
    # w = 1 and 4: sum w = 5, wx = 5 + 8, wx² = 25 + 16, w² = 1 + 16, w²x = 5 + 32, w²x² = 25 + 64.
    assert sums == WeightedSums.from_numbers([2, 5, 13, 41, 17, 37, 89])
    assert sums.mean == pytest.approx(13 / 5)
    assert sums.effective_count == pytest.approx(25 / 17)
    # Residuals: 1² (5 - 2.6)² + 4² (2 - 2.6)² = 5.76 + 5.76; n/(n-1) = (25/17) / (8/17) = 25/8.
    assert sums.standard_error == pytest.approx(sqrt(11.52 * 25 / 8) / 5)


@given(st.lists(st.integers(1, 5), min_size=2, max_size=60), st.sampled_from([1.0, 0.3, 0.01]))
def test_equal_weights_give_the_textbook_numbers(scores: list[int], probability: float) -> None:
    sums = WeightedSums.of((score, probability) for score in scores)
    assert sums.mean == pytest.approx(fmean(scores))
    assert sums.standard_error == pytest.approx(stdev(scores) / sqrt(len(scores)), abs=1e-6)
    assert sums.effective_count == pytest.approx(len(scores))


@given(SAMPLES, SAMPLES, SAMPLES)
def test_merging_is_associative_and_order_does_not_matter(
    a: list[tuple[int, float]], b: list[tuple[int, float]], c: list[tuple[int, float]]
) -> None:
    one, two, three = WeightedSums.of(a), WeightedSums.of(b), WeightedSums.of(c)
    merged = WeightedSums.merged
    assert close(merged([merged([one, two]), three]), merged([one, merged([two, three])]))
    assert close(merged([one, two]), merged([two, one]))
    assert close(merged([one, two, three]), WeightedSums.of([*a, *b, *c]))


@given(SAMPLES)
def test_the_interval_holds_the_mean_and_stays_on_the_scale(samples: list[tuple[int, float]]) -> None:
    sums = WeightedSums.of(samples)
    ends = sums.interval(lowest=0, highest=5)
    if ends is None or sums.mean is None:
        assert not samples
        return
    assert 0 <= ends[0] <= sums.mean + 1e-9
    assert sums.mean - 1e-9 <= ends[1] <= 5


def test_no_scores_no_numbers() -> None:
    sums = WeightedSums()
    assert (sums.mean, sums.standard_error) == (None, None)
    assert sums.interval(lowest=1, highest=5) is None
    assert sums.effective_count == 0
    assert WeightedSums.merged([]) == sums


def test_two_answers_give_the_whole_scale() -> None:
    assert WeightedSums.of([(5, 1.0), (5, 1.0)]).interval(lowest=1, highest=5) == (1, 5)
    assert WeightedSums.of([(5, 1.0)]).standard_error is None
    # One of ten answers has weight 1,000: the effective count is about 1.
    assert WeightedSums.of([(5, 1.0)] * 9 + [(4, 0.001)]).interval(lowest=1, highest=5) == (1, 5)


@pytest.mark.parametrize(
    ("scores", "ends"),
    [
        # y = 1, n = 10: V = 0.75/100 * 10/9 = 0.008333, n* = 0.075 / V = 9; 1/n* <- (10/20)/9 + (10/20)/10 =
        # 0.105556; t(9)² = 2.2622² = 5.1175, g = 0.54018; lower end 1 / (1 + g) = 0.64927: 1 + 4 * 0.64927.
        pytest.param([5] * 10, (3.597, 5), id="equal scores do not prove that there are no others"),
        # y = 1/2, n = 10: V = (0.25/10 + 0.75/100) * 10/9 = 0.036111, n* = 0.25 / V = 6.9231;
        # 1/n* <- (10/20)/6.9231 + (10/20)/10 = 0.122222; g = 5.1175 * 0.122222 = 0.62547; the reach is
        # sqrt(g/4 + g²/4) / (1 + g) = 0.31016. It is wider than Wilson's.
        pytest.param([1, 5] * 5, (3 - 4 * 0.31016, 3 + 4 * 0.31016), id="a few imagine three more"),
    ],
)
def test_intervals_by_hand(scores: list[int], ends: tuple[float, float]) -> None:
    sums = WeightedSums.of((score, 1.0) for score in scores)
    assert sums.interval(lowest=1, highest=5) == pytest.approx(ends, abs=0.002)


@pytest.mark.parametrize(
    ("probability", "degrees", "expected"),
    [(0.975, 2, 4.3027), (0.975, 5, 2.5706), (0.975, 10, 2.2281), (0.975, 60, 2.0003), (0.95, 30, 1.6973),
     (0.975, float("inf"), 1.95996)],
)  # fmt: skip
def test_student_quantile_against_the_printed_tables(
    probability: float, degrees: float, expected: float
) -> None:
    assert student_quantile(probability, degrees) == pytest.approx(expected, rel=0.01)


@pytest.mark.parametrize("probability", [0.0, -0.1, 1.1, float("nan")])
def test_invalid_samples_are_refused(probability: float) -> None:
    with pytest.raises(ValueError, match="probability must be above 0 and at most 1"):
        WeightedSums().add(4, probability)
    with pytest.raises(ValueError, match="score must be a finite number"):
        WeightedSums().add(float("nan"))
