from __future__ import annotations

from collections.abc import Callable
from math import inf, isfinite, log, log1p, sqrt
from random import Random
from statistics import NormalDist

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from streams.monitoring.statistics.detectors import (
    BETS,
    LARGEST_BET,
    WEIGHTS,
    DifferenceSequence,
    MeanSequence,
    ShiryaevRobertsEDetector,
    evenness_of,
    expected_answers,
    expected_margin,
    samples_since_shift,
)

# Value, inclusion probability and share of each stratum.
Population = list[tuple[float, float, float]]


@pytest.mark.parametrize(
    "population",
    [
        pytest.param([(1.0, 1.0, 0.8), (0.0, 1.0, 0.2)], id="all or nothing"),
        pytest.param([(1.0, 1.0, 0.6), (0.75, 1.0, 0.2), (0.25, 1.0, 0.2)], id="scores of 1 to 5"),
        pytest.param([(1.0, 0.05, 0.8), (0.0, 1.0, 0.2)], id="bad answers sampled twenty times as often"),
        pytest.param([(1.0, 1.0, 0.8), (0.0, 0.05, 0.2)], id="good answers sampled twenty times as often"),
    ],
)
@pytest.mark.parametrize("threshold", [50.0, 400.0])
def test_false_alarms_stay_within_the_bound(population: Population, threshold: float) -> None:
    """In the worst case, a mean equal to the tolerated one, there is at most one alarm in T samples."""
    random, detector, count = Random(5), ShiryaevRobertsEDetector(threshold=threshold), 0
    largest = max(1 / probability for _, probability, _ in population)
    # The next judged answer is from a stratum with a chance of share times inclusion probability.
    chances = [share * probability for _, probability, share in population]
    for value, probability, _ in random.choices(population, chances, k=12_000):
        # Each population has mean 0.8: 0.8; 0.6 + 0.15 + 0.05; 0.8; 0.8.
        if detector.update(value, tolerated_mean=0.8, share=1 / probability / largest):
            count += 1
            detector.reset()
    allowed = 12_000 / threshold
    # The bound (240 and 30 alarms) plus three standard deviations of a Poisson count.
    assert count <= allowed + 3 * allowed**0.5


def test_one_step_by_hand() -> None:
    """All bets start with M = 0, so after one sample M = 1 + λ u (m - x)."""
    detector = ShiryaevRobertsEDetector(threshold=100)
    assert not detector.update(0.25, tolerated_mean=0.5, share=0.5)
    # λ runs from 0.01 to 0.9 of 1 / (1 - 0.5) = 2, geometrically; u = 0.5, m - x = 0.25.
    bets = [0.02 * 90 ** (k / (BETS - 1)) for k in range(BETS)]
    assert sum(WEIGHTS) == pytest.approx(1)
    wanted = sum(weight * (1 + bet * 0.125) for weight, bet in zip(WEIGHTS, bets, strict=True))
    assert detector.statistic == pytest.approx(wanted)
    assert detector.samples == 1


@example([*[(0.0, 0.9, 1.0)] * 5000, (1.0, 0.9, 1.0)], 100.0)  # it would overflow
@given(
    st.lists(st.tuples(st.floats(0, 1), st.floats(0.001, 0.999), st.floats(1e-6, 1)), max_size=50),
    st.floats(1, 1e12),
)
def test_the_statistic_is_finite_and_never_negative(
    samples: list[tuple[float, float, float]], threshold: float
) -> None:
    detector = ShiryaevRobertsEDetector(threshold=threshold)
    for value, mean, share in samples:
        alarm = detector.update(value, tolerated_mean=mean, share=share)
        assert all(map(isfinite, detector.evidence))
        assert detector.statistic > 0
        assert alarm == (detector.statistic >= threshold)
    detector.reset()
    assert (detector.statistic, detector.samples) == (0, 0)


@pytest.mark.parametrize(
    ("latest_first", "expected"),
    [
        pytest.param([(2, 1), (2, 1), (5, 1), (5, 1), (5, 1)], 2, id="a clean step"),
        # Since the 2: (2.5 + 0.5 + 2.5)² / 3 = 10.1; the last alone: 6.25; with the 5 before: 5² / 4 = 6.25.
        pytest.param([(2, 1), (4, 1), (2, 1), (5, 1), (5, 1)], 3, id="a better one within"),
        pytest.param([(5, 1), (5, 1), (5, 1)], 0, id="nothing fell"),
        pytest.param([(2, 1), (2, 1), (2, 1)], 3, id="all of it"),
        pytest.param([], 0, id="no samples"),
        # The 2 alone is 2.5² / 1; with the heavy 5 the sum is 2.5 - 10 * 0.5 < 0.
        pytest.param([(2, 1), (5, 10), (2, 1)], 1, id="a heavy one"),
        # Unweighted, the run of all three has (2.5 - 0.5 + 2.5)² / 3 = 6.75, more than 6.25.
        pytest.param([(2, 1), (5, 1), (2, 1)], 3, id="a light one"),
        # The 2 alone has 6.25; with a 3 of weight 3 (2.5 + 3 * 1.5)² / (1 + 9) = 4.9.
        pytest.param([(2, 1), (3, 3)], 1, id="a heavy start"),
    ],
)
def test_the_start_of_a_fall_from_4_5_by_hand(latest_first: list[tuple[int, int]], expected: int) -> None:
    assert samples_since_shift(latest_first, normal_mean=4.5) == expected


@given(st.lists(st.tuples(st.integers(1, 5), st.floats(1, 100))), st.floats(1, 5), st.floats(0.1, 10))
def test_the_scale_of_the_weights_does_not_matter(
    samples: list[tuple[int, float]], normal_mean: float, power: float
) -> None:
    """The factor is a power of two, so that it is exact."""
    factor = 2.0 ** round(power)
    since = samples_since_shift(samples, normal_mean=normal_mean)
    assert 0 <= since <= len(samples)
    assert since == samples_since_shift([(x, w * factor) for x, w in samples], normal_mean=normal_mean)


def test_the_margin_is_that_of_the_latest_look() -> None:
    """130 answers were looked at twice, at 120 with a chance of 0.005 / 4: 3.02 errors of the mean."""
    errors = NormalDist().inv_cdf(1 - 0.005 / 4)
    margin = expected_margin(0.24, known=130, first=60, min_drop=0.02)
    assert margin == pytest.approx(errors * 0.24 / sqrt(120)) == pytest.approx(0.0662, abs=1e-4)
    # A quarter of the effective answers doubles it; many answers leave the smallest drop; none, no end.
    assert expected_margin(0.24, known=130, first=60, min_drop=0.02, evenness=0.25) == 2 * margin
    assert expected_margin(0.24, known=10**6, first=60, min_drop=0.02) == 0.02
    assert expected_margin(0.24, known=59, first=60, min_drop=0.02) == inf


def test_equal_scores_take_the_largest_bet() -> None:
    """All scores fall from 0.8 to 0.5 with 0.7 tolerated: the bet of 0.9 grows by log(1 + 0.9 * 0.2 / 0.3).

    Before the fall it has 0.3 / (0.9 * 0.1). A fall within the margin is not called.
    """
    growth = log1p(LARGEST_BET * 2 / 3)
    needed = log(1 + 1000 / WEIGHTS[-1] / (1 / growth + 0.3 / 0.09)) / growth

    def expected(fall: float, margin: float = 0.1, evenness: float = 1.0) -> float:
        return expected_answers(fall, mean=0.8, spread=0.0, margin=margin, threshold=1000, evenness=evenness)

    assert expected(0.3) == pytest.approx(needed)
    assert expected(0.3, evenness=0.1) == pytest.approx(10 * needed)
    assert (expected(0.1), expected(0.1, margin=inf)) == (inf, inf)


def test_half_of_the_traffic_at_1_and_half_at_a_hundredth() -> None:
    """The mean rate is 0.505 and the mean weight 50.5; their product has the inverse 0.0392."""
    assert evenness_of([(0.5, 1.0), (0.5, 0.01)]) == pytest.approx(1 / (0.505 * 50.5))
    assert evenness_of([(0.2, 0.1), (0.3, 0.1)]) == pytest.approx(1)


def test_the_ends_agree_with_figures_by_hand() -> None:
    # alpha = 0.05: log(2 / 0.05) = 3.6889. First bet: s² = 0.25, sqrt(2 · 3.6889 / (0.25 · 1 · log 2)) > 0.5.
    # After the score 1: m = 1.5 / 2 = 0.75, s² = (0.25 + 0.0625) / 2 = 0.15625; the second bet is 0.5, too.
    # Penalty: (0.5² + (0 - 0.75)²) (log 2 - 0.5) = 0.8125 · 0.19315 = 0.15693; the half, 3.846, is cut off.
    one = MeanSequence(0.05)
    one.add(1.0)
    one.add(0.0)
    assert one.ends() == (0.0, 1.0)
    for _ in range(48):
        one.add(0.5)
    # With 48 scores 0.5 after them m is 0.5, so that the penalty stays; 7.378 / (s² i log(1 + i)) stays above
    # 7.378 / (0.6 · 3.94) = 3.1, so that all bets are 0.5: half = 3.84583 / 25 = 0.15383.
    assert one.ends() == pytest.approx((0.34617, 0.65383), abs=1e-5)


def test_a_bet_that_is_not_bounded_follows_the_formula() -> None:
    one = MeanSequence(0.5)  # log(2 / 0.5) = log 4
    for number in range(200):
        one.add(float(number % 2))
    bets, weighted, penalty, total, squares = 0.0, 0.0, 0.0, 0.0, 0.0
    for number in range(200):
        score, i = float(number % 2), number + 1
        bet = min(sqrt(2 * log(4) / ((0.25 + squares) / i * i * log(1 + i))), 0.5)
        bets, weighted = bets + bet, weighted + bet * score
        penalty += (score - (0.5 + total) / i) ** 2 * (-log(1 - bet) - bet)
        total += score
        squares += (score - (0.5 + total) / (i + 1)) ** 2
    middle, half = weighted / bets, (log(4) + penalty) / bets
    assert one.ends() == pytest.approx((middle - half, middle + half))


LAWS: dict[str, Callable[[Random], float]] = {
    "uniform": lambda r: r.random(),
    "skewed": lambda r: r.betavariate(8, 1),
    "two points near an end": lambda r: float(r.random() < 0.97),
    "rare large falls": lambda r: 0.0 if r.random() < 0.01 else 0.9,
    "discrete": lambda r: r.choices(range(6), (1, 1, 2, 4, 8, 16))[0] / 5,
    "boolean": lambda r: float(r.random() < 0.5),
    "constant": lambda _: 1.0,
}


@pytest.mark.parametrize("law", LAWS)
def test_peeking_at_each_score_errs_less_often_than_alpha(law: str) -> None:
    # 40 runs at alpha = 0.1; more than 11 wrong ones have a probability below 0.001 if the error is 0.1.
    wrong = 0
    for seed in range(40):
        chance, both = Random(seed), DifferenceSequence(0.1)
        missed = False
        for number in range(300):
            # The new value is 1 of 20, with easy questions alone at first; weights are 1 and 100.
            new, hard = int(chance.random() < 0.05), chance.random() < (0.5 if number > 150 else 0.1)
            score = LAWS[law](chance) * (0.5 if hard else 1.0)
            both.add(hard, new, score, 100.0 if hard else 1.0)
            low, high = both.ends()
            missed = missed or not low <= 0 <= high
        wrong += missed
    assert wrong <= 11


def test_a_stratum_with_one_group_alone_leaves_its_part_open() -> None:
    both = DifferenceSequence(0.05)
    assert (both.ends(), both.answer(0.1)) == ((-1.0, 1.0), "not yet")
    for _ in range(3_000):
        both.add("easy", 0, 0.8, 1.0)
        both.add("easy", 1, 0.8, 1.0)
    assert both.answer(0.1) == "no worse"
    for _ in range(6_000):
        both.add("hard", 0, 0.8, 1.0)
    low, high = both.ends()
    assert low < -0.35
    assert high > 0.05
    assert both.answer(0.1) == "not yet"
    assert both.missing(0.1) is None


def test_a_fall_is_worse_and_a_small_one_within_the_margin_is_not() -> None:
    fallen, kept = DifferenceSequence(0.05), DifferenceSequence(0.05)
    chance = Random(1)
    for _ in range(2_000):
        fallen.add("", 0, float(chance.random() < 0.9), 1.0)
        fallen.add("", 1, float(chance.random() < 0.6), 1.0)
        kept.add("", 0, chance.uniform(0.7, 0.9), 1.0)
        kept.add("", 1, chance.uniform(0.68, 0.88), 1.0)
    assert (fallen.answer(0.1), kept.answer(0.1)) == ("worse", "no worse")
    assert kept.missing(0.1) == 0


@pytest.mark.parametrize(("score", "weight"), [(1.1, 1.0), (-0.1, 1.0), (0.5, 0.0), (0.5, 0.9)])
def test_numbers_out_of_range_are_refused(score: float, weight: float) -> None:
    with pytest.raises(ValueError, match="must be"):
        DifferenceSequence(0.05).add("", 0, score, weight)
