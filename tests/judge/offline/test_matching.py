from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge.offline.matching import Match, Searched, Statement, unmarked


def best(statement: str, text: str, *, together: int = 2) -> Match | None:
    return Searched(text, together=together).best(Statement(statement))


@pytest.mark.parametrize("mark", ["[3]", "[2] [3]", "[1, 2]", "[^4]", "[1\u20133]"])
def test_numbers_of_footnotes_say_nothing(mark: str) -> None:
    """Footnote numbers are not words of a statement."""
    assert Statement(f"Towers {mark}").words == {"towers"}
    assert len(unmarked(f"Towers {mark}")) == len(f"Towers {mark}")


def test_a_passage_that_says_it_is_found() -> None:
    """Inflections match: 3 of 4 words ("height" is missing) give a share of 3/4."""
    match = best("The height of the towers: 330 metres.", "It is grey. The tower has 330 metres. It is old.")
    assert match is not None
    assert match.share == 3 / 4
    assert match.holds(0.75)
    assert not match.holds(0.8)
    assert (match.start, match.end) == (12, 37)


@pytest.mark.parametrize(
    ("statement", "text", "reason"),
    [
        ("The tower has 330 metres.", "The tower has 300 metres.", "a number is missing"),
        ("The tower is open on Sundays.", "The tower is not open on Sundays.", "negated"),
        ("The tower isn't open on Sundays.", "The tower is open on Sundays.", "negated"),
        ("Vitamin C cures colds quickly", "Zinc slows colds", "25% of its words"),
    ],
)
def test_a_number_a_negation_or_too_few_words_decide(statement: str, text: str, reason: str) -> None:
    """A missing number, a negation or too few shared words reject a match and give the reason."""
    match = best(statement, text)
    assert match is not None
    assert not match.holds(0.5)
    assert reason in match.reason


def test_a_negation_in_another_sentence_does_not_matter() -> None:
    """A negation counts only in a sentence that says nearly the same."""
    match = best("The tower opens on Sundays.", "The tower opens on Sundays. The boats and buses do not.")
    assert match is not None
    assert match.holds(0.5)


def test_a_statement_may_be_spread_over_as_many_sentences_as_asked_for() -> None:
    """The match is the shortest passage with the highest share, within `together` sentences."""
    text = "The tower is grey. It is old. It has 330 metres. It is old."
    match = best("The grey tower has 330 metres.", text, together=3)
    assert match is not None
    assert (match.share, text[match.start : match.end]) == (
        1,
        "The tower is grey. It is old. It has 330 metres.",
    )
    apart = best("The grey tower has 330 metres.", text, together=2)
    assert apart is not None
    assert apart.share == 1 / 2


def test_a_name_of_stop_words_is_known_by_them() -> None:
    """A statement of stop words is matched by them."""
    match = best("The Who", "It was the Who.")
    assert match is not None
    assert match.share == 1


def test_without_a_shared_word_there_is_no_match() -> None:
    """Without a shared word there is no match."""
    assert best("Grey towers", "Green boats.") is None
    assert best("Grey towers", "") is None
    assert best("...", "Green boats.") is None


def test_a_statement_finds_itself_among_many_alike() -> None:
    """A statement matches itself among 500 similar ones."""
    lines = [f"The widget {number} of the series weighs {number * 7} grams." for number in range(500)]
    match = best(lines[321], " ".join(lines))
    assert match is not None
    assert match.holds(1)
    assert " ".join(lines)[match.start : match.end] == lines[321]


@given(st.text(max_size=200), st.text(max_size=200))
def test_any_texts_can_be_compared(statement: str, text: str) -> None:
    """Matching is deterministic and gives a share in (0, 1] or None."""
    match = best(statement, text)
    assert match == best(statement, text)
    assert match is None or 0 < match.share <= 1
