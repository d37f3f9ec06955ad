from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from judge.text.overlap import Vocabulary, are_forms

STEMS = st.sampled_from(
    [
        "valid",
        "build",
        "nation",
        "test",
        "comp",
        "na\u00efv",
        "stra\u00dfe",
        "ab",
        "a1b2",
        "\u0434\u043e\u043c\u0430",
    ]
)
ENDINGS = st.sampled_from(
    [
        "",
        "s",
        "ed",
        "ing",
        "ation",
        "able",
        "e",
        "er",
        "ers",
        "al",
        "x",
        "\u0439",
        "\u0430\u043c\u0438",
        "tional",
        "ism",
        "ist",
    ]
)
WORDS = st.builds(lambda stem, ending: stem + ending, STEMS, ENDINGS)


@given(st.lists(WORDS, max_size=8), WORDS)
def test_a_vocabulary_finds_what_comparing_all_words_finds(words: list[str], word: str) -> None:
    """The look-up by stems is the comparison with each word, in a few steps."""
    assert (word in Vocabulary(words)) is any(are_forms(word, other) for other in words)
