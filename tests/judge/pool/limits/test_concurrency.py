from __future__ import annotations

import itertools

import pytest

from judge.pool.limits.concurrency import FIRST_CALLS, FIRST_SECONDS, AdaptiveLimit, GentleStart


def test_it_starts_at_the_most_and_is_halved_once_a_round() -> None:
    """Concurrent failures halve the limit once; calls sent afterwards can halve it again."""
    limit = AdaptiveLimit(64)
    for _ in range(64):
        limit.overloaded(10.0, sent_at=9.0)
    assert limit.calls == 32
    limit.overloaded(11.0, sent_at=10.5)
    assert limit.calls == 16


def test_it_never_falls_below_one() -> None:
    """The limit stays at least 1, so that recovery is noticed."""
    limit = AdaptiveLimit(4)
    for now in range(1, 10):
        limit.overloaded(float(now), sent_at=float(now))
    assert limit.calls == 1


def test_it_grows_fast_and_then_slowly() -> None:
    """Halved from 64, 16 answers raise it from 32 to 48 (three quarters of 64).

    Then each adds at most 1/48.
    """
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
    """Answers below the limit do not raise it."""
    limit = AdaptiveLimit(64)
    limit.overloaded(1.0, sent_at=1.0)
    for _ in range(100):
        limit.answered(in_flight=31)
    assert limit.calls == 32


def test_after_an_outage_it_is_at_its_most_within_two_rounds() -> None:
    """After an outage the limit is a quarter, and each answer adds one: 16, 32, 64."""
    limit = AdaptiveLimit(64)
    for now in range(1, 10):
        limit.overloaded(float(now), sent_at=float(now))
    limit.came_back()
    assert limit.calls == 16
    for round_ in (16, 32):
        for _ in range(round_):
            limit.answered(in_flight=limit.calls)
    assert limit.calls == 64


def setting_out(start: GentleStart, *, most: int, seconds: float, until: float) -> list[float]:
    """The send times of calls that are always due and take this many seconds."""
    now, sent, answered = 0.0, list[float](), 0
    while now < until:
        while answered < len(sent) and sent[answered] + seconds <= now:
            start.answered(seconds)
            start.ended(sent[answered] + seconds)
            answered += 1
        in_flight = len(sent) - answered
        if in_flight < most and start.wait_seconds(now, in_flight) <= 0:
            start.sent(now, most)
            sent.append(now)
        else:
            now += 0.001
    return sent


def test_at_most_a_few_calls_are_sent_before_the_first_reply() -> None:
    """Four calls are sent at once; the next one follows the first reply."""
    sent = setting_out(GentleStart(), most=64, seconds=0.7, until=2)
    assert sent[FIRST_CALLS - 1] == 0
    assert sent[FIRST_CALLS] == pytest.approx(0.7, abs=0.002)


def test_an_endpoint_that_takes_its_time_is_not_waited_for() -> None:
    """Without a reply more calls are sent after 1 s."""
    sent = setting_out(GentleStart(), most=64, seconds=10, until=2)
    assert sent[FIRST_CALLS] == pytest.approx(FIRST_SECONDS, abs=0.002)


def test_calls_set_out_in_proportion_to_those_before() -> None:
    """After n calls the next one waits 0.7 s / n, so there is no burst: the 60th waits 0.7 s / 59 = 12 ms."""
    sent = setting_out(GentleStart(), most=64, seconds=0.7, until=4)
    for count in (10, 30, 59):
        assert sent[count] - sent[count - 1] == pytest.approx(0.7 / count, abs=0.003)
    # At most two calls at once after the first: a gap is 0.7 s * 0.8 / 64 = 9 ms.
    assert all(later - now > 0 for now, later in itertools.pairwise(sent[FIRST_CALLS::4]))


def test_all_calls_are_in_flight_within_seven_seconds() -> None:
    """The rate grows from 4 to 256 by e a second, ln(64) = 4.2 s; 256 calls are in flight within 7 s."""
    sent = setting_out(GentleStart(), most=256, seconds=1, until=8)
    under_way = [sum(moment - 1 < one <= moment for one in sent) for moment in range(1, 9)]
    assert next(round_ for round_, calls in enumerate(under_way, start=1) if calls >= 250) <= 7


def test_an_instant_endpoint_is_not_throttled() -> None:
    """At 5 ms a call, 1,000 calls are sent within 0.1 s."""
    sent = setting_out(GentleStart(), most=256, seconds=0.005, until=0.1)
    assert len(sent) >= 1_000
