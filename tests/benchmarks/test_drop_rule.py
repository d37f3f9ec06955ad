"""The drop rule by hand; that it is the shipped one is shown by tests/rules/test_rules.py."""

from __future__ import annotations

from math import sqrt
from random import Random

import pytest

from benchmarks.alerts import fixed_limit, plain_z
from benchmarks.calm_traffic import draw, poisson
from benchmarks.drop_rule import PART, WHOLE, AppHistory, Drop, Limits, Sums, condition, drop

HOUR = 1
"""One bin an hour keeps the numbers small."""


def scored(score: float, count: float, weight: float = 1.0) -> Sums:
    w = weight
    return w * count, w * score * count, w * w * count, w * w * score * count, (w * score) ** 2 * count


def test_a_drop_is_weighted_by_the_mix_of_now() -> None:
    """An app that fell by 1 point and one that did not, with a quarter and three quarters of the traffic."""
    # Baseline: hours 0 to 4 (6 hours are left out of 11), 60 an hour: N = 300. Variance 0, so the floor of 0.25.
    support = AppHistory([*[scored(4, 60)] * 10, scored(3, 60)], HOUR)
    search = AppHistory([*[scored(5, 60)] * 10, scored(5, 180)], HOUR)
    measured = drop([support, search], 11, 1)
    assert measured is not None
    assert measured.points == pytest.approx(0.25)
    # sqrt(60^2 * 0.25 * (1/60 + 1/300) + 180^2 * 0.25 * (1/180 + 1/300)) / 240 = sqrt(18 + 72) / 240
    assert measured.standard_error == pytest.approx(sqrt(90) / 240)
    assert measured.count == pytest.approx(240)
    assert measured.z == pytest.approx(0.25 / sqrt(90 / 240**2 + 0.05**2))


def test_weights_cost_effective_answers() -> None:
    """60 answers of weight 1 and 60 of weight 5: (60 + 300)^2 / (60 + 1500) = 83.08."""
    mixed = tuple(a + b for a, b in zip(scored(4, 60), scored(4, 60, 5), strict=True))
    bins: list[Sums] = [(mixed[0], mixed[1], mixed[2], mixed[3], mixed[4])] * 8
    measured = drop([AppHistory(bins, HOUR)], 8, 1)
    assert measured is not None
    assert measured.count == pytest.approx(360**2 / 1560)


def test_an_app_without_a_past_is_left_out() -> None:
    """49 answers are none, 50 are one."""
    assert drop([AppHistory([scored(4, 49), *[scored(4, 0)] * 5, scored(1, 60)], HOUR)], 7, 1) is None
    assert drop([AppHistory([scored(4, 50), *[scored(4, 0)] * 5, scored(1, 60)], HOUR)], 7, 1) is not None


@pytest.mark.parametrize(
    ("one", "significant"),
    [
        (Drop(0.3, 0.0, 30), True),  # z = 0.3 / 0.05 = 6
        (Drop(0.29, 0.0, 30), False),
        (Drop(0.3, 0.0, 29), False),
        (Drop(0.3, 0.06, 30), False),  # z = 0.3 / sqrt(0.0036 + 0.0025) = 3.84
    ],
)
def test_large_sure_and_of_enough_answers(one: Drop, *, significant: bool) -> None:
    """All three are needed."""
    assert one.significant(WHOLE.hour, WHOLE.z) is significant


@pytest.mark.parametrize("limits", [WHOLE, PART])
def test_what_is_over_is_over(limits: Limits) -> None:
    """Two bad hours of the last six are no drop any more once the last hour is good."""
    calm, bad = scored(4, 600), scored(2, 600)
    history = AppHistory([*[calm] * 10, bad, bad, calm], HOUR)
    assert condition([history], 12, limits)
    assert not condition([history], 13, limits)


def test_the_simple_rules() -> None:
    """Below 3.5; and 3 standard errors, which without any spread is never."""
    spread = tuple(a + b for a, b in zip(scored(4, 50), scored(5, 50), strict=True))
    calm: Sums = (spread[0], spread[1], spread[2], spread[3], spread[4])
    fallen = AppHistory([*[calm] * 336, *[scored(3, 100)] * 12], 12)
    assert fixed_limit([fallen], 348)
    assert plain_z([fallen], 348)
    assert not fixed_limit([fallen], 336)
    assert not plain_z([fallen], 336)
    assert not plain_z([AppHistory([scored(4, 1)] * 348, 12)], 348)


def test_drawn_numbers_have_the_mean_asked_for() -> None:
    """5 standard errors: 10,000 scores of a spread below 1.5 are within 0.08, Poisson counts within 5 sqrt(mean/10,000)."""
    random = Random(3)
    for mean in (1.5, 3.0, 4.2):
        assert sum(draw(random, mean, 10_000)) / 10_000 == pytest.approx(mean, abs=0.08)
    for expected in (0.2, 7.0, 80.0):
        found = sum(poisson(random, expected) for _ in range(10_000)) / 10_000
        assert found == pytest.approx(expected, abs=5 * sqrt(expected / 10_000))
