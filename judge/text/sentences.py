"""Splitting a text into sentences. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

_TITLES_AND_SUCH = """
    approx bros ca cf dept dr e.g eg etc ft gen gov i.e ie inc jr lt ltd mr mrs ms mt prof rev sen sgt sr st
    viz vs
"""
_ABBREVIATIONS = frozenset(_TITLES_AND_SUCH.split())
_NUMBERED = "art ch col eq fig figs no nos op p pp sec vol"
_BEFORE_NUMBERS = frozenset(_NUMBERED.split())
_STOPS, _AFTER_STOPS = ".!?\u2026", "\"'\u2019\u201d)\\]\u00bb"
_WIDE_STOPS, _AFTER_WIDE_STOPS = "\u3002\uff01\uff1f\uff61", "\"'\u2019\u201d\u300d\u300f\uff09"
_LINE_ENDS = "\r\n\u2028\u2029"
# One set of characters to begin with lets the search run over all others at the speed of C. Group 1 is that
# of stops.
_END = re.compile(
    f"[{_STOPS}{_WIDE_STOPS}{_LINE_ENDS}](?:"
    # A row of stops is read once, from its first on: possessively, for no shorter part of it stands before
    # white space.
    f"(?<=[{_STOPS}])(?<![{_STOPS}]{{2}})([{_STOPS}]*+[{_AFTER_STOPS}]*+)(?=\\s|$)"
    f"|(?<=[{_WIDE_STOPS}])([{_WIDE_STOPS}]*+[{_AFTER_WIDE_STOPS}]*+)"
    f"|(?<=[{_LINE_ENDS}])([{_LINE_ENDS}]*+))"
)
_LAST_WORD = re.compile(r"[^\W\d_][\w.]*$")
_LIST_MARK = re.compile(r"(?:[-*+\u2022\u2013\u2014]|\(?(?:\d{1,3}|[A-Za-z])[.)])$")


_ALPHANUMERIC = re.compile(r"[^\W_]")


def sentences(text: str) -> list[tuple[int, int]]:
    """Split a text into sentences; simple, and the same each time.

    A sentence ends at a line end, at `.`, `!`, `?` or an ellipsis before white space (not after a common
    abbreviation, an initial or a list mark, and not where the next word begins with a small letter), or at a
    full-width stop.

    Returns:
        Start and end (exclusive) of each in the text, trimmed of white space; those without a letter or digit
        are left out.
    """
    return list(each_sentence(text))


def each_sentence(text: str) -> Iterator[tuple[int, int]]:
    """The sentences of a text one after the other, no more of it read than asked for; see `sentences`."""
    start = 0
    for match in _END.finditer(text):
        end = match.end()
        if match.lastindex != 1 or _ends_sentence(text, start, match.start(), end):
            yield from _trimmed(text, start, end)
            start = end
    yield from _trimmed(text, start, len(text))


def _ends_sentence(text: str, start: int, stop: int, end: int) -> bool:
    """Whether the stops from one place to another end the sentence that began at `start`."""
    following = text[end : end + 3].lstrip()[:1]
    if following.islower():
        return False
    if end - stop > 1 or text[stop] != ".":
        return True
    if end - start < 10 and _LIST_MARK.match(text[start:end].strip()):
        return False
    # A bounded look back is enough: no abbreviation is longer.
    word = _last_word(text[max(start, stop - 20) : stop])
    if word.lower() in _ABBREVIATIONS or (len(word) == 1 and word.isupper() and word != "I"):
        return False
    return not (following.isdigit() and word.lower() in _BEFORE_NUMBERS)


def _last_word(before: str) -> str:
    """The word that a stop follows at once, with stops inside it; empty where none does."""
    last = before.rsplit(None, 1)[-1:]
    if not last or not before.endswith(last[0]):
        return ""
    if last[0].isalpha():
        return last[0]
    found = _LAST_WORD.search(last[0])
    return "" if found is None else found[0]


def _trimmed(text: str, start: int, end: int) -> tuple[tuple[int, int]] | tuple[()]:
    """The place without the white space around it; nothing where it says nothing."""
    piece = text[start:end].rstrip()
    end = start + len(piece)
    piece = piece.lstrip()
    if piece[:1].isalnum() or _ALPHANUMERIC.search(piece) is not None:
        return ((end - len(piece), end),)
    return ()
