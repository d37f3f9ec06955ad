from __future__ import annotations

import itertools

import pytest

from judge.chat import QuotaReport
from judge.pool.limits.quota import Quota

NEVER = 10_000.0


def spend(quota: Quota, *, seconds: float, cost: float = 1.0, start: float = 0.0) -> list[float]:
    """The send times of calls that are always due."""
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
    """Without a limit a thousand calls a second are sent."""
    assert len(spend(Quota(), seconds=1)) == 1000


def test_a_configured_limit_is_used_evenly() -> None:
    """60 a minute with the margin of 0.97 give a call each 60 / 58.2 s = 1.031 s."""
    sent = spend(Quota(60), seconds=600)
    gaps = [after - before for before, after in itertools.pairwise(sent)]
    assert min(gaps) == pytest.approx(60 / 58.2, abs=0.01)
    # 600 s / 1.031 s = 582 calls, and the first one.
    assert len(sent) in {582, 583}


def test_one_second_of_unused_quota_is_granted_later() -> None:
    """After a minute without calls a quota of 600 a minute (9.7 a second) grants one second's calls."""
    quota = Quota(600)
    quota.take(0.0, 1)
    assert sum(quota.wait_seconds(60.0, 1) == 0 and quota.take(60.0, 1) > 0 for _ in range(100)) == 10


def test_a_large_call_is_paid_for_afterwards() -> None:
    """At 6,000 tokens a minute (97 a second) a call of 970 goes at once, and the next one waits 10 s."""
    quota = Quota(6_000)
    assert quota.wait_seconds(0.0, 970) == 0
    quota.take(0.0, 970)
    assert quota.wait_seconds(0.0, 1) == pytest.approx(10)
    # The call used 97 tokens less: one second less.
    quota.settle(-97)
    assert quota.wait_seconds(0.0, 1) == pytest.approx(9)


def test_the_lower_of_configured_and_reported_limit_applies() -> None:
    """The lower of the configured and the reported limit applies."""
    quota = Quota(600)
    quota.report(0.0, quota.take(0.0, 1), QuotaReport(limit=60))
    assert quota.per_minute == 60
    quota.report(0.0, quota.take(0.0, 1), QuotaReport(limit=6_000))
    assert quota.per_minute == 600


def test_calls_stay_within_the_reported_remainder() -> None:
    """With 2 left as of the first reply and one call sent since, one more is sent; the next waits for the
    reset.
    """
    quota = Quota()
    first = quota.take(0.0, 1)
    quota.take(0.1, 1)
    quota.report(0.2, first, QuotaReport(remaining=2, reset_seconds=30))
    assert quota.wait_seconds(0.2, 1) == 0
    quota.take(0.2, 1)
    assert quota.wait_seconds(0.2, 1) == pytest.approx(30)
    assert quota.wait_seconds(30.3, 1) == 0


def test_an_older_reply_does_not_overrule_a_newer_one() -> None:
    """The report of the latest call counts."""
    quota = Quota()
    first, second = quota.take(0.0, 1), quota.take(0.1, 1)
    quota.report(0.3, second, QuotaReport(remaining=0, reset_seconds=10))
    quota.report(0.4, first, QuotaReport(remaining=1, reset_seconds=10))
    assert quota.wait_seconds(0.4, 1) == pytest.approx(9.9)


def test_a_reported_reset_is_bounded() -> None:
    """A reset in a day is waited for at most a minute."""
    quota = Quota()
    quota.report(0.0, quota.take(0.0, 1), QuotaReport(remaining=0, reset_seconds=86_400))
    assert quota.wait_seconds(0.0, 1) == 60
