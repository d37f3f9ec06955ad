from __future__ import annotations

import pytest

from judge.endpoints.health import Breaker


def breaker(failures: int = 10) -> Breaker:
    """A breaker without jitter."""
    return Breaker(failures=failures, longest_pause_seconds=5, chance=lambda: 1.0)


def test_many_failures_in_a_row_open_it() -> None:
    """The tenth consecutive failure opens the breaker; an answer resets the count."""
    one = breaker()
    assert [one.failed(0.0) for _ in range(9)] == [False] * 9
    one.answered()
    assert [one.failed(0.0) for _ in range(10)] == [False] * 9 + [True]


def test_failures_over_three_seconds_open_it() -> None:
    """Failures that span 3 s without an answer open the breaker."""
    one = breaker()
    assert [one.failed(now) for now in (0.0, 1.0, 2.9)] == [False] * 3
    assert one.failed(3.0)


def test_probes_follow_doubling_pauses() -> None:
    """Probes follow pauses of 1, 2, 4 and then always 5 s; after closing, of 1 s again."""
    one = breaker()
    assert one.open(0.0)
    for _pause, at in ((1.0, 1.0), (2.0, 3.0), (4.0, 7.0), (5.0, 12.0), (5.0, 17.0)):
        assert one.next_try_at == pytest.approx(at)
        one.probed(at)
        one.probe_failed(at)
    one.close()
    assert one.open(30.0)
    assert one.next_try_at == pytest.approx(31.0)


def test_a_longer_requested_pause_holds() -> None:
    one = breaker()
    assert one.open(0.0, 300)
    assert not one.open(0.0, 10)
    assert one.next_try_at == 300.0
