from __future__ import annotations

from math import cos, pi

import pytest

from streams.monitoring.statistics.season import EVEN, Season, step_of, waves
from tests.streams.randomness import seeded

DAY = 86_400.0
MIDNIGHT = 1_772_409_600.0  # Monday, 2 March 2026, 00:00 UTC


def fed(days: int, *, swing: float, per_hour: int = 20) -> Season:
    """Return a season that learned `days` with mean 0.8, `swing` higher at midnight and lower at noon."""
    random = seeded(1)
    season = Season()
    for number in range(days * 24 * per_hour):
        moment = MIDNIGHT + number * 3600 / per_hour
        mean = 0.8 + swing * cos(2 * pi * moment / DAY)
        season.add(moment, float(random.random() < mean), 1.0)
    return season


def test_a_steady_mean_has_no_season() -> None:
    """After two weeks of a steady mean each hour's offset and error are below 0.02."""
    season = fed(14, swing=0.0)
    swings = [season.swing(MIDNIGHT + 14 * DAY + hour * 3600, EVEN) for hour in range(24)]
    assert max(abs(one.offset) for one in swings) < 0.02
    assert max(one.error for one in swings) < 0.02


def test_a_daily_swing_is_learned() -> None:
    """An amplitude of 0.05 is learned: midnight is above the mean, noon below."""
    season = fed(14, swing=0.05)
    assert season.swing(MIDNIGHT + 14 * DAY, EVEN).offset == pytest.approx(0.05, abs=0.015)
    assert season.swing(MIDNIGHT + 14.5 * DAY, EVEN).offset == pytest.approx(-0.05, abs=0.015)


def test_an_hour_that_was_never_seen_is_known_less_exactly() -> None:
    """An hour without samples has a larger error."""
    season = Season()
    for number in range(6 * 60):
        season.add(MIDNIGHT + number * 60, 0.8 if number % 2 else 1.0, 1.0)
    usual = waves(step_of(MIDNIGHT + 2 * 3600))
    assert (
        season.swing(MIDNIGHT + 18 * 3600, usual).error > 2 * season.swing(MIDNIGHT + 5 * 3600, usual).error
    )


def test_before_the_first_hour_is_over_only_the_doubt_is_predicted() -> None:
    """Relative to its own quarter of an hour a time is as usual; half a day away it may differ."""
    season = Season()
    for _ in range(100):
        season.add(MIDNIGHT, 0.3, 1.0)
    now, noon = (season.swing(MIDNIGHT + hours * 3600, waves(step_of(MIDNIGHT))) for hours in (0, 12))
    assert (now.offset, now.error, noon.offset) == (0, 0, 0)
    assert noon.error > 0.03


def test_a_swing_is_relative_to_the_traffic_that_it_is_asked_for() -> None:
    """From the midnight's mean to noon's the amplitude of 0.05 counts twice."""
    season, noon = fed(14, swing=0.05), MIDNIGHT + 14.5 * DAY
    assert season.swing(noon, waves(step_of(MIDNIGHT))).offset == pytest.approx(-0.1, abs=0.03)
    assert season.swing(noon, waves(step_of(noon))).offset == 0


def test_a_fall_in_the_open_hour_can_be_left_out() -> None:
    """Samples of the open hour can be discarded, so that a drop is not learned as seasonal."""
    one, two = fed(3, swing=0.0), fed(3, swing=0.0)
    one.add(MIDNIGHT + 3 * DAY, 0.8, 1.0)
    for number in range(100):
        two.add(MIDNIGHT + 3 * DAY + number, 0.0, 1.0)
    later = MIDNIGHT + 3 * DAY + 3600
    for season in (one, two):
        season.forget_open_hour()
        season.add(later, 0.8, 1.0)
        season.add(later + 3600, 0.8, 1.0)
    assert one.swing(later, EVEN) == two.swing(later, EVEN)
