"""A rate limit learned from refusals."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable

import pytest

from judge.chat import QuotaReport
from judge.pool.limits.quota import LearnedQuota


def test_a_refusal_sets_the_limit_to_the_granted_calls() -> None:
    """Of ten calls the last two are refused, with a pause of 50 s after 10 s: eight a minute.

    A refusal directly after it changes nothing.
    """
    quota = LearnedQuota()
    for second in range(10):
        quota.take(float(second), 1)
    quota.refused(10.0, 50.0)
    quota.refused_too()
    assert quota.per_minute == 8
    quota.take(60.0, 1)
    quota.refused(60.0, 1.0)
    assert quota.per_minute == 8


def test_an_endpoint_that_grants_nothing_sets_no_limit() -> None:
    """Refusals of every call teach no limit."""
    quota = LearnedQuota()
    for _ in range(4):
        quota.take(0.0, 1)
    quota.refused(0.1, 40.0)
    for _ in range(3):
        quota.refused_too()
    assert quota.per_minute is None


@pytest.mark.parametrize(("answered_between", "limit"), [(False, None), (True, 10)])
def test_refusals_that_no_pause_ends_set_no_limit(answered_between: bool, limit: float | None) -> None:
    """If pauses do not end the refusals, the limit from before them is restored: none, or that of a minute
    with an answer.
    """
    quota = LearnedQuota()
    for _ in range(11):
        quota.take(0.0, 1)
    quota.refused(0.0, 60.0)
    quota.answered(0.1, sent_at=0.0)  # sent before the refusal: not counted
    assert quota.per_minute == 10
    if answered_between:
        quota.answered(60.1, sent_at=60.0)
    for second in range(62, 70):
        quota.take(second, 1)
        quota.take(second, 1)
        quota.refused(second, 1.0)
    assert quota.per_minute == 60  # one granted in each second of pause
    quota.unlearn()
    assert quota.per_minute == limit


def test_a_rare_refusal_sets_no_limit() -> None:
    """Two refusals of 200 calls teach nothing; four teach a limit: 196 granted in 50 s and a pause of 1 s."""
    quota = LearnedQuota()
    for call in range(200):
        quota.take(call / 4, 1)
    quota.refused(50.0, 1.0)
    quota.refused_too()
    assert quota.per_minute is None
    quota.refused_too()
    quota.refused_too()
    # The first call was 50 s ago.
    assert quota.per_minute == pytest.approx(196 * 60 / 51)


def test_an_endpoint_that_refuses_by_chance_is_not_asked_less_and_less() -> None:
    """With every 200th of 20 calls a second refused, the rate is at least 18 a second after ten minutes."""
    quota = LearnedQuota()
    now, paused_until, calls, asked = 0.0, 0.0, 0, Counter[int]()
    while now < 900:
        waits = max(paused_until - now, quota.wait_seconds(now, 1))
        if waits > 0:
            now += waits
            continue
        quota.take(now, 1)
        calls += 1
        asked[int(now // 60)] += 1
        if calls % 200 == 7:  # early, before any limit is known: the worst case
            quota.refused(now, 1.0)
            paused_until = now + 1
        else:
            quota.answered(now, sent_at=now)
        now += 0.05
    # 200 calls in 10 s, and a pause of 1 s: 200 / 11 = 18.2 a second.
    assert min(asked[minute] for minute in range(10, 15)) >= 18 * 60


class FixedWindow:
    """60 calls a minute, reset each minute."""

    def __init__(self) -> None:
        self.window, self.used = -1, 0

    def __call__(self, now: float) -> float | None:
        """None if the call is granted, else the seconds to wait."""
        if int(now // 60) != self.window:
            self.window, self.used = int(now // 60), 0
        if self.used >= 60:
            return 60 - now % 60
        self.used += 1
        return None


class SlidingWindow:
    """60 calls within any 60 s."""

    def __init__(self) -> None:
        self.granted: deque[float] = deque()

    def __call__(self, now: float) -> float | None:
        while self.granted and self.granted[0] <= now - 60:
            self.granted.popleft()
        if len(self.granted) >= 60:
            return self.granted[0] + 60 - now
        self.granted.append(now)
        return None


class Bucket:
    """One call a second, ten at once."""

    def __init__(self) -> None:
        self.level, self.at = 10.0, 0.0

    def __call__(self, now: float) -> float | None:
        self.level, self.at = min(10.0, self.level + now - self.at), now
        if self.level < 1:
            return 1 - self.level
        self.level -= 1
        return None


@pytest.mark.parametrize("server", [FixedWindow, SlidingWindow, Bucket])
@pytest.mark.parametrize("told", [True, False], ids=["limit told", "Retry-After alone"])
def test_sixty_a_minute_are_used_without_breaking_the_limit(
    server: Callable[[], Callable[[float], float | None]], told: bool
) -> None:
    """Over 20 minutes at least 90% of 1,200 calls are answered and at most 2% refused, for each kind of
    limit.
    """
    grant, quota = server(), LearnedQuota()
    now, paused_until, answered, refused = 0.0, 0.0, 0, 0
    while now < 1_200:
        waits = max(paused_until - now, quota.wait_seconds(now, 1))
        if waits > 0:
            now += waits
            continue
        mark = quota.take(now, 1)
        wait = grant(now)
        if wait is None:
            answered += 1
            quota.answered(now, sent_at=now)
        else:
            refused += 1
            asked = max(1.0, float(int(wait + 0.999)))  # whole seconds, as in most headers
            quota.refused(now, asked)
            paused_until = now + asked
        if told:
            quota.report(now, mark, QuotaReport(limit=60))
        now += 0.005
    assert answered >= 0.9 * 1_200
    assert refused <= 0.02 * (answered + refused)
