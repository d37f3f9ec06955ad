"""Finding a quotation in a text although it was not copied character by character. Pure.

Models drop bold marks and footnotes, mend a typo, join a word that was hyphenated at a line's end, leave words out with "..." and
read a table row as a sentence. None of that is an invented quotation. So a quotation is looked for in three steps: as it
stands; by its letters and digits alone, without markup, punctuation, case and accents; and by an alignment that
allows a few slips, but no other number and no other negation. The place found is one of the text, at edges of words.

A search takes time linear in the text: candidates are few and bounded, and an alignment looks at a window as long as the quotation.
"""

from __future__ import annotations

import html
import re
import unicodedata
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice, pairwise
from typing import Literal

from rapidfuzz.distance import Levenshtein

from judge.text.contradictions.polarity import negations
from judge.text.index import UNSPACED, TextIndex

MIN_SIMILARITY = 0.8
"""Of the letters of a quotation that is not found otherwise, the share that must agree (1 less the edit distance by the longer length).
In `benchmarks/quotations.py` 95 in 100 sentences with one to three slips reach it; of the claims that answers make in words of their own
97 in 100 do not, and those that do nearly copy a sentence."""
MIN_SHORT_SIMILARITY = 0.88
"""The same for a quotation of fewer letters than `SHORT_CHARS`, of which a whole word is a fifth: "in Rome" is no slip of "in Paris"."""
SHORT_CHARS = 40
MIN_FUZZY_CHARS = 12
"""Letters that a quotation must have to be aligned: of shorter ones, one slip is another word."""
MAX_FUZZY_CHARS = 1500
"""A longer quotation is not aligned."""
MAX_PIECES = 20
"""Of a quotation with dots, so many pieces are looked for."""
MIN_PIECE_WORDS = 2
"""Words that the pieces of a quotation with dots have on average: single words can be joined to anything."""

MIN_BLOCK = 4
"""Letters in a row that show where a quotation begins or ends."""

_CANDIDATES = 32
_ANCHORS = 16
_WINDOWS = 3

_ENTITY = r"&(?:[a-zA-Z][a-zA-Z0-9]{1,31}|#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6});"
_MARKUP = re.compile(
    rf"(?P<entity>{_ENTITY})"
    r"|</?[a-zA-Z][^<>]{0,300}>"
    # What follows a link's text: its address.
    r"|\]\([^()\n]{0,500}(?:\([^()\n]{0,200}\)[^()\n]{0,200})?\)"
    r"|\[\^[\w-]{1,40}\]|\[\d{1,3}(?:\s?[,;\u2013-]\s?\d{1,3}){0,9}\]|\u3010[^\u3010\u3011\n]{1,60}\u3011"
    r"|[\u00b9\u00b2\u00b3\u2070\u2074-\u2079]{1,3}"
)
_LIST_MARK = re.compile(r"^[ \t>|*+-]{0,20}(?P<mark>\d{1,3}[.)])(?=\s)", re.MULTILINE)
_ELLIPSIS = re.compile(r"[\[(]?\s?(?:\u2026|\.\s?\.\s?\.)[.\u2026]*\s?[\])]?")
# Accents of Latin, Greek and Cyrillic, Hebrew points, Arabic vowel signs: typed or not, they leave a word what it is.
_ACCENTS = "\u0300-\u036f\u0483-\u0487\u0591-\u05c7\u0610-\u061a\u0640\u064b-\u065f\u0670\u06d6-\u06ed"
_ACCENT = re.compile(f"[{_ACCENTS}]+")
_MARKS = "".join(char for code in range(0x300, 0x11FFF) if unicodedata.category(char := chr(code))[0] == "M")
_TOKEN = re.compile(
    rf"[0-9]+(?:[.,][0-9]+)*|[^\W0-9_{UNSPACED}](?:[^\W0-9_{UNSPACED}]|[{_MARKS}])*|[{UNSPACED}][{_MARKS}]*"
)
_ASCII_TOKEN = re.compile(r"[0-9]+(?:[.,][0-9]+)*|[a-z]+")
_GROUPED = re.compile(r"[0-9]{1,3}(?:,[0-9]{3})+(?:\.[0-9]+)?")

Kind = Literal["exact", "written_otherwise", "joined", "near"]
"""exact: but for case, white space, quotes and dashes; written_otherwise: but for markup and punctuation too; joined: pieces
between dots; near: with slips."""


@dataclass(frozen=True, slots=True)
class Quotation:
    """Where a quotation stands.

    `start` and `end` (exclusive) are offsets in the text, `words` what stands there; of pieces between dots, the pieces.
    """

    start: int
    end: int
    words: str
    kind: Kind

    @property
    def place(self) -> tuple[int, int]:
        """Start and end."""
        return self.start, self.end


class Quotable:
    """A text in which quotations are looked for.

    Args:
        text: The text as it is published.
        read: What is searched in its stead, every character at the same place; an answer without its tags, say.
    """

    def __init__(self, text: str, *, read: str | None = None) -> None:
        self.text = text
        self.index = TextIndex(text)
        self._read = text if read is None else read

    def find(self, quotation: str) -> Quotation | None:
        """Find the first place where a quotation stands, or stands but for what copying does to it.

        Args:
            quotation: The words. Without a letter or digit they stand nowhere.
        """
        return next(self.find_all(quotation), None)

    def find_all(self, quotation: str) -> Iterator[Quotation]:
        """All places where it stands as it is, in order; where there is none, the one where it nearly stands."""
        found = False
        for start, end in self.index.find_all(quotation):
            found = True
            yield Quotation(start, end, self.text[start:end], "exact")
        if not found:
            inexact = self._otherwise(quotation)
            if inexact is not None:
                yield inexact

    def _otherwise(self, quotation: str) -> Quotation | None:
        pieces = [piece for piece in islice(_split(quotation), MAX_PIECES) if any(map(str.isalnum, piece))]
        if not pieces:
            return None
        if len(pieces) == 1:
            return self._piece(pieces[0], 0)
        if sum(len(_tokens(piece)) for piece in pieces) < MIN_PIECE_WORDS * len(pieces):
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
        """The first place from `begin` on: with list marks, then without them, then nearly."""
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
        if _LIST_MARK.search(self._read) is None:
            return self._letters
        return Letters(self._read, keep_marks=False)


def needed_similarity(letters: int) -> float:
    """The similarity that a quotation of so many letters needs."""
    return MIN_SIMILARITY if letters >= SHORT_CHARS else MIN_SHORT_SIMILARITY


class Letters:
    """A text as the row of its letters and digits, with the way back.

    Args:
        text: The text.
        keep_marks: Whether the numbers of a list's items belong to it.
    """

    def __init__(self, text: str, *, keep_marks: bool) -> None:
        self.text = _without_markup(text, keep_marks=keep_marks)
        self._index = TextIndex(self.text)
        self.tokens: list[str] = []
        self._places: list[tuple[int, int]] = []  # in the index's normal form
        self._starts: list[int] = []  # in `row`
        parts: list[str] = []
        size = 0
        for start, end, token in _tokens_of(self._index.normal):
            if parts and token[0].isdigit() and parts[-1][-1].isdigit():
                parts.append(" ")  # "3 4" is not 34
                size += 1
            self.tokens.append(token)
            self._places.append((start, end))
            self._starts.append(size)
            parts.append(token)
            size += len(token)
        self.row = "".join(parts)

    def find(self, wanted: Letters, begin: int) -> tuple[int, int] | None:
        """The first place from an offset on where exactly these letters stand, at edges of words."""
        if not wanted.row:
            return None
        position = self._row_position(begin)
        for _ in range(_CANDIDATES):
            position = self.row.find(wanted.row, position)
            if position < 0:
                return None
            first = self._token_at(position)
            last = self._token_at(position + len(wanted.row) - 1)
            if self._starts[first] == position and self._end(last) == position + len(wanted.row):
                return self._place(first, last)
            position = self._starts[first + 1] if first + 1 < len(self._starts) else len(self.row)
        return None

    def nearest(self, wanted: Letters, begin: int) -> tuple[int, int] | None:
        """The place from an offset on that is most like these letters, if it is like enough and its numbers are the same."""
        earliest = self._token_at(self._row_position(begin))
        candidates = sorted(self._candidates(wanted, earliest), reverse=True)
        for similarity, tokens in candidates:
            if similarity >= needed_similarity(len(wanted.row)) and self._says_the_same(wanted, *tokens):
                return self._place(*tokens)
        return None

    def similarity(self, wanted: Letters) -> float:
        """How like the most similar place is: 1 less the edit distance by the longer length; 0 without a word in common."""
        return max((similarity for similarity, _ in self._candidates(wanted, 0)), default=0.0)

    def _candidates(self, wanted: Letters, earliest: int) -> Iterator[tuple[float, tuple[int, int]]]:
        if not MIN_FUZZY_CHARS <= len(wanted.row) <= MAX_FUZZY_CHARS or not self.tokens:
            return
        for first, last in self._windows(wanted, earliest):
            tokens = self._aligned(wanted.row, first, last)
            if tokens is not None:
                yield self._likeness(wanted.row, tokens), tokens

    def _says_the_same(self, wanted: Letters, first: int, last: int) -> bool:
        """Whether numbers and negations are the same: what differs there is no slip."""
        if _numbers(wanted.tokens) != _numbers(self.tokens[first : last + 1]):
            return False
        start, end = self._place(first, last)
        return negations(wanted.text) == negations(self.text[start:end])

    def _windows(self, wanted: Letters, earliest: int) -> Iterator[tuple[int, int]]:
        """First and last token of stretches that share most words with what is wanted, in its order."""
        votes: Counter[int] = Counter()
        for number, token in enumerate(wanted.tokens):
            for place in self._anchors.get(token, ()):
                if place >= earliest:
                    votes[(place - number) // 4] += 1
        slack = 4 + len(wanted.tokens) // 4
        for bucket, _ in votes.most_common(_WINDOWS):
            first = max(bucket * 4 - slack, earliest)
            last = min(bucket * 4 + len(wanted.tokens) + slack + 4, len(self.tokens) - 1)
            if first <= last:
                yield first, last

    @cached_property
    def _anchors(self) -> dict[str, list[int]]:
        """Where a word stands, for the first few places of each."""
        found: dict[str, list[int]] = {}
        for number, token in enumerate(self.tokens):
            places = found.setdefault(token, [])
            if len(places) < _ANCHORS:
                places.append(number)
        return found

    def _aligned(self, wanted: str, first: int, last: int) -> tuple[int, int] | None:
        """The tokens of a window that align best, widened or narrowed to whole words."""
        offset = self._starts[first]
        window = self.row[offset : self._end(last)]
        blocks = [block for block in Levenshtein.editops(wanted, window).as_matching_blocks() if block.size]
        if not blocks:
            return None
        # Few letters, or some that stand far from the rest, were matched by chance.
        largest = max(blocks, key=lambda block: block.size)
        near = [
            one
            for one in blocks
            if one.size >= min(MIN_BLOCK, largest.size)
            and abs((one.b - one.a) - (largest.b - largest.a)) <= len(wanted) // 4
        ]
        start = max(near[0].b - near[0].a, 0)
        end = min(near[-1].b + len(wanted) - near[-1].a, len(window))
        begin, final = self._token_at(offset + start), self._token_at(offset + max(end - 1, 0))
        pairs = [
            (one, other)
            for one in range(max(begin - 1, first), min(begin + 2, last) + 1)
            for other in range(max(final - 2, one), min(final + 1, last) + 1)
        ]
        return max(pairs, key=lambda pair: self._likeness(wanted, pair), default=None)

    def _likeness(self, wanted: str, tokens: tuple[int, int]) -> float:
        return Levenshtein.normalized_similarity(
            wanted, self.row[self._starts[tokens[0]] : self._end(tokens[1])]
        )

    def _row_position(self, begin: int) -> int:
        """The position in the row of the first token that begins at an offset of the text or later."""
        if not begin:
            return 0
        low, high = 0, len(self._places)
        while low < high:
            middle = (low + high) // 2
            if self._index.original(self._places[middle][0]) < begin:
                low = middle + 1
            else:
                high = middle
        return self._starts[low] if low < len(self._starts) else len(self.row)

    def _token_at(self, position: int) -> int:
        return max(bisect_right(self._starts, position) - 1, 0)

    def _end(self, token: int) -> int:
        return self._starts[token] + len(self.tokens[token])

    def _place(self, first: int, last: int) -> tuple[int, int]:
        return self._index.place(self._places[first][0], self._places[last][1])


def _split(quotation: str) -> Iterator[str]:
    """The pieces between dots; dots at either end separate nothing."""
    edges = [0]
    for match in islice(_ELLIPSIS.finditer(quotation), MAX_PIECES):
        edges += match.span()
    edges.append(len(quotation))
    for start, end in list(pairwise(edges))[::2]:
        yield quotation[start:end]


def _without_markup(text: str, *, keep_marks: bool) -> str:
    """The text with blanks in place of its markup, every character where it was."""
    cleaned = (
        _MARKUP.sub(_blank, text) if any(sign in text for sign in "&<[\u3010") or not text.isascii() else text
    )
    if keep_marks:
        return cleaned
    return _LIST_MARK.sub(lambda match: " " * len(match[0]), cleaned)


def _blank(match: re.Match[str]) -> str:
    found = match[0]
    if match["entity"] is None:
        return " " * len(found)
    decoded = html.unescape(found)
    return decoded.ljust(len(found)) if len(decoded) == 1 else " " * len(found)


def _tokens_of(normal: str) -> Iterator[tuple[int, int, str]]:
    pattern = _ASCII_TOKEN if normal.isascii() else _TOKEN
    for match in pattern.finditer(normal):
        token = match[0]
        if not token.isascii():
            token = _ACCENT.sub("", token)
        elif "," in token and _GROUPED.fullmatch(token):
            token = token.replace(",", "")
        if token:
            yield match.start(), match.end(), token


def _tokens(text: str) -> Sequence[str]:
    return [token for _, _, token in _tokens_of(TextIndex(text).normal)]


def _numbers(tokens: Sequence[str]) -> Counter[str]:
    return Counter(token for token in tokens if token[0].isdigit())
