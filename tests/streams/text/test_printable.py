"""Text from events on a terminal."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.text.printable import printable


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("two\nlines\tand  more ", "two lines and more"),
        ("\x1b[31mred\x1b[0m", r"\x1b[31mred\x1b[0m"),
        ("a\u202eb", r"a\u202eb"),  # a right-to-left override
        ("\ud800", r"\ud800"),  # a lone surrogate, which no terminal can be sent
        ("bell\x07 nul\x00", r"bell\x07 nul\x00"),
        ("Zürich 東京", "Zürich 東京"),
        ("[bold]not markup[/bold]", "[bold]not markup[/bold]"),
    ],
)
def test_shows_text_without_letting_it_act(text: str, shown: str) -> None:
    """White space becomes single spaces, and what does not print becomes its escape."""
    assert printable(text) == shown


@pytest.mark.parametrize(
    ("limit", "shown"), [(11, "hello world"), (10, "hello wor…"), (7, "hello…"), (1, "…")]
)
def test_cuts_to_its_limit(limit: int, shown: str) -> None:
    """The ellipsis is part of the limit, and no space stands before it."""
    assert printable("hello world", limit) == shown


@given(st.text(), st.integers(min_value=1, max_value=50))
def test_is_always_one_printable_line_within_its_limit(text: str, limit: int) -> None:
    """Whatever comes in."""
    shown = printable(text, limit)
    assert shown.isprintable()
    assert len(shown) <= limit
    shown.encode()  # raises on a lone surrogate
