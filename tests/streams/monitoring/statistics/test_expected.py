from __future__ import annotations

from math import inf, log, log1p, sqrt
from statistics import NormalDist, median

import pytest

from streams.monitoring.statistics.detectors import LARGEST_BET, WEIGHTS, ShiryaevRobertsEDetector
from streams.monitoring.statistics.expected import evenness_of, expected_answers, expected_margin
from tests.streams.randomness import seeded


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

    Before the fall it has 0.3 / (0.9 * 0.1).
    """
    growth = log1p(LARGEST_BET * 2 / 3)
    needed = log(1 + 1000 / WEIGHTS[-1] / (1 / growth + 0.3 / 0.09)) / growth
    found = expected_answers(0.3, mean=0.8, spread=0.0, margin=0.1, threshold=1000)
    assert found == pytest.approx(needed)
    assert expected_answers(0.3, mean=0.8, spread=0.0, margin=0.1, threshold=1000, evenness=0.1) == (
        pytest.approx(10 * needed)
    )


def test_a_fall_within_the_margin_is_not_called() -> None:
    assert expected_answers(0.1, mean=0.8, spread=0.2, margin=0.1, threshold=1000) == inf
    assert expected_answers(0.1, mean=0.8, spread=0.2, margin=inf, threshold=1000) == inf


def test_half_of_the_traffic_at_1_and_half_at_a_hundredth() -> None:
    """The mean rate is 0.505 and the mean weight 50.5; their product has the inverse 0.0392."""
    assert evenness_of([(0.5, 1.0), (0.5, 0.01)]) == pytest.approx(1 / (0.505 * 50.5))
    assert evenness_of([(0.2, 0.1), (0.3, 0.1)]) == pytest.approx(1)


@pytest.mark.parametrize(("fall", "bad"), [(0.15, 0.25), (0.3, 0.4)])
def test_the_simulated_median_is_near(fall: float, bad: float) -> None:
    """Scores of 1 and, for a share of them, 0: from 0.1 to 0.25 and 0.4."""
    delays = []
    for seed in range(30):
        random, detector = seeded(seed), ShiryaevRobertsEDetector(threshold=20_000)
        for _ in range(300):
            detector.update(float(random.random() >= 0.1), tolerated_mean=0.86)
        answers = (float(random.random() >= bad) for _ in range(5000))
        delays.append(next(n for n, x in enumerate(answers, 1) if detector.update(x, tolerated_mean=0.86)))
    spread = sqrt(bad * (1 - bad))
    expected = expected_answers(fall, mean=0.9, spread=spread, margin=0.04, threshold=20_000)
    assert 0.6 < median(delays) / expected < 1.4
