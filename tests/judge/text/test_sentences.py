# ruff: noqa: RUF001 - the test data has lookalike characters
from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge.text.words import sentences
from tests.judge.messy import MESSY


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("One. Two! Three? Four", ["One.", "Two!", "Three?", "Four"]),
        ("Dr. Smith of the U.S. army met J. K. Rowling.", ["Dr. Smith of the U.S. army met J. K. Rowling."]),
        ("It is 3.5 m. Fig. 7 shows e.g. this.", ["It is 3.5 m.", "Fig. 7 shows e.g. this."]),
        ("1. First.\n2. Second\n- third", ["1. First.", "2. Second", "- third"]),
        ("“Yes.” She left… Then (so it is said.) No.", ["“Yes.”", "She left…", "Then (so it is said.)",
            "No."]),
        ("No. 5 is alive. The answer is no. It is.", ["No. 5 is alive.", "The answer is no.", "It is."]),
        ("東京です。大阪！いいえ", ["東京です。", "大阪！", "いいえ"]),
        ("a\r\nb\u2028c", ["a", "b", "c"]),
        ("***\n---\n", []),
        ("", []),
    ],
)  # fmt: skip
def test_sentences(text: str, expected: list[str]) -> None:
    """Stops end a sentence, except after abbreviations, initials and list marks and within numbers."""
    assert [text[start:end] for start, end in sentences(text)] == expected


@given(MESSY | st.text())
def test_sentences_hold_every_letter_once(text: str) -> None:
    places = sentences(text)
    assert all(start < end for start, end in places)
    assert all(one[1] <= other[0] for one, other in pairwise(places))
    inside = "".join(text[start:end] for start, end in places)
    assert [char for char in inside if char.isalnum()] == [char for char in text if char.isalnum()]
