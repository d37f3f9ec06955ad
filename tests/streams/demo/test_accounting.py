"""The demo's balance of events, computed from its topics."""

from __future__ import annotations

import pytest

from schemas import DeadLetter, DeadLetterReason, JudgeTask, Source
from streams.demo.accounting import Accounts, Balance
from tests.streams.results import START, alert, failed, scored, task_of, unscored


def task(offset: int, metric: str = "relevance") -> JudgeTask:
    return task_of(scored(offset, 1, metric=metric))


def letter(offset: int, reason: DeadLetterReason, topic: str = "qa.events") -> DeadLetter:
    return DeadLetter(
        reason=reason, detail="d", topic=topic, partition=0, offset=offset, key=None, value=b"",
        value_bytes=0, failed_at=START,
    )  # fmt: skip


def whole() -> Accounts:
    """Six events: one undecodable, one unroutable, one skipped, three sampled with five tasks."""
    accounts = Accounts("qa.events")
    for offset in range(6):
        accounts.add_event(0, offset, offset)
    accounts.add_dead_letter(letter(0, "undecodable"))
    accounts.add_dead_letter(letter(1, "unroutable"))
    for one in (task(3), task(3, "coverage"), task(4), task(5), task(5, "coverage")):
        accounts.add_task(one)
    accounts.add_result(scored(3, 5))
    accounts.add_result(scored(3, 4, metric="coverage"))
    accounts.add_result(unscored(4))
    accounts.add_result(failed(5))
    accounts.add_dead_letter(letter(2, "invalid_task", "judge.tasks.coverage"))
    return accounts


def test_adds_up() -> None:
    """The counts add up.

    6 = 1 undecodable + 1 unroutable + 1 skipped + 3 sampled. 5 tasks = 2 scored + 1 unscored + 1 failed + 1
    dead letter.
    """
    balance = whole().balance(skipped=1)
    assert balance == Balance(
        read=6, undecodable=1, unroutable=1, skipped=1, sampled=3,
        tasks=5, scored=2, unscored=1, failed=1, task_dead_letters=1, in_flight=0, lost=0,
    )  # fmt: skip
    assert balance.holds


@pytest.mark.parametrize(("skipped", "lost"), [(0, 1), (2, -1)])
def test_an_event_without_a_trace_or_with_two_breaks_the_identity(skipped: int, lost: int) -> None:
    """A skipped count that differs from the topics gives a lost event and an unbalanced account."""
    balance = whole().balance(skipped=skipped)
    assert balance.lost == lost
    assert not balance.holds


def test_a_task_without_an_end_is_in_flight() -> None:
    accounts = whole()
    accounts.add_task(task(4, "coverage"))
    balance = accounts.balance(skipped=1)
    assert balance.in_flight == 1
    assert not balance.holds


def test_repeats_count_once() -> None:
    """Redelivered records count once."""
    accounts = whole()
    before = accounts.balance(skipped=1)
    accounts.add_task(task(3))
    assert not accounts.add_result(scored(3, 5))
    accounts.add_dead_letter(letter(0, "undecodable"))
    assert accounts.balance(skipped=1) == before


def test_the_same_event_id_in_two_records_is_two_events_read_and_one_result() -> None:
    """Two records with the same event id are two events read, two sampled and one result."""
    accounts = Accounts("qa.events")
    for offset in range(2):
        accounts.add_event(0, offset, offset)
    first = task(0)
    accounts.add_task(first)
    accounts.add_task(first.model_copy(update={"source": Source(topic="qa.events", partition=0, offset=1)}))
    accounts.add_result(scored(0, 5))
    balance = accounts.balance(skipped=0)
    assert (balance.read, balance.sampled, balance.tasks, balance.scored) == (2, 2, 1, 1)
    assert balance.holds


def test_means_are_weighted_and_split_at_half_way() -> None:
    """Means are weighted by the inverse sampling probability and split at the half.

    Before: 5 with weight 1 and 2 with weight 1/0.5 = 2: (5 + 2 * 2) / 3 = 3. After: 1.
    """
    accounts = Accounts("qa.events")
    for offset in range(4):
        accounts.add_event(0, offset, offset)
    accounts.add_result(scored(0, 5))
    accounts.add_result(scored(1, 2, probability=0.5))
    accounts.add_result(scored(2, 1))
    accounts.add_result(unscored(3))
    means = accounts.means(half_way=2)["relevance"]
    assert means.before.mean == pytest.approx(3)
    assert means.after.mean == pytest.approx(1)
    assert means.after.count == 1


def test_only_drops_count_as_alerts() -> None:
    """`drops` excludes recoveries, and a repeated alert counts once."""
    accounts = Accounts("qa.events")
    for alert_id, kind in (("a", "drop"), ("a", "drop"), ("b", "recovered")):
        accounts.add_alert(alert(alert_id, kind))
    assert accounts.drops == 1
    assert len(accounts.alerts) == 2
