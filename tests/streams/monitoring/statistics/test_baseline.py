"""What is learned before a test: baseline, season and strata."""

from __future__ import annotations

from math import cos, pi
from random import Random
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from streams.monitoring.statistics.baseline import (
    EVEN,
    MOST_PARTS,
    GrowingBaseline,
    Mix,
    Season,
    Swing,
    Waves,
    step_of,
    waves,
)
from streams.monitoring.statistics.strata import FORGET_AFTER, LONGEST_WAIT, MOST_POLICIES, RelativeWeights

MORNING = 1_772_442_000.0  # Monday, 2 March 2026, 09:00 UTC
EVENING = MORNING + 12 * 3600


def test_it_looks_at_60_120_240_and_so_on_and_no_decline_lowers_it() -> None:
    season, baseline = Season(), GrowingBaseline(first=60, min_drop=0.02)
    looks = [number for number in range(1, 1001) if baseline.add(0.75, 1.0, MORNING, season)]
    assert looks == [60, 120, 240, 480, 960]
    assert baseline.looked_at.count == 960
    # Equal scores: the interval is narrower than min_drop, so the margin is min_drop.
    assert baseline.tolerated == pytest.approx(0.73)
    assert baseline.margin == pytest.approx(0.02)
    # A decline does not lower it.
    for _ in range(2000):
        baseline.add(0.5, 1.0, MORNING, season)
    assert (baseline.tolerated, baseline.mean) == pytest.approx((0.73, 0.75))


def test_each_look_has_half_of_the_chance_of_harm_of_the_one_before() -> None:
    """Of 0.005 the look at 60 spends 0.0025, that at 120 half of it: the lower ends of such intervals."""
    season, baseline = Season(), GrowingBaseline(first=60, min_drop=0.0001)
    for looked, spent in ((60, 0.0025), (120, 0.00125)):
        while baseline.sums.count < looked:
            baseline.add(float(baseline.sums.count % 10 > 0), 1.0, MORNING, season)
        ends = baseline.sums.interval(lowest=0, highest=1, confidence=1 - 2 * spent)
        assert ends is not None
        assert baseline.tolerated == pytest.approx(ends[0])


class Known(Season):
    """A season in which later traffic is lower by a known offset, to 0.01."""

    def __init__(self, offset: float) -> None:
        super().__init__()
        self._offset = offset

    def between(self, usual: Waves, other: Waves) -> Swing:  # noqa: ARG002 - the same for all
        return Swing(self._offset, 0.01)


@pytest.mark.parametrize(("offset", "tolerated"), [(-0.05, 0.65), (-0.01, 0.7)])
def test_a_later_look_replaces_the_first_if_it_is_higher_for_its_times(
    offset: float, tolerated: float
) -> None:
    """A morning of 0.8 tolerates 0.8 - 0.1; the whole day's mean is 0.75, and tolerates 0.65.

    Moved to the times of the day and less 2.6 errors, the morning's is 0.7 - 0.05 - 0.026 = 0.624, or
    0.7 - 0.01 - 0.026 = 0.664.
    """
    baseline = GrowingBaseline(first=60, min_drop=0.1)
    for _ in range(60):
        baseline.add(0.8, 1.0, MORNING, Known(offset))
    assert baseline.tolerated == pytest.approx(0.7)
    assert baseline.usual == pytest.approx(waves(step_of(MORNING)))
    for _ in range(60):
        baseline.add(0.7, 1.0, EVENING, Known(offset))
    assert baseline.tolerated == pytest.approx(tolerated)
    morning, evening = waves(step_of(MORNING)), waves(step_of(EVENING))
    both = list(map(fmean, zip(morning, evening, strict=True)))
    assert baseline.usual == pytest.approx(both if tolerated == 0.65 else morning)


def test_a_part_that_was_always_weaker_has_its_own_level() -> None:
    """300 values of 0.9 and 100 of 0.5 have mean 0.8; the offsets are near 0.1 and -0.3, shrunk."""
    mix = Mix()
    for number in range(400):
        weak = number % 4 == 0
        mix.add("weak" if weak else "good", 0.5 if weak else 0.9, 1.0, count=number)
    mix.refit(400)
    # n/(n+30): 300/330 * 0.1 = 0.0909 and 100/130 * -0.3 = -0.2308; their weighted mean, 0.0105, is
    # subtracted.
    assert mix.offset("good") == pytest.approx(0.0804, abs=1e-3)
    assert mix.offset("weak") == pytest.approx(-0.2413, abs=1e-3)
    assert mix.offset("unknown") == 0


def test_a_new_part_has_no_offset_of_its_own() -> None:
    mix = Mix()
    for number in range(1000):
        mix.add("old", 0.9, 1.0, count=number)
    for number in range(1000, 2000):
        mix.add(("old", "new")[number % 2], (0.9, 0.5)[number % 2], 1.0, count=number)
    mix.refit(2000)
    # 1,500 of 0.9 and 500 of 0.5, a mean of 0.8: the offset of "old" is about 0.1, and that of "new" would be
    # -0.3.
    assert mix.offset("new") > -0.1
    mix.refit(4100)
    assert mix.offset("new") < -0.25


def test_parts_are_bounded() -> None:
    mix = Mix()
    for number in range(MOST_PARTS + 5):
        mix.add(f"p{number}", number / 1000, 2.0, count=number)
    mix.refit(50)
    assert (len(mix.parts), mix.offset(f"p{MOST_PARTS}")) == (MOST_PARTS, 0)


DAY = 86_400.0
MIDNIGHT = 1_772_409_600.0  # Monday, 2 March 2026, 00:00 UTC


def fed(days: int, *, swing: float) -> Season:
    """Return a season that learned `days` with mean 0.8, `swing` higher at midnight and lower at noon."""
    random, season = Random(1), Season()
    for number in range(days * 24 * 20):
        moment = MIDNIGHT + number * 3600 / 20
        mean = 0.8 + swing * cos(2 * pi * moment / DAY)
        season.add(moment, float(random.random() < mean), 1.0)
    return season


def test_two_weeks_of_a_steady_mean_have_no_season() -> None:
    season = fed(14, swing=0.0)
    swings = [season.swing(MIDNIGHT + 14 * DAY + hour * 3600, EVEN) for hour in range(24)]
    assert max(abs(one.offset) for one in swings) < 0.02
    assert max(one.error for one in swings) < 0.02


def test_a_daily_swing_is_learned_relative_to_the_traffic_that_it_is_asked_for() -> None:
    """From the midnight's mean to noon's the amplitude of 0.05 counts twice."""
    season, noon = fed(14, swing=0.05), MIDNIGHT + 14.5 * DAY
    assert season.swing(MIDNIGHT + 14 * DAY, EVEN).offset == pytest.approx(0.05, abs=0.015)
    assert season.swing(noon, EVEN).offset == pytest.approx(-0.05, abs=0.015)
    assert season.swing(noon, waves(step_of(MIDNIGHT))).offset == pytest.approx(-0.1, abs=0.03)
    assert season.swing(noon, waves(step_of(noon))).offset == 0


def test_an_hour_that_was_never_seen_is_known_less_exactly() -> None:
    season = Season()
    for number in range(6 * 60):
        season.add(MIDNIGHT + number * 60, 0.8 if number % 2 else 1.0, 1.0)
    usual = waves(step_of(MIDNIGHT + 2 * 3600))
    unseen, seen = (season.swing(MIDNIGHT + hours * 3600, usual).error for hours in (18, 5))
    assert unseen > 2 * seen


def test_before_the_first_hour_is_over_only_the_doubt_is_predicted() -> None:
    """Relative to its own quarter of an hour a time is as usual; half a day away it may differ."""
    season = Season()
    for _ in range(100):
        season.add(MIDNIGHT, 0.3, 1.0)
    now, noon = (season.swing(MIDNIGHT + hours * 3600, waves(step_of(MIDNIGHT))) for hours in (0, 12))
    assert (now.offset, now.error, noon.offset) == (0, 0, 0)
    assert noon.error > 0.03


def test_a_fall_in_the_open_hour_can_be_left_out() -> None:
    seasons, open_hour = (fed(3, swing=0.0), fed(3, swing=0.0)), MIDNIGHT + 3 * DAY
    for season, value in zip(seasons, (0.8, 0.0), strict=True):
        season.add(open_hour, value, 1.0)
        season.forget_open_hour()
        for hours in (1, 2):
            season.add(open_hour + 3600 * hours, 0.8, 1.0)
    one, two = (season.swing(open_hour + 3600, EVEN) for season in seasons)
    assert one == two


def known(policy: str = "a", **strata: float) -> RelativeWeights:
    """Return weights that saw two samples of each stratum."""
    weights = RelativeWeights()
    for stratum, weight in [*strata.items()] * 2:
        weights.share(policy, stratum, weight)
    return weights


def test_a_share_is_of_the_largest_weight_before_the_sample() -> None:
    weights = RelativeWeights()
    assert weights.share("a", "rest", 1000) == 0  # no scale is known
    assert weights.share("a", "gold", 2) == 0.002
    assert weights.share("a", "rest", 4000) == 1
    assert weights.share("a", "gold", 2) == 0.0005


def test_a_new_policy_awaits_the_strata_that_hold_the_traffic() -> None:
    """Of 101 answers "down" represents 1 and "rest" 100: only "rest", with 99% of the traffic, is awaited."""
    weights = known(down=1, rest=100)
    assert [weights.share("b", "down", 1) for _ in range(30)] == [0] * 30
    assert weights.share("b", "rest", 1000) == 0
    assert weights.share("b", "down", 1) == 0.001
    # The other way round nothing is awaited longer: the next policy starts with its second sample.
    assert [weights.share("c", "rest", 1) for _ in range(2)] == [0, 1]


def test_a_stratum_that_never_comes_is_awaited_for_a_bounded_time() -> None:
    weights = known(rest=100)
    shares = [weights.share("b", "renamed", 5) for _ in range(LONGEST_WAIT + 1)]
    assert shares == [0] * LONGEST_WAIT + [1]


def test_a_lowered_policy_begins_with_the_scale_of_its_base_over_the_factor() -> None:
    """Rates of 1 and 1/10, lowered to a quarter: 10 becomes 40, so a weight of 4 has share 1/10."""
    weights = known("p", down=1, rest=10)
    assert weights.share("p*1/4", "down", 4) == pytest.approx(0.1)
    assert weights.share("p*0", "down", 5) == pytest.approx(0.5)  # an invalid factor: as the base


@pytest.mark.parametrize("weight", [7.2e16, 1000.0])
def test_one_enormous_weight_is_forgotten_after_200_answers_of_its_stratum(weight: float) -> None:
    weights = known(rest=1)
    assert weights.share("a", "rest", weight) == 1
    shares = [weights.share("a", "rest", 1) for _ in range(FORGET_AFTER + 1)]
    assert shares == [pytest.approx(1 / weight)] * FORGET_AFTER + [1]


def test_a_weight_that_keeps_coming_is_not_forgotten_between() -> None:
    """With 50 before the next, 20 gaps are 1,020 samples; then the scale is the largest since."""
    weights = RelativeWeights()
    for _ in range(5):
        weights.share("a", "rest", 100)
        for _ in range(50):
            weights.share("a", "rest", 1)
    shares = [weights.share("a", "rest", 2) for _ in range(1000)]
    assert shares == [0.02] * 970 + [1] * 30


def test_a_stratum_that_is_rarely_judged_is_not_forgotten_for_others() -> None:
    weights = known(down=1, rest=1000)
    assert {weights.share("a", "down", 1) for _ in range(5000)} == {0.001}


samples = st.tuples(
    st.sampled_from(("a", "b", "a*1/4")), st.sampled_from(("down", "rest")), st.floats(1, 1e9)
)


@given(st.lists(samples, max_size=60))
def test_shares_are_at_most_1_and_survive_a_restart(drawn: list[tuple[str, str, float]]) -> None:
    one, state = RelativeWeights(), TypeAdapter(RelativeWeights)
    for policy, stratum, weight in drawn:
        two = state.validate_json(state.dump_json(one))
        share = one.share(policy, stratum, weight)
        assert 0 <= share <= 1
        assert two.share(policy, stratum, weight) == share


def test_remembered_policies_are_bounded() -> None:
    weights = RelativeWeights()
    for number in range(MOST_POLICIES + 5):
        weights.share(f"p{number}", "rest", 3)
    assert list(weights.policies) == [f"p{number}" for number in range(5, MOST_POLICIES + 5)]
