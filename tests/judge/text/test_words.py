from __future__ import annotations

import unicodedata

import pytest

from judge.text.normal import normalise
from judge.text.support import share_stem
from judge.text.words import content_words, words


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The Tower's 1,000.5 kg", ["the", "tower", "s", "1,000.5", "kg"]),
        ("Don't e-mail at 9/11", ["don't", "e", "mail", "at", "9", "11"]),
        ("東京タワー", ["東", "京", "タ", "ワ", "ー"]),
        ("H2O in the 1960s, 3rd", ["h2o", "in", "the", "1960s", "3rd"]),
        ("Nai\u0308ve हिन्दी", ["naïve", "हिन्दी"]),
        ("snake_case **bold**", ["snake", "case", "bold"]),
        ("… — !", []),
    ],
)
def test_words(text: str, expected: list[str]) -> None:
    """Words are normalised; numbers keep decimals; scripts without spaces are split by character."""
    assert [unicodedata.normalize("NFC", word.text) for word in words(text)] == [
        unicodedata.normalize("NFC", normalise(word)) for word in expected
    ]


def test_content_words_exclude_stop_words() -> None:
    """Stop words and single letters are dropped; numbers, negations and Han characters stay."""
    text = "It is not a cat of 7 and 中 x B."
    assert [(word.text, text[word.start : word.end]) for word in content_words(text)] == [
        ("not", "not"),
        ("cat", "cat"),
        ("7", "7"),
        ("中", "中"),
    ]


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        ("tower", "tower", True),
        ("completed", "completion", True),  # complet|ed, complet|ion
        ("photosynthesis", "photosynthetic", True),
        ("paris", "parisian", True),
        ("cat", "cats", False),  # the common start has only three letters
        ("internet", "international", False),  # seven letters beyond "intern"
        ("tower", "town", False),
        ("18890", "18891", False),  # numbers have no stem
        ("北", "北", True),
    ],
)
def test_forms_of_a_word(one: str, other: str, alike: bool) -> None:
    """Words match if they are equal or have a long common start and short endings."""
    assert share_stem(one, other) is alike
    assert share_stem(other, one) is alike
