from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge.offline.lexical import MAX_SENTENCE_TOKENS, Match, Searched, Statement, split, stem, tokens


def best(statement: str, text: str) -> Match | None:
    return Searched(text).best(Statement(tokens(statement)))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("towers", "tower"),
        ("completed", "completion"),
        ("planned", "planning"),
        ("studies", "study"),
        ("1,000", "1000"),
        ("20th", "20"),
        ("three", "3"),
        ("treatment", "treatments"),
    ],
)
def test_forms_of_a_word_have_one_stem(one: str, other: str) -> None:
    """Endings, thousands' commas, ordinals and spelled numbers do not matter."""
    assert stem(one) == stem(other)


@pytest.mark.parametrize(
    ("one", "other"), [("1889", "1899"), ("1.5", "15"), ("glass", "glasses's"), ("1,5", "15")]
)
def test_different_words_stay_apart(one: str, other: str) -> None:
    """A decimal comma is no thousands' comma."""
    assert stem(one) != stem(other)


@pytest.mark.parametrize("tag", ["Evidence: [Page 7]", "[3]", "[2] [3]", "[1, 2]", "evidence [Pages 2-4]"])
def test_numbers_of_tags_say_nothing(tag: str) -> None:
    """They name places, not facts."""
    assert [token.stem for token in tokens(f"Towers {tag}")] == ["tower"]


def test_a_passage_that_says_it_is_found() -> None:
    """3 of 4 words and all numbers: height 1, tower 1, 330 2, metre 1; "height" is missing: 4 of 5."""
    match = best("The height of the tower: 330 metres.", "It is grey. The tower has 330 metres. It is old.")
    assert match is not None
    assert match.holds
    assert match.share == 4 / 5
    assert (match.start, match.end) == (12, 37)


@pytest.mark.parametrize(
    ("statement", "text"),
    [
        ("The tower has 330 metres.", "The tower has 300 metres."),
        ("The tower is open on Sundays.", "The tower is not open on Sundays."),
        ("The tower isn't open on Sundays.", "The tower is open on Sundays."),
        ("Vitamin C cures colds quickly", "Zinc slows colds"),
    ],
)
def test_a_number_a_negation_or_too_few_words_decide(statement: str, text: str) -> None:
    """What differs in these does not say the same."""
    match = best(statement, text)
    assert match is not None
    assert not match.holds


def test_a_negation_elsewhere_in_the_passage_does_not_matter() -> None:
    """Only one near the words that both share."""
    match = best(
        "The tower opens on Sundays.", "The tower opens on Sundays, though guides and boats and buses do not."
    )
    assert match is not None
    assert match.holds


def test_a_statement_may_be_spread_over_two_sentences() -> None:
    """Not over three, unless asked for."""
    match = best("The grey tower has 330 metres.", "The tower is grey. It has 330 metres. It is old.")
    assert match is not None
    assert match.holds
    assert (match.start, match.end) == (0, 37)


def test_a_name_of_stop_words_is_known_by_them() -> None:
    """As in "The Who", which has no other words."""
    match = best("The Who", "It was the Who.")
    assert match is not None
    assert match.holds


def test_nothing_is_found_where_no_word_is_shared() -> None:
    """None, not a match of zero."""
    assert best("Grey towers", "Green boats.") is None
    assert best("Grey towers", "") is None


def test_long_sentences_are_cut_into_pieces() -> None:
    """A text without a full stop does not make one passage of itself."""
    pieces = split("word " * 200)
    assert [len(piece.tokens) for piece in pieces] == [MAX_SENTENCE_TOKENS, MAX_SENTENCE_TOKENS, 40]


def test_a_statement_finds_itself_among_many_alike() -> None:
    """Common words are no help, and no hindrance."""
    lines = [f"The widget {number} of the series weighs {number * 7} grams." for number in range(500)]
    match = best(lines[321], " ".join(lines))
    assert match is not None
    assert match.holds
    assert " ".join(lines)[match.start : match.end] == lines[321]


@given(st.text(max_size=200), st.text(max_size=200))
def test_any_texts_can_be_compared(statement: str, text: str) -> None:
    """The same answer each time; the share is a share; a text says what it says itself."""
    said = tokens(statement)
    if said:
        match = Searched(text).best(Statement(said))
        assert match == Searched(text).best(Statement(said))
        assert match is None or 0 < match.share <= 1
        own = Searched(statement).best(Statement(split(statement)[0].tokens)) if split(statement) else None
        assert own is None or own.share == 1
