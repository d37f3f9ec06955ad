from __future__ import annotations

import pytest

from streams.monitoring.measures import Measure, lowest_third, mean_of, share_at_most


def test_amount_goodness_and_back() -> None:
    """A higher share of low scores is worse, and a lower mean is worse."""
    mean = mean_of(1, 5, min_drop=0.1)
    assert (mean.amount(4), mean.goodness(4), mean.reported(0.75)) == (4, 0.75, 4)
    share = share_at_most(2, min_rise=0.02)
    assert [share.amount(score) for score in (1, 2, 3)] == [1, 1, 0]
    assert (share.goodness(1), share.goodness(0)) == (0, 1)
    assert share.reported(0.9) == pytest.approx(0.1)


def test_labels_are_watched_by_their_share_and_clusters_by_their_mean() -> None:
    """A higher share of 2 or 3, the numbers of two labels, is worse; scores have their mean amount."""
    unsafe = Measure(name="share_of_unsafe", worse="up", min_change=0.05, among=frozenset({2.0, 3.0}))
    assert (unsafe.goodness(unsafe.amount(2)), unsafe.goodness(unsafe.amount(1))) == (0, 1)
    assert unsafe.amount((1, 2, 3, 1)) == 0.5
    assert mean_of(0, 1, min_drop=0.1).amount((0, 1, 1)) == pytest.approx(2 / 3)


@pytest.mark.parametrize(
    ("lowest", "highest", "level"), [(1, 5, 2), (0, 5, 1), (0, 100, 33), (0, 1, 1 / 3), (0, 10, 3)]
)
def test_the_lowest_third_of_a_scale(lowest: float, highest: float, level: float) -> None:
    assert lowest_third(lowest, highest) == pytest.approx(level)
