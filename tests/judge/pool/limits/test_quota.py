from __future__ import annotations

import itertools

import pytest

from judge.chat import QuotaReport
from judge.pool.limits.quota import Quota

NEVER = 10_000.0


def spend(quota: Quota, *, seconds: float, cost: float = 1.0, start: float = 0.0) -> list[float]:
    """When calls go that are always wanted."""
    now, sent = start, []
    while now < start + seconds:
        waits = quota.wait_seconds(now, cost)
        if waits > 0:
            now += waits
            continue
        quota.take(now, cost)
        sent.append(now)
        now += 0.001
    return sent


def test_without_a_limit_nothing_waits() -> None:
    """Not even at a thousand calls a second."""
    assert len(spend(Quota(), seconds=1)) == 1000


def test_a_configured_limit_is_used_evenly() -> None:
    """60 a minute with the margin of 0.97: one call each 60 / 58.2 s = 1.031 s, never two within a second."""
    sent = spend(Quota(60), seconds=600)
    gaps = [after - before for before, after in itertools.pairwise(sent)]
    assert min(gaps) == pytest.approx(60 / 58.2, abs=0.01)
    # 600 s / 1.031 s = 582 calls, one more for the first.
    assert len(sent) in {582, 583}


def test_what_was_left_unused_for_a_moment_is_made_up_for() -> None:
    """600 a minute is 9.7 a second.

    After a minute of silence one second's worth may go at once, not a minute's.
    """
    quota = Quota(600)
    quota.take(0.0, 1)
    assert sum(quota.wait_seconds(60.0, 1) == 0 and quota.take(60.0, 1) > 0 for _ in range(100)) == 10


def test_a_large_call_is_paid_for_afterwards() -> None:
    """6,000 tokens a minute are 97 a second: 970 tokens go at once, and the next call waits 10 s."""
    quota = Quota(6_000)
    assert quota.wait_seconds(0.0, 970) == 0
    quota.take(0.0, 970)
    assert quota.wait_seconds(0.0, 1) == pytest.approx(10)
    # It was cheaper than thought: 97 tokens less are a second less.
    quota.settle(-97)
    assert quota.wait_seconds(0.0, 1) == pytest.approx(9)


def test_what_the_endpoint_tells_is_kept_to() -> None:
    """Told a limit of 60, or less than what is configured, the lower one holds."""
    quota = Quota(600)
    quota.report(0.0, quota.take(0.0, 1), QuotaReport(limit=60))
    assert quota.per_minute == 60
    quota.report(0.0, quota.take(0.0, 1), QuotaReport(limit=6_000))
    assert quota.per_minute == 600


def test_no_more_is_sent_than_is_left() -> None:
    """2 left as of the first call's reply, one sent since: one more goes, the next waits for the reset."""
    quota = Quota()
    first = quota.take(0.0, 1)
    quota.take(0.1, 1)
    quota.report(0.2, first, QuotaReport(remaining=2, reset_seconds=30))
    assert quota.wait_seconds(0.2, 1) == 0
    quota.take(0.2, 1)
    assert quota.wait_seconds(0.2, 1) == pytest.approx(30)
    assert quota.wait_seconds(30.3, 1) == 0


def test_an_older_reply_does_not_overrule_a_newer_one() -> None:
    """Replies overtake each other; the one to the later call counts."""
    quota = Quota()
    first, second = quota.take(0.0, 1), quota.take(0.1, 1)
    quota.report(0.3, second, QuotaReport(remaining=0, reset_seconds=10))
    quota.report(0.4, first, QuotaReport(remaining=1, reset_seconds=10))
    assert quota.wait_seconds(0.4, 1) == pytest.approx(9.9)


def test_nobody_is_believed_to_have_nothing_left_for_hours() -> None:
    """A reset in a day: asked again after a minute."""
    quota = Quota()
    quota.report(0.0, quota.take(0.0, 1), QuotaReport(remaining=0, reset_seconds=86_400))
    assert quota.wait_seconds(0.0, 1) == 60
