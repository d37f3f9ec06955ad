from __future__ import annotations

import pytest

from streams.monitoring.statistics.mix import MOST_PARTS, Mix


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


def test_parts_are_bounded_and_survive_a_restart() -> None:
    mix = Mix()
    for number in range(MOST_PARTS + 5):
        for value in (0.2, 0.4):
            mix.add(f"p{number}", value + number / 1000, 2.0, count=number)
    mix.refit(50)
    again = Mix(mix.parts, mix.offsets)
    assert len(mix.parts) == MOST_PARTS
    assert all(mix.offset(f"p{number}") == again.offset(f"p{number}") for number in range(60))
    assert mix.offset(f"p{MOST_PARTS}") == 0
