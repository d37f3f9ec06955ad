from __future__ import annotations

import pytest

from judge.pool.breaker import Breaker


def breaker(failures: int = 10) -> Breaker:
    """A breaker without jitter."""
    return Breaker(failures=failures, longest_pause_seconds=5, chance=lambda: 1.0)


def test_many_failures_in_a_row_open_it() -> None:
    """The tenth consecutive failure opens the breaker; an answer resets the count."""
    one = breaker()
    assert [one.failed(0.0) for _ in range(9)] == [False] * 9
    one.answered()
    assert [one.failed(0.0) for _ in range(10)] == [False] * 9 + [True]
    assert not one.may_try(0.0)


def test_failures_over_three_seconds_open_it() -> None:
    """Failures that span 3 s without an answer open the breaker."""
    one = breaker()
    assert [one.failed(now) for now in (0.0, 1.0, 2.9)] == [False] * 3
    assert one.failed(3.0)


def test_open_it_lets_one_call_through_a_pause() -> None:
    """An open breaker allows one call after pauses of 1, 2, 4 and then always 5 s."""
    one = breaker(failures=1)
    one.failed(0.0)
    now = 0.0
    for pause in (1.0, 2.0, 4.0, 5.0, 5.0):
        assert not one.may_try(now + pause - 0.01)
        now += pause
        assert one.may_try(now)
        one.started(now)
        assert not one.may_try(now)
        one.failed(now)


def test_a_probe_that_hangs_does_not_keep_the_next_from_going() -> None:
    """While no probe has failed, one is sent each second."""
    one = breaker(failures=1)
    one.failed(0.0)
    for now in (1.0, 2.0, 3.0):
        assert one.may_try(now)
        one.started(now)
        assert not one.may_try(now + 0.5)


def test_any_answer_closes_it() -> None:
    """An answer closes the breaker; the next outage starts with the shortest pause."""
    one = breaker(failures=1)
    one.failed(0.0)
    one.failed(1.0)
    assert one.answered()
    assert not one.answered()
    assert one.may_try(0.0)
    one.failed(2.0)
    assert one.next_try_at == pytest.approx(3.0)


def test_pauses_differ() -> None:
    """Jitter shortens a pause by up to a half, so that workers do not retry together."""
    one = Breaker(failures=1, longest_pause_seconds=5, chance=lambda: 0.0)
    one.failed(0.0)
    assert one.next_try_at == pytest.approx(0.5)


def test_it_can_be_opened_for_a_given_time() -> None:
    """`trip` opens the breaker for a given time; a shorter trip does not reduce it."""
    one = breaker()
    assert one.trip(0.0, 300)
    assert not one.trip(0.0, 10)
    assert not one.may_try(299.0)
    assert one.may_try(300.0)
