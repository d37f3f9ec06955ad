"""The demo's data set has the properties that the demo's figures depend on."""

from __future__ import annotations

import json
import re
from collections import Counter
from importlib.resources import files
from typing import Any, Final

import pytest

Question = dict[str, Any]

# Not the project's own parser: the data must be readable by a regex of one line.
TAG = re.compile(r"\[Pages?[ -](\d+(?:(?:, |-)\d+)*)\]")
LINE_END = re.compile(r"Evidence:(?: \[Pages?[ -][\d, -]+\])+$")
NUMBER = re.compile(r"\d+(?:[.,:]\d+)*")
RAW: Final = (files("streams.demo") / "questions.jsonl").read_bytes()
QUESTIONS: Final[list[Question]] = [json.loads(line) for line in RAW.decode().splitlines()]


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
        ("Claim. Evidence: [Page-2]", {2}),
        ("Claim. Evidence: [Page 2] [Page 3]", {2, 3}),
        ("Claim. Evidence: [Pages 2, 4]", {2, 4}),
        ("Claim. Evidence: [Pages 2-4]", {2, 3, 4}),
        ("Claim without a tag.", set()),
    ],
)
def test_cited_pages_are_read_in_every_form_that_the_data_uses(line: str, expected: set[int]) -> None:
    assert _cited(line) == expected


def test_the_set_is_large_and_varied_enough_and_small_enough_to_ship() -> None:
    assert 250_000 <= len(RAW) < 1_000_000
    assert len({question["id"] for question in QUESTIONS}) == len(QUESTIONS) >= 72
    apps = Counter(question["app"] for question in QUESTIONS)
    assert len(apps) >= 5
    assert min(apps.values()) >= 8
    texts = [text for question in QUESTIONS for text in question["context"].values()]
    assert len(set(texts)) == len(texts)


def test_each_question_has_the_input_of_both_metrics() -> None:
    for question in QUESTIONS:
        assert set(question) == {"id", "app", "question", "reference", "context", "good", "bad"}
        assert re.fullmatch(rf"{question['app']}-\d{{3}}", question["id"])
        assert question["question"].strip()
        assert question["reference"].strip()
        assert 4 <= len(question["context"]) <= 8
        assert list(question["context"]) == [f"Page-{n}" for n in range(1, len(question["context"]) + 1)]
        assert all(60 <= len(text.split()) <= 160 for text in question["context"].values()), question["id"]
        assert (len(question["good"]), len(question["bad"])) == (2, 2)
        assert len(set(question["good"] + question["bad"])) == 4


def test_good_answers_cite_pages_that_have_their_numbers() -> None:
    for question in QUESTIONS:
        for answer in question["good"]:
            assert 3 <= len(answer.splitlines()) <= 5
            for line in answer.splitlines():
                assert LINE_END.search(line), line
                cited = _cited(line)
                assert cited, line
                assert cited <= _pages(question), line
                claim, _, _ = line.partition("Evidence:")
                pages = " ".join(question["context"][f"Page-{page}"] for page in cited)
                assert set(NUMBER.findall(claim)) <= set(NUMBER.findall(pages)), line


def test_bad_answers_show_what_a_judge_has_to_find() -> None:
    """At least a fifth of their lines cite no page or a missing page."""
    lines = [
        (line, _pages(question))
        for question in QUESTIONS
        for answer in question["bad"]
        for line in answer.splitlines()
    ]
    unsupported = [line for line, pages in lines if not _cited(line) or not _cited(line) <= pages]
    assert len(unsupported) / len(lines) >= 0.2
