from __future__ import annotations

from judge.concurrency import AdaptiveLimit


def test_it_starts_at_the_most_and_is_halved_once_a_round() -> None:
    """64 calls that fail together are one lesson; the calls sent after it are the next."""
    limit = AdaptiveLimit(64)
    for _ in range(64):
        limit.overloaded(10.0, sent_at=9.0)
    assert limit.calls == 32
    limit.overloaded(11.0, sent_at=10.5)
    assert limit.calls == 16


def test_it_never_falls_below_one() -> None:
    """Somebody has to find out when it is better."""
    limit = AdaptiveLimit(4)
    for now in range(1, 10):
        limit.overloaded(float(now), sent_at=float(now))
    assert limit.calls == 1


def test_it_grows_fast_and_then_slowly() -> None:
    """Halved from 64: 16 answers lead from 32 to 48 (three quarters of 64); each further one adds 1/48 or less."""
    limit = AdaptiveLimit(64)
    limit.overloaded(1.0, sent_at=1.0)
    for _ in range(16):
        limit.answered(in_flight=64)
    assert limit.calls == 48
    for _ in range(48):
        limit.answered(in_flight=64)
    assert limit.calls == 48
    for _ in range(2):
        limit.answered(in_flight=64)
    assert limit.calls == 49


def test_a_limit_that_is_not_reached_is_not_raised() -> None:
    """Ten calls at a time prove nothing about eleven."""
    limit = AdaptiveLimit(64)
    limit.overloaded(1.0, sent_at=1.0)
    for _ in range(100):
        limit.answered(in_flight=31)
    assert limit.calls == 32


def test_after_an_outage_it_is_at_its_most_within_two_rounds() -> None:
    """A quarter at once, each answer adds one: 16, 32, 64."""
    limit = AdaptiveLimit(64)
    for now in range(1, 10):
        limit.overloaded(float(now), sent_at=float(now))
    limit.came_back()
    assert limit.calls == 16
    for round_ in (16, 32):
        for _ in range(round_):
            limit.answered(in_flight=limit.calls)
    assert limit.calls == 64
