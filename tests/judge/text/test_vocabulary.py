from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from judge.text.overlap import Vocabulary, _is_ending
from judge.text.words import share_stem

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


def _are_forms(one: str, other: str) -> bool:
    """Whether two normalised words share a start and have usual endings.

    This is stricter than `share_stem`, under which "think" and "things" match: here that would be a proof.
    Short endings beyond ASCII count as usual.
    """
    if one == other:
        return True
    if not share_stem(one, other):
        return False
    common = next(place for place, (a, b) in enumerate(zip(one + " ", other + "\n", strict=False)) if a != b)
    return _is_ending(one[common:]) and _is_ending(other[common:])


@given(st.lists(WORDS, max_size=8), WORDS)
def test_a_vocabulary_equals_a_comparison_of_all_words(words: list[str], word: str) -> None:
    """The look-up by stems equals a comparison with every word."""
    assert (word in Vocabulary(words)) is any(_are_forms(word, other) for other in words)
