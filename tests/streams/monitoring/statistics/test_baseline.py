from __future__ import annotations

from itertools import pairwise

import pytest

from streams.monitoring.statistics.baseline import MOST_PARTS, GrowingBaseline, Mix
from streams.monitoring.statistics.season import Season, Swing, Waves, step_of, waves
from tests.streams.randomness import seeded

MORNING = 1_772_442_000.0  # Monday, 2 March 2026, 09:00 UTC
EVENING = MORNING + 12 * 3600


def test_it_looks_at_60_120_240_and_so_on() -> None:
    season = Season()
    baseline = GrowingBaseline(first=60, min_drop=0.02)
    looks = [number for number in range(1, 1001) if baseline.add(0.75, 1.0, MORNING, season)]
    assert looks == [60, 120, 240, 480, 960]
    assert baseline.looked_at.count == 960
    # Equal scores: the interval is narrower than min_drop, so the margin is min_drop.
    assert baseline.tolerated == pytest.approx(0.73)
    assert baseline.margin == pytest.approx(0.02)


def test_the_tolerated_mean_rises_with_the_samples() -> None:
    """For zeros and ones with mean 0.8 the tolerated mean rises towards 0.8 - 0.02."""
    season = Season()
    random = seeded(3)
    baseline = GrowingBaseline(first=60, min_drop=0.02)
    values = [float(random.random() < 0.8) for _ in range(60 * 2**7)]
    tolerated = [baseline.tolerated for value in values if baseline.add(value, 1.0, MORNING, season)]
    assert all(later >= earlier for earlier, later in pairwise(tolerated))
    assert tolerated[0] < 0.7
    assert 0.76 < tolerated[-1] < 0.79


def test_a_decline_does_not_lower_the_baseline() -> None:
    season = Season()
    baseline = GrowingBaseline(first=60, min_drop=0.02)
    for _ in range(240):
        baseline.add(0.9, 1.0, MORNING, season)
    before = baseline.tolerated
    for _ in range(2000):
        baseline.add(0.5, 1.0, MORNING, season)
    assert baseline.tolerated == before
    assert baseline.mean == pytest.approx(0.9)


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
    both = [
        (one + other) / 2 for one, other in zip(waves(step_of(MORNING)), waves(step_of(EVENING)), strict=True)
    ]
    assert baseline.usual == pytest.approx(both if tolerated == 0.65 else waves(step_of(MORNING)))


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
    """A part that appears after 1,000 samples has no offset of its own until there are 4,000."""
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
        for value in (0.2, 0.4):
            mix.add(f"p{number}", value + number / 1000, 2.0, count=number)
    mix.refit(50)
    assert len(mix.parts) == MOST_PARTS
    assert mix.offset(f"p{MOST_PARTS}") == 0
