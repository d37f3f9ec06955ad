from __future__ import annotations

import pytest

from streams.monitoring.measures import lowest_third, mean_of, share_at_most, share_of


def test_amount_goodness_and_back() -> None:
    """A higher share of low scores is worse, and a lower mean is worse."""
    mean = mean_of(1, 5, min_drop=0.1)
    assert (mean.amount(4), mean.goodness(4), mean.reported(0.75)) == (4, 0.75, 4)
    share = share_at_most(2, min_rise=0.02)
    assert [share.amount(score) for score in (1, 2, 3)] == [1, 1, 0]
    assert (share.goodness(1), share.goodness(0)) == (0, 1)
    assert share.reported(0.9) == pytest.approx(0.1)


def test_labels_and_booleans_are_watched_by_their_share() -> None:
    """A lower share of "yes" is worse, a higher share of "unsafe" is worse; True is 1."""
    yes = share_of("share_yes", ["yes"], worse="down", min_change=0.05)
    assert (yes.goodness(yes.amount("yes")), yes.goodness(yes.amount("no"))) == (1, 0)
    unsafe = share_of("share_unsafe", ["unsafe", "harmful"], worse="up", min_change=0.05)
    assert (unsafe.goodness(unsafe.amount("harmful")), unsafe.goodness(unsafe.amount("fine"))) == (0, 1)
    passed = share_of("share_passed", [True], worse="down", min_change=0.05)
    assert (passed.amount(1), passed.amount(0)) == (1, 0)
    with pytest.raises(TypeError, match="needs numbers, got the label 'yes'"):
        mean_of(0, 1, min_drop=0.1).amount("yes")


@pytest.mark.parametrize(
    ("lowest", "highest", "level"), [(1, 5, 2), (0, 5, 1), (0, 100, 33), (0, 1, 1 / 3), (0, 10, 3)]
)
def test_the_lowest_third_of_a_scale(lowest: float, highest: float, level: float) -> None:
    assert lowest_third(lowest, highest) == pytest.approx(level)
