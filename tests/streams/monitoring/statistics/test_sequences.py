from __future__ import annotations

import random
from collections.abc import Callable
from math import log, sqrt

import pytest

from streams.monitoring.statistics.sequences import DifferenceSequence, MeanSequence


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


LAWS: dict[str, Callable[[random.Random], float]] = {
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
        chance, both = random.Random(seed), DifferenceSequence(0.1)
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
    chance = random.Random(1)
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
