"""The demo's balance of events, computed from its topics."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from schemas import DeadLetter, DeadLetterReason, JudgeTask, Source
from streams.demo.accounting import POSITION_HEADER, Accounts
from streams.settings.broker import TopicSettings
from tests.streams.results import START, alert, failed, scored, task_of, unscored


def task(offset: int, metric: str = "relevance") -> JudgeTask:
    return task_of(scored(offset, 1, metric=metric))


def letter(offset: int, reason: DeadLetterReason, topic: str = "qa.events") -> DeadLetter:
    return DeadLetter(
        reason=reason, detail="d", topic=topic, partition=0, offset=offset, key=None, value=b"",
        value_bytes=0, failed_at=START,
    )  # fmt: skip


def accounts(events: int = 0, *messages: Any) -> Accounts:
    """Accounts of as many events, each with its offset as its position, and of messages."""
    made = Accounts(TopicSettings())
    for offset in range(events):
        headers = [(POSITION_HEADER, str(offset).encode())]
        made.take(
            SimpleNamespace(topic="qa.events", partition=0, offset=offset, headers=headers, value=b"{}")
        )
    for one in messages:
        made.add(one)
    return made


WHOLE = (
    letter(0, "undecodable"), letter(1, "unroutable"), letter(2, "invalid_task", "judge.tasks.coverage"),
    task(3), task(3, "coverage"), task(4), task(5), task(5, "coverage"),
    scored(3, 5), scored(3, 4, metric="coverage"), unscored(4), failed(5),
)  # fmt: skip
"""Six events: one undecodable, one unroutable, one skipped, three sampled with five tasks."""


@pytest.mark.parametrize(
    ("skipped", "more", "lost", "in_flight"),
    [
        (1, (), 0, 0),
        (1, (task(3), scored(3, 5), letter(0, "undecodable")), 0, 0),  # repeats
        (0, (), 1, 0),
        (2, (), -1, 0),
        (1, (task(4, "coverage"),), 0, 1),
    ],
)
def test_adds_up(skipped: int, more: Sequence[Any], lost: int, in_flight: int) -> None:
    """6 = 1 undecodable + 1 unroutable + 1 skipped + 3 sampled; 5 tasks = 4 results + 1 dead letter."""
    assert accounts(6, *WHOLE, *more).balance(skipped) == {
        "read": 6, "undecodable": 1, "unroutable": 1, "skipped": skipped, "sampled": 3,
        "tasks": 5 + in_flight, "scored": 2, "unscored": 1, "failed": 1, "task_dead_letters": 1,
        "in_flight": in_flight, "lost": lost,
    }  # fmt: skip


def test_the_same_event_id_in_two_records_is_two_events_read_and_one_result() -> None:
    first = task(0)
    second = first.model_copy(update={"source": Source(topic="qa.events", partition=0, offset=1)})
    balance = accounts(2, first, second, scored(0, 5)).balance(skipped=0)
    assert (balance["read"], balance["sampled"], balance["tasks"], balance["scored"]) == (2, 2, 1, 1)
    assert (balance["lost"], balance["in_flight"]) == (0, 0)


def test_means_are_weighted_and_split_at_half_way() -> None:
    """Before: 5 with weight 1 and 2 with weight 1/0.5 = 2: (5 + 2 * 2) / 3 = 3. After: 1."""
    results = (scored(0, 5), scored(1, 2, probability=0.5), scored(2, 1), unscored(3))
    before, after = accounts(4, *results).halves("relevance", half_way=2)
    assert before.mean == pytest.approx(3)
    assert after.mean == pytest.approx(1)
    assert after.count == 1


def test_a_repeated_alert_counts_once() -> None:
    repeated = [alert(*one) for one in (("a", "drop"), ("a", "drop"), ("b", "recovered"))]
    assert len(accounts(0, *repeated).alerts) == 2
