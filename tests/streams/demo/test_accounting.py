"""The demo's balance of events, computed from its topics."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from schemas import DeadLetter, DeadLetterReason, JudgeTask, Source
from streams.demo.accounting import POSITION_HEADER, Accounts, holds
from streams.settings import TopicSettings
from tests.streams.results import START, alert, failed, scored, task_of, unscored


def task(offset: int, metric: str = "relevance") -> JudgeTask:
    return task_of(scored(offset, 1, metric=metric))


def event(offset: int) -> SimpleNamespace:
    """A record of the events topic, its position equal to its offset."""
    headers = [(POSITION_HEADER, str(offset).encode())]
    return SimpleNamespace(topic="qa.events", partition=0, offset=offset, headers=headers, value=b"{}")


def letter(offset: int, reason: DeadLetterReason, topic: str = "qa.events") -> DeadLetter:
    return DeadLetter(
        reason=reason, detail="d", topic=topic, partition=0, offset=offset, key=None, value=b"",
        value_bytes=0, failed_at=START,
    )  # fmt: skip


def whole() -> Accounts:
    """Six events: one undecodable, one unroutable, one skipped, three sampled with five tasks."""
    accounts = Accounts(TopicSettings())
    for offset in range(6):
        accounts.take(event(offset))
    accounts.add_dead_letter(letter(0, "undecodable"))
    accounts.add_dead_letter(letter(1, "unroutable"))
    for one in (task(3), task(3, "coverage"), task(4), task(5), task(5, "coverage")):
        accounts.add_task(one)
    accounts.add_result(scored(3, 5), 0)
    accounts.add_result(scored(3, 4, metric="coverage"), 0)
    accounts.add_result(unscored(4), 0)
    accounts.add_result(failed(5), 0)
    accounts.add_dead_letter(letter(2, "invalid_task", "judge.tasks.coverage"))
    return accounts


def test_adds_up() -> None:
    """The counts add up.

    6 = 1 undecodable + 1 unroutable + 1 skipped + 3 sampled. 5 tasks = 2 scored + 1 unscored + 1 failed + 1
    dead letter.
    """
    balance = whole().balance(skipped=1)
    assert balance == {
        "read": 6, "undecodable": 1, "unroutable": 1, "skipped": 1, "sampled": 3,
        "tasks": 5, "scored": 2, "unscored": 1, "failed": 1, "task_dead_letters": 1,
        "in_flight": 0, "lost": 0,
    }  # fmt: skip
    assert holds(balance)


@pytest.mark.parametrize(("skipped", "lost"), [(0, 1), (2, -1)])
def test_an_event_without_a_trace_or_with_two_breaks_the_identity(skipped: int, lost: int) -> None:
    """A skipped count that differs from the topics gives a lost event and an unbalanced account."""
    balance = whole().balance(skipped=skipped)
    assert balance["lost"] == lost
    assert not holds(balance)


def test_a_task_without_an_end_is_in_flight() -> None:
    accounts = whole()
    accounts.add_task(task(4, "coverage"))
    balance = accounts.balance(skipped=1)
    assert balance["in_flight"] == 1
    assert not holds(balance)


def test_repeats_count_once() -> None:
    accounts = whole()
    before = accounts.balance(skipped=1)
    accounts.add_task(task(3))
    accounts.add_result(scored(3, 5), 0)
    accounts.add_dead_letter(letter(0, "undecodable"))
    assert accounts.balance(skipped=1) == before


def test_the_same_event_id_in_two_records_is_two_events_read_and_one_result() -> None:
    accounts = Accounts(TopicSettings())
    for offset in range(2):
        accounts.take(event(offset))
    first = task(0)
    accounts.add_task(first)
    accounts.add_task(first.model_copy(update={"source": Source(topic="qa.events", partition=0, offset=1)}))
    accounts.add_result(scored(0, 5), 0)
    balance = accounts.balance(skipped=0)
    assert (balance["read"], balance["sampled"], balance["tasks"], balance["scored"]) == (2, 2, 1, 1)
    assert holds(balance)


def test_means_are_weighted_and_split_at_half_way() -> None:
    """Means are weighted by the inverse sampling probability and split at the half.

    Before: 5 with weight 1 and 2 with weight 1/0.5 = 2: (5 + 2 * 2) / 3 = 3. After: 1.
    """
    accounts = Accounts(TopicSettings())
    for offset in range(4):
        accounts.take(event(offset))
    accounts.add_result(scored(0, 5), 0)
    accounts.add_result(scored(1, 2, probability=0.5), 0)
    accounts.add_result(scored(2, 1), 0)
    accounts.add_result(unscored(3), 0)
    before, after = accounts.means("relevance", half_way=2)
    assert before.mean == pytest.approx(3)
    assert after.mean == pytest.approx(1)
    assert after.count == 1


def test_a_repeated_alert_counts_once() -> None:
    accounts = Accounts(TopicSettings())
    for alert_id, kind in (("a", "drop"), ("a", "drop"), ("b", "recovered")):
        accounts.add_alert(alert(alert_id, kind))
    assert len(accounts.alerts) == 2


def test_the_level_at_first_is_known_once_it_is_not_the_current_one() -> None:
    """101 verdicts: the first 100 are the level at first (5), the latest 60 the current one (59 x 5, 1)."""
    accounts = Accounts(TopicSettings())
    for number in range(100):
        accounts.add_result(scored(number, 5), number / 10)
    assert accounts.course("relevance")[0].mean is None
    accounts.add_result(scored(100, 1), 10)
    first, now = accounts.course("relevance")
    assert first.mean == 5
    assert now.mean == pytest.approx((59 * 5 + 1) / 60)
