"""Find quotations that were not copied character by character. Pure.

Models drop bold marks and footnotes, correct typos, join hyphenated words, omit words with "...", prefix the
page and read a table row as a sentence; such a quotation is not invented. The search has three steps:
literally; by letters and digits, without markup, punctuation, case and accents; by an alignment that
tolerates a few slips, but no other number or negation. The match is a span of the text at word boundaries. A
search takes linear time: candidates are few and bounded, and an alignment window is as long as the quotation.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import islice, pairwise
from typing import Literal

from judge.text.citations.pages import PAGE_WORDS
from judge.text.index import TextIndex
from judge.text.quotations.letters import Letters
from judge.text.quotations.tokens import LIST_MARK, tokens_of

MAX_PIECES = 20
"""Limit of pieces of a quotation with dots."""
MIN_PIECE_WORDS = 2
"""Minimum mean words per piece of a quotation with dots, because single words occur everywhere."""

_ELLIPSIS = re.compile(r"[\[(]?\s?(?:\u2026|\.\s?\.\s?\.)[.\u2026]*\s?[\])]?")

# A source named before the quotation: "Page 7: ...", "[Seite 7] ...".
_LABEL = re.compile(
    rf"[\s\"'(\[*]{{0,5}}{PAGE_WORDS}\.?[ ]?[-#]?[ ]?\d{{1,6}}"
    r"(?:[\])*]{1,3}[ ]?:?|[ ]?[:\u2013\u2014-])(?=\s)",
    re.IGNORECASE,
)

Kind = Literal["exact", "written_otherwise", "joined", "near"]
"""exact: equal except for case, white space, quotes and dashes; written_otherwise: also except for markup and
punctuation; joined: pieces between dots; near: with slips."""


@dataclass(frozen=True, slots=True)
class Quotation:
    """A match. `start` and `end` (exclusive) are offsets in the text, `words` the matched words."""

    start: int
    end: int
    words: str
    kind: Kind

    @property
    def place(self) -> tuple[int, int]:
        """Start and end."""
        return self.start, self.end


class Quotable:
    """A text in which quotations are searched.

    Args:
        text: The published text.
        read: Text to search instead, with equal offsets, such as an answer with its tags blanked out.
    """

    def __init__(self, text: str, *, read: str | None = None) -> None:
        self.text = text
        self.index = TextIndex(text)
        self._read = text if read is None else read

    def find(self, quotation: str) -> Quotation | None:
        """Return the first exact match of a quotation, else an approximate one.

        Args:
            quotation: The words; never found without a letter or digit.
        """
        return next(self.find_all(quotation), None)

    def find_all(self, quotation: str) -> Iterator[Quotation]:
        """Yield all exact matches in order, else the best approximate one."""
        found = False
        for start, end in self.index.find_all(quotation):
            found = True
            yield Quotation(start, end, self.text[start:end], "exact")
        if not found:
            inexact = self._otherwise(quotation)
            if inexact is None and (label := _LABEL.match(quotation)) is not None:
                inexact = self._otherwise(quotation[label.end() :])
            if inexact is not None:
                yield inexact

    def _otherwise(self, quotation: str) -> Quotation | None:
        pieces = [piece for piece in islice(_split(quotation), MAX_PIECES) if any(map(str.isalnum, piece))]
        if not pieces:
            return None
        if len(pieces) == 1:
            return self._piece(pieces[0], 0)
        if sum(map(_word_count, pieces)) < MIN_PIECE_WORDS * len(pieces):
            return None
        found: list[Quotation] = []
        for piece in pieces:
            place = self._piece(piece, found[-1].end if found else 0)
            if place is None:
                return None
            found.append(place)
        words = " [\u2026] ".join(one.words for one in found)
        return Quotation(found[0].start, found[-1].end, words, "joined")

    def _piece(self, piece: str, begin: int) -> Quotation | None:
        """Return the first match from `begin` on: with list marks, without them, then approximately."""
        for letters, keep_marks in ((self._letters, True), (self._unmarked, False)):
            wanted = Letters(piece, keep_marks=keep_marks)
            place = letters.find(wanted, begin)
            if place is not None:
                return self._found(place, "written_otherwise")
        place = self._unmarked.nearest(Letters(piece, keep_marks=False), begin)
        return None if place is None else self._found(place, "near")

    def _found(self, place: tuple[int, int], kind: Kind) -> Quotation:
        return Quotation(*place, self.text[slice(*place)], kind)

    @cached_property
    def _letters(self) -> Letters:
        return Letters(self._read, keep_marks=True)

    @cached_property
    def _unmarked(self) -> Letters:
        if LIST_MARK.search(self._read) is None:
            return self._letters
        return Letters(self._read, keep_marks=False)


def _split(quotation: str) -> Iterator[str]:
    """Split a quotation at dots; dots at its ends are ignored."""
    edges = [0]
    for match in islice(_ELLIPSIS.finditer(quotation), MAX_PIECES):
        edges += match.span()
    edges.append(len(quotation))
    for start, end in list(pairwise(edges))[::2]:
        yield quotation[start:end]


def _word_count(text: str) -> int:
    return sum(1 for _ in tokens_of(TextIndex(text).normal))
