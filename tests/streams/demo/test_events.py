"""The events of the demo and their questions, and its account of them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import ValidationError

from schemas import DeadLetter, DeadLetterReason, JudgeCall, JudgeTask, QAEvent, Source, Usage
from streams.batch.sources import key_of
from streams.demo.accounting import POSITION_HEADER, Accounts
from streams.demo.events import MODELS, TENANTS, is_worse, load_questions, make_record, own_records
from streams.kafka.record import Record
from streams.settings.broker import TopicSettings
from tests.places import ROOT
from tests.streams.results import START, alert, failed, scored, task_of, unscored

QUESTIONS = load_questions()
NOON = datetime(2026, 1, 5, 12, 0, tzinfo=UTC)
ANSWERS = {question.question: question for question in QUESTIONS}


def made(index: int, *, worse: bool = False) -> Any:
    return json.loads(make_record(QUESTIONS, index, worse=worse, occurred_at=NOON).value)


def test_every_question_comes_up_once_a_lap() -> None:
    """The first lap asks each question once, except those of the undecodable records, and can be repeated."""
    lap = [made(index) for index in range(len(QUESTIONS)) if index % 100 != 37]
    assert len({event["question"] for event in lap}) == len(lap) == len(QUESTIONS) - 1
    assert made(5) == lap[5]


def test_good_answers_before_and_mostly_bad_ones_after() -> None:

    def bad_share(*, worse: bool) -> float:
        events = [made(index, worse=worse) for index in range(1000) if index % 100 != 37]
        return sum(one["answer"] in ANSWERS[one["question"]].bad for one in events) / len(events)

    assert bad_share(worse=False) == 0
    # 990 draws with probabilities 0.65, 0.8 and 0.95 in equal parts: mean 0.8, standard error at most 0.013.
    assert bad_share(worse=True) == pytest.approx(0.8, abs=0.05)


def test_labels_say_what_was_deployed() -> None:
    """Of seven events the first four (0 to 3, as 2 * 3 < 7) are from the good deployment."""
    labels = made(5)["labels"]
    assert labels["model"] in MODELS
    assert labels["tenant"] in TENANTS
    versions = [json.loads(record.value)["labels"]["prompt_version"] for record in own_records(7)]
    assert versions == ["v7"] * 4 + ["v8"] * 3


@pytest.mark.parametrize("index", [37, 137, 237])
def test_one_in_a_hundred_is_no_event(index: int) -> None:
    """It is truncated, of another shape or not JSON. One in a hundred gives no metric anything to judge."""
    assert (made(73).get("reference"), made(73).get("context")) == (None, None)
    record = make_record(QUESTIONS, index, worse=False, occurred_at=NOON)
    assert record.key is None
    with pytest.raises(ValidationError):
        QAEvent.model_validate_json(record.value)


@pytest.mark.parametrize(
    ("seconds", "worse"),
    [(0, False), (19.9, False), (20, True), (64.9, True), (65, False), (124.9, False), (125, True)],
)
def test_the_endless_demo_goes_up_and_down(seconds: float, worse: bool) -> None:
    """The cycle is 20 s good, then 45 s bad and 60 s good in turn."""
    assert is_worse(seconds) is worse


def test_the_key_of_a_line_is_its_event_id_if_it_can_be_read() -> None:
    lines = [b'{"event_id": "a", "x": 1 }', b"no json", b'{"event_id": 7}', b"[1]", b'{"event_id": ""}']
    assert [key_of(line, "event_id") for line in lines] == [b"a", None, None, None, None]


def test_the_script_of_the_compose_file_prints_events() -> None:
    command = (sys.executable, ROOT / "deploy" / "compose" / "demo_events.py", "1000")
    with subprocess.Popen(command, stdout=subprocess.PIPE) as script:
        assert script.stdout is not None
        event = json.loads(script.stdout.readline())
        script.kill()
    assert event["event_id"] == "demo-000000"


# Not the project's own parser: the data must be readable by a regex of one line.
TAG = re.compile(r"\[Pages?[ -](\d+(?:(?:, |-)\d+)*)\]")
LINE_END = re.compile(r"Evidence:(?: \[Pages?[ -][\d, -]+\])+$")
NUMBER = re.compile(r"\d+(?:[.,:]\d+)*")


def _cited(line: str) -> set[int]:
    pages: set[int] = set()
    for group in TAG.findall(line):
        for part in group.split(", "):
            first, _, last = part.partition("-")
            pages.update(range(int(first), int(last or first) + 1))
    return pages


def test_good_answers_cite_pages_that_have_their_numbers_and_bad_ones_do_not() -> None:
    """A fifth of the bad ones cite no page, or a missing one."""
    unsupported: list[bool] = []
    assert len({question.question for question in QUESTIONS}) == len(QUESTIONS) >= 72
    for question in QUESTIONS:
        pages = {int(name.removeprefix("Page-")) for name in question.context}
        for line in "\n".join(question.good).splitlines():
            cited = _cited(line)
            assert LINE_END.search(line), line
            assert cited, line
            assert cited <= pages, line
            texts = " ".join(question.context[f"Page-{page}"] for page in cited)
            assert set(NUMBER.findall(line.partition("Evidence:")[0])) <= set(NUMBER.findall(texts)), line
        bad = "\n".join(question.bad).splitlines()
        unsupported += [not _cited(line) or not _cited(line) <= pages for line in bad]
    assert sum(unsupported) / len(unsupported) >= 0.2


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
        headers = ((POSITION_HEADER, str(offset).encode()),)
        made.take(Record("qa.events", 0, offset, 0.0, None, b"{}", headers))
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


def test_a_call_without_a_reply_does_not_hide_the_cost_of_others() -> None:
    call = JudgeCall(endpoint="e", model_asked="m", model_answered="m", system_fingerprint=None)
    used = {"judge": call, "usage": Usage(input_tokens=10, output_tokens=3)}
    paid, unpriced = (
        scored(n, 3).model_copy(update=used | {"cost_usd": cost}) for n, cost in ((0, 0.02), (1, None))
    )
    told = accounts(0, paid, failed(2).model_copy(update={"judge": call}))
    assert (told.spent.cost_usd, told.spent.input_tokens) == (0.02, 10)
    assert accounts(0, paid, unpriced).spent.cost_usd is None
