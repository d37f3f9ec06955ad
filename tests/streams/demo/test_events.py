from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import ValidationError

from schemas import QAEvent
from streams.demo.events import (
    MODELS,
    TENANTS,
    Cycle,
    bounded_records,
    file_records,
    load_questions,
    make_record,
)

QUESTIONS = load_questions()
NOON = datetime(2026, 1, 5, 12, 0, tzinfo=UTC)
ANSWERS = {question.question: question for question in QUESTIONS}


def made(index: int, *, worse: bool = False) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(make_record(QUESTIONS, index, worse=worse, occurred_at=NOON).value)
    return value


def test_every_question_comes_up_once_a_lap() -> None:
    """The first lap asks each question once, except those of the undecodable records, and can be repeated."""
    lap = [made(index) for index in range(len(QUESTIONS)) if index % 100 != 37]
    assert len({event["question"] for event in lap}) == len(lap) == len(QUESTIONS) - 1
    assert made(5) == lap[5]


def test_good_answers_before_and_mostly_bad_ones_after() -> None:
    """No answer is bad before the bad deployment, and about 80% are bad during it."""

    def bad_share(*, worse: bool) -> float:
        indexes = [index for index in range(1000) if index % 100 != 37]
        bad = sum(
            event["answer"] in ANSWERS[event["question"]].bad
            for event in (made(index, worse=worse) for index in indexes)
        )
        return bad / len(indexes)

    assert bad_share(worse=False) == 0
    # 990 draws with probabilities 0.65, 0.8 and 0.95 in equal parts: mean 0.8, standard error at most 0.013.
    assert bad_share(worse=True) == pytest.approx(0.8, abs=0.05)


def test_labels_say_what_was_deployed() -> None:
    """An event is labelled with tenant, model and prompt version; the bad deployment changes the version.

    Of seven events of a bounded run the first four (0 to 3, as 2 * 3 < 7) are from the good deployment.
    """
    labels = made(5)["labels"]
    assert labels["model"] in MODELS
    assert labels["tenant"] in TENANTS
    versions = [
        json.loads(record.value)["labels"]["prompt_version"] for record in bounded_records(QUESTIONS, 7)
    ]
    assert versions == ["v7"] * 4 + ["v8"] * 3


@pytest.mark.parametrize("index", [37, 137, 237])
def test_one_in_a_hundred_is_no_event(index: int) -> None:
    """One record in a hundred is truncated, of another shape or not JSON; it has no key and is no QAEvent."""
    record = make_record(QUESTIONS, index, worse=False, occurred_at=NOON)
    assert record.key is None
    with pytest.raises(ValidationError):
        QAEvent.model_validate_json(record.value)


def test_one_in_a_hundred_gives_no_metric_anything_to_judge() -> None:
    event = QAEvent.model_validate(made(73))
    assert event.reference is None
    assert event.context is None


@pytest.mark.parametrize(
    ("seconds", "worse"),
    [(0, False), (19.9, False), (20, True), (64.9, True), (65, False), (124.9, False), (125, True)],
)
def test_the_endless_demo_goes_up_and_down(seconds: float, worse: bool) -> None:
    """The cycle is 20 s good, then 45 s bad and 60 s good in turn."""
    assert Cycle().is_worse(seconds) is worse


def test_lines_of_a_file_are_sent_as_they_are() -> None:
    """The value is the unchanged line; the key is the event id if it can be read."""
    lines = [b'{"event_id": "a", "x": 1 }', b"no json", b'{"event_id": 7}', b"[1]", b'{"event_id": ""}']
    records = list(file_records(lines))
    assert [record.key for record in records] == [b"a", None, None, None, None]
    assert [record.value for record in records] == lines
