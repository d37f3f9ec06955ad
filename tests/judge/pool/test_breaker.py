from __future__ import annotations

import pytest

from judge.pool.breaker import Breaker


def breaker(failures: int = 10) -> Breaker:
    """One without jitter."""
    return Breaker(failures=failures, longest_pause_seconds=5, chance=lambda: 1.0)


def test_many_failures_in_a_row_open_it() -> None:
    """The tenth; the ninth does not, and an answer restarts the count."""
    one = breaker()
    assert [one.failed(0.0) for _ in range(9)] == [False] * 9
    one.answered()
    assert [one.failed(0.0) for _ in range(10)] == [False] * 9 + [True]
    assert not one.may_try(0.0)


def test_few_failures_open_it_where_nothing_was_answered_for_long() -> None:
    """Three within 3 s do not; the fourth, 3 s after the first, does."""
    one = breaker()
    assert [one.failed(now) for now in (0.0, 1.0, 2.9)] == [False] * 3
    assert one.failed(3.0)


def test_open_it_lets_one_call_through_a_pause() -> None:
    """After 1 s, then 2 s after that one failed, then 4 s, then never more than 5 s."""
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
    """The first pause is 1 s: a probe goes each second as long as none has failed."""
    one = breaker(failures=1)
    one.failed(0.0)
    for now in (1.0, 2.0, 3.0):
        assert one.may_try(now)
        one.started(now)
        assert not one.may_try(now + 0.5)


def test_any_answer_closes_it() -> None:
    """Once; the next outage starts with the short pause again."""
    one = breaker(failures=1)
    one.failed(0.0)
    one.failed(1.0)
    assert one.answered()
    assert not one.answered()
    assert one.may_try(0.0)
    one.failed(2.0)
    assert one.next_try_at == pytest.approx(3.0)


def test_pauses_differ() -> None:
    """Between a half and the whole: workers that lost the same judge do not come back at the same moment."""
    one = Breaker(failures=1, longest_pause_seconds=5, chance=lambda: 0.0)
    one.failed(0.0)
    assert one.next_try_at == pytest.approx(0.5)


def test_it_can_be_opened_for_a_given_time() -> None:
    """Where a configuration cannot work, or the endpoint asks for an hour."""
    one = breaker()
    assert one.trip(0.0, 300)
    assert not one.trip(0.0, 10)
    assert not one.may_try(299.0)
    assert one.may_try(300.0)
