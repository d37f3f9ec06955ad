"""People's mean from labels and verdicts, agreement of raters, and draws with a probability."""

from __future__ import annotations

import random
from collections import Counter
from math import comb
from random import Random
from statistics import linear_regression

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.people import DESIGNS, LAWS, cell
from streams.monitoring.statistics.estimators import WeightedSums
from streams.monitoring.statistics.people import (
    LabelledAnswer,
    alpha,
    draw_rates,
    effective_labels,
    is_representative,
    kappa,
    kappa_interval,
    people_mean,
    rogan_gladen,
    systematic,
)

PEOPLE = (1, 2, 3, 4, 5, 5, 4, 3, 2, 5)
JUDGE = (2, 2, 4, 4, 5, 4, 4, 3, 1, 5)
ALL = (5, 4, 3, 5, 2, 4, 5, 1, 4, 4, 3, 5, 2, 4, 5, 5, 4, 3, 4, 5)


def test_the_formula_by_hand() -> None:
    """Four labels 1, 3, 1, 3 of a judge who says the same: their means vary by 4/16 * 4/3 = 1/3, as all do.

    lambda = 1/3 / (1/3 + 1/3) * 4 / (4 + 10) = 1/7; the estimate 3/7 + 2 - 2/7 = 15/7. The slope b is 1, so
    the variance is (6/7)² / 3 + 1/7 (2 - 1/7) / 3 + 12 / 16 = 1/3 + 3/4, and t of 2 degrees of freedom 4.303.
    """
    labelled = [LabelledAnswer(one, one, 1.0) for one in (1, 3, 1, 3)]
    found = people_mean(labelled, WeightedSums.of((one, 1.0) for one in (2, 2, 4, 4)), lowest=1, highest=5)
    assert found.trust == pytest.approx(1 / 7)
    assert found.mean == pytest.approx(15 / 7)
    assert found.half == pytest.approx(4.303 * (1 / 3 + 0.75) ** 0.5, rel=0.01)
    assert (found.low, found.judge, found.labels, found.effective) == (1, 3, 4, 4)


def test_it_agrees_with_ppi_python() -> None:
    """`ppi_mean_pointestimate` and `ppi_mean_ci` of ppi-python 0.2.3, with our lambda as `lam`.

    Its variances divide by n, ours by n - 1, before the imagined squares and with the quantile 1.96; its
    labelled answers are not among the others, so it has lambda² where we have lambda (2 b - lambda).
    """
    judged = WeightedSums.of((one, 1.0) for one in ALL)
    found = people_mean(_labelled((1,) * 10), judged, lowest=1, highest=5)
    assert found.trust == pytest.approx(0.3393840978947977)
    assert found.mean == pytest.approx(3.55272284)
    slope = linear_regression(JUDGE, PEOPLE).slope
    apart = found.floor * found.trust / (2 * slope - found.trust)
    variance = found.spread / 10 * 9 / 10 + apart * 19 / 20
    assert 1.959964 * variance**0.5 == pytest.approx((4.19085489 - 2.9145908) / 2, rel=1e-6)
    judged = WeightedSums.of((one, 1 / (1 + place % 2)) for place, one in enumerate(ALL))
    found = people_mean(_labelled((1, 2, 1, 4, 1, 1, 2, 1, 1, 3)), judged, lowest=1, highest=5)
    assert found.trust == pytest.approx(0.2803464573228317)
    assert found.mean == pytest.approx(3.71796999)


def _labelled(weights: tuple[float, ...]) -> list[LabelledAnswer]:
    return [LabelledAnswer(*one) for one in zip(PEOPLE, JUDGE, weights, strict=True)]


def test_judges_and_people_without_variation_give_an_interval() -> None:
    """A constant judge counts nothing; constant labels keep the width of errors not seen: 2.66 scales / n."""
    constant = [LabelledAnswer(one % 2 + 1, 4, 1.0) for one in range(40)]
    judged = WeightedSums.of([(4, 1.0)] * 500)
    found = people_mean(constant, judged, lowest=1, highest=5)
    assert (found.trust, found.mean, found.judge) == (0, 1.5, 4)
    assert (found.half, found.saved) == (found.alone, 0)
    alike = people_mean([LabelledAnswer(5, 5, 1.0)] * 40, judged, lowest=1, highest=5)
    assert alike.high - alike.low == pytest.approx(2.66 * 4 / 40)  # above 5 is nothing


def test_few_heavy_labels_count_as_few() -> None:
    """Forty labels that agree, four of them ten times as heavy: m = 76 / 10, half 2.66 * 4 / 7.6 = 1.4."""
    weights = [10.0] * 4 + [1.0] * 36
    found = people_mean([LabelledAnswer(5, 5, one) for one in weights], None, lowest=1, highest=5)
    assert [found.least, found.half] == pytest.approx([7.6, 1.4])
    # Without the judge's scores of the part, the estimate is the labels' mean.
    assert (found.mean, found.trust, found.judge, found.floor, found.alone) == (5, 0, 5, 0, found.half)
    # Weights 1 and 3: 4² / (1 + 9).
    assert effective_labels([LabelledAnswer(1, 1, 1), LabelledAnswer(1, 1, 3)]) == pytest.approx(1.6)
    assert effective_labels([]) == 0


def test_more_labels_for_half_an_interval() -> None:
    """The number given is the smallest; none if the judge's own mean is too uncertain."""
    found = people_mean(_labelled((1,) * 10), WeightedSums.of((one, 1.0) for one in ALL), lowest=1, highest=5)
    more = found.more_for(found.half / 2)
    assert more == 21
    assert found.half_after(more) <= found.half / 2 < found.half_after(more - 1)
    assert found.more_for(0.1) is None  # what labels do not reduce is 0.036: +-0.37
    assert found.half_after(found.saved) < found.half


def test_labels_of_other_answers_are_noticed() -> None:
    """100 labels of the worst answers, said to be a random sample."""
    judged = WeightedSums.of([(1, 1.0), (5, 1.0)] * 200)
    worst = [LabelledAnswer(1, 1, 1.0)] * 100
    fair = [LabelledAnswer(1, 1 + 4 * (one % 2), 1.0) for one in range(100)]
    assert not is_representative(worst, judged, lowest=1, highest=5)
    assert is_representative(fair, judged, lowest=1, highest=5)


def test_rogan_gladen_by_hand() -> None:
    """Sensitivity 3/4, specificity 1: of a share of 0.3 true answers, (0.3 + 1 - 1) / 0.75 = 0.4."""
    labelled = [LabelledAnswer(1, one, 1.0) for one in (1, 1, 1, 0)] + [LabelledAnswer(0, 0, 1.0)] * 4
    assert rogan_gladen(labelled, 0.3) == pytest.approx(0.4)
    assert rogan_gladen(labelled[:4], 0.3) is None
    assert rogan_gladen([LabelledAnswer(1, 0, 1.0), LabelledAnswer(0, 1, 1.0)], 0.3) is None


def test_alpha_by_hand() -> None:
    """Names a a, a b: observed 2 of 4 ordered pairs / 4 values; expected 6 of 12: 1 - 0.5 / 0.5 = 0.

    Numbers 1 1, 3 3: none observed. One answer with 1 and 3 only: observed as expected.
    """
    assert alpha([["a", "a"], ["a", "b"], ["b"]]) == pytest.approx(0)
    assert alpha([[1, 1], [3, 3]]) == 1
    assert alpha([[1, 3]]) == 0
    assert alpha([[1, 1], [1, 1]]) is None
    assert alpha([[2]]) is None


def test_rates_are_in_proportion_and_at_most_one() -> None:
    """Ten wanted of 2 at 100 and 80 at 1: both of the first, then 8 of 80."""
    assert draw_rates({0: 2, 1: 80}, {0: 100, 1: 1}, 10) == {0: 1.0, 1: pytest.approx(0.1)}
    assert draw_rates({0: 2, 1: 3}, {0: 5, 1: 1}, 5) == {0: 1.0, 1: 1.0}


@given(st.lists(st.floats(0.05, 4), min_size=1, max_size=8), st.integers(0, 2**16))
def test_a_systematic_draw_takes_each_group_as_often_as_expected(expected: list[float], seed: int) -> None:
    """The number of draws of a group is its expectation, rounded up or down; places are within the group."""
    drawn = systematic(expected, Random(seed).random())
    counts = Counter(group for group, _ in drawn)
    assert all(abs(counts[group] - one) < 1 + 1e-6 for group, one in enumerate(expected))
    assert all(0 <= place < 1 for _, place in drawn)


@pytest.mark.slow
@pytest.mark.parametrize("design", DESIGNS)
def test_intervals_hold_people_s_mean(design: str) -> None:
    """100 labels, all laws together: coverage of 93% is not refuted; short form of `benchmarks people`."""
    runs = held = 0
    for number, law in enumerate(LAWS):
        refused, right, _ = cell(Random(f"{design} {number}"), law, design, 100, 12)
        runs, held = runs + 12 - refused, held + right
    assert runs > 0
    # The probability of so few at 93%: below 1 in 10,000 only if the coverage is lower.
    fewer = sum(comb(runs, k) * 0.93**k * 0.07 ** (runs - k) for k in range(held + 1))
    assert fewer > 1e-4


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
    found = kappa_interval(pairs)
    assert (found is None) == (kappa(pairs) is None)
    if found is not None:
        assert -1 <= found[0] <= found[1] <= 1


@pytest.mark.parametrize("wrong", [0.1, 0.4])
@pytest.mark.parametrize("values", ["abc", (0, 1, 2, 3, 4, 5)])
def test_the_interval_holds_the_true_kappa(values: tuple[int | str, ...], wrong: float) -> None:
    """A rater who says the truth, and at the rate `wrong` any value at random: kappa is 1 - wrong."""
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
