"""The demo's data set has the properties that the demo's figures depend on."""

from __future__ import annotations

import json
import re
from collections import Counter
from importlib.resources import files
from typing import Any, Final

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


def test_the_set_is_large_and_varied_enough_and_small_enough_to_ship() -> None:
    """Each question has the input of both metrics, with pages of its own."""
    assert 250_000 <= len(RAW) < 1_000_000
    assert len({question["id"] for question in QUESTIONS}) == len(QUESTIONS) >= 72
    apps = Counter(question["app"] for question in QUESTIONS)
    assert len(apps) >= 5
    assert min(apps.values()) >= 8
    texts = [text for question in QUESTIONS for text in question["context"].values()]
    assert len(set(texts)) == len(texts)
    assert all(60 <= len(text.split()) <= 160 for text in texts)
    for question in QUESTIONS:
        assert set(question) == {"id", "app", "question", "reference", "context", "good", "bad"}
        assert list(question["context"]) == [f"Page-{n}" for n in range(1, len(question["context"]) + 1)]
        assert len(set(question["good"] + question["bad"])) == 4


def test_good_answers_cite_pages_that_have_their_numbers_and_bad_ones_do_not() -> None:
    """Each line of a good answer is supported; a fifth of the bad ones cite no page, or a missing one."""
    unsupported: list[bool] = []
    for question in QUESTIONS:
        pages = {int(name.removeprefix("Page-")) for name in question["context"]}
        for line in "\n".join(question["good"]).splitlines():
            cited = _cited(line)
            assert LINE_END.search(line), line
            assert cited, line
            assert cited <= pages, line
            texts = " ".join(question["context"][f"Page-{page}"] for page in cited)
            assert set(NUMBER.findall(line.partition("Evidence:")[0])) <= set(NUMBER.findall(texts)), line
        bad = "\n".join(question["bad"]).splitlines()
        unsupported += [not _cited(line) or not _cited(line) <= pages for line in bad]
    assert sum(unsupported) / len(unsupported) >= 0.2
