"""The demo's data set has the properties that the demo's figures depend on."""

from __future__ import annotations

import json
import re
from collections import Counter
from functools import cache
from importlib.resources import files
from typing import Any

import pytest

Question = dict[str, Any]

# Not the project's own parser: the data must be readable by a regex of one line.
TAG = re.compile(r"\[Pages?[ -](\d+(?:(?:, |-)\d+)*)\]")
LINE_END = re.compile(r"Evidence:(?: \[Pages?[ -][\d, -]+\])+$")


def _raw() -> bytes:
    return (files("streams.demo") / "questions.jsonl").read_bytes()


@cache
def _questions() -> tuple[Question, ...]:
    return tuple(json.loads(line) for line in _raw().decode("utf-8").splitlines())


def _cited(line: str) -> set[int]:
    """Return the page numbers that a line cites, with lists and ranges expanded."""
    pages: set[int] = set()
    for group in TAG.findall(line):
        for part in group.split(", "):
            first, _, last = part.partition("-")
            pages.update(range(int(first), int(last or first) + 1))
    return pages


def _pages(question: Question) -> set[int]:
    return {int(name.removeprefix("Page-")) for name in question["context"]}


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("Claim. Evidence: [Page 2]", {2}),
        ("Claim. Evidence: [Page-2]", {2}),
        ("Claim. Evidence: [Page 2] [Page 3]", {2, 3}),
        ("Claim. Evidence: [Pages 2, 4]", {2, 4}),
        ("Claim. Evidence: [Pages 2-4]", {2, 3, 4}),
        ("Claim without a tag.", set()),
    ],
)
def test_cited_pages_are_read_in_every_form_that_the_data_uses(line: str, expected: set[int]) -> None:
    """`_cited` reads each form of citation in the data."""
    assert _cited(line) == expected


def test_the_file_is_small_enough_to_ship() -> None:
    """The file ships in the wheel, so it has at most 1 MB; it has at least 250 kB."""
    assert 250_000 <= len(_raw()) < 1_000_000


def test_there_are_enough_questions_with_ids_of_their_own() -> None:
    """There are at least 72 questions with unique ids that name their app."""
    questions = _questions()
    assert len(questions) >= 72
    assert len({question["id"] for question in questions}) == len(questions)
    assert all(re.fullmatch(rf"{question['app']}-\d{{3}}", question["id"]) for question in questions)


def test_every_app_has_a_share() -> None:
    """There are at least five apps with at least eight questions each."""
    apps = Counter(question["app"] for question in _questions())
    assert len(apps) >= 5
    assert min(apps.values()) >= 8


@pytest.mark.parametrize("question", _questions(), ids=lambda question: str(question["id"]))
def test_a_question_is_complete(question: Question) -> None:
    """Each question has the input of both metrics: a reference, pages, two good and two bad answers."""
    assert set(question) == {"id", "app", "question", "reference", "context", "good", "bad"}
    assert question["question"].strip()
    assert question["reference"].strip()
    assert 4 <= len(question["context"]) <= 8
    assert list(question["context"]) == [f"Page-{n}" for n in range(1, len(question["context"]) + 1)]
    assert all(60 <= len(text.split()) <= 160 for text in question["context"].values())
    assert len(question["good"]) == 2
    assert len(question["bad"]) == 2
    assert len(set(question["good"] + question["bad"])) == 4


@pytest.mark.parametrize("question", _questions(), ids=lambda question: str(question["id"]))
def test_a_good_answer_cites_pages_that_exist(question: Question) -> None:
    """Each line of a good answer ends with a citation of pages that exist."""
    for answer in question["good"]:
        lines = answer.splitlines()
        assert 3 <= len(lines) <= 5
        for line in lines:
            assert LINE_END.search(line), line
            assert _cited(line), line
            assert _cited(line) <= _pages(question), line


@pytest.mark.parametrize("question", _questions(), ids=lambda question: str(question["id"]))
def test_numbers_of_a_good_answer_stand_on_its_pages(question: Question) -> None:
    """Each number in a line of a good answer occurs on a page that the line cites."""
    number = re.compile(r"\d+(?:[.,:]\d+)*")
    for answer in question["good"]:
        for line in answer.splitlines():
            claim, _, _ = line.partition("Evidence:")
            pages = " ".join(question["context"][f"Page-{page}"] for page in _cited(line))
            assert set(number.findall(claim)) <= set(number.findall(pages)), line


def test_no_page_is_used_twice() -> None:
    """Page texts are unique."""
    texts = [text for question in _questions() for text in question["context"].values()]
    assert len(set(texts)) == len(texts)


def test_bad_answers_show_what_a_judge_has_to_find() -> None:
    """At least a fifth of the lines of bad answers cite no page or a missing page."""
    lines = [
        (line, _pages(question))
        for question in _questions()
        for answer in question["bad"]
        for line in answer.splitlines()
    ]
    unsupported = [line for line, pages in lines if not _cited(line) or not _cited(line) <= pages]
    assert len(unsupported) / len(lines) >= 0.2
