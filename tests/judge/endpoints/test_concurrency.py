from __future__ import annotations

from judge.endpoints.limiter import Concurrency


def test_it_starts_at_the_most_and_is_halved_once_a_round() -> None:
    """Concurrent failures halve the limit once; calls sent afterwards can halve it again."""
    limit = Concurrency(64)
    for _ in range(64):
        limit.overloaded(10.0, sent_at=9.0)
    assert limit.calls == 32
    limit.overloaded(11.0, sent_at=10.5)
    assert limit.calls == 16


def test_it_never_falls_below_one() -> None:
    """The limit stays at least 1, so that recovery is noticed."""
    limit = Concurrency(4)
    for now in range(1, 10):
        limit.overloaded(float(now), sent_at=float(now))
    assert limit.calls == 1


def test_it_grows_fast_and_then_slowly() -> None:
    """Halved from 64, 16 answers raise it from 32 to 48 (three quarters of 64).

    Then each adds at most 1/48.
    """
    limit = Concurrency(64)
    limit.overloaded(1.0, sent_at=1.0)
    for _ in range(16):
        limit.answered(64, now=99.0)
    assert limit.calls == 48
    for _ in range(48):
        limit.answered(64, now=99.0)
    assert limit.calls == 48
    for _ in range(2):
        limit.answered(64, now=99.0)
    assert limit.calls == 49


def test_a_limit_that_is_not_reached_is_not_raised() -> None:
    limit = Concurrency(64)
    limit.overloaded(1.0, sent_at=1.0)
    for _ in range(100):
        limit.answered(31, now=99.0)
    assert limit.calls == 32


def test_after_an_outage_it_is_at_its_most_within_two_rounds() -> None:
    """After an outage the limit is a quarter, and each answer adds one: 16, 32, 64."""
    limit = Concurrency(64)
    for now in range(1, 10):
        limit.overloaded(float(now), sent_at=float(now))
    limit.came_back(99.0)
    assert limit.calls == 16
    for round_ in (16, 32):
        for _ in range(round_):
            limit.answered(limit.calls, now=99.0)
    assert limit.calls == 64
