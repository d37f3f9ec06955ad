"""Find quotations that were not copied character by character. Pure.

A quotation is searched literally; by letters and digits, without markup, punctuation, case and accents; by an
alignment that tolerates a few slips, but no other number or negation.
"""

from __future__ import annotations

import html
import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Final, Literal

from rapidfuzz import fuzz
from rapidfuzz.distance.Levenshtein import normalized_similarity as likeness

from judge.text.normal import TextIndex, without_lone_surrogates
from judge.text.passages import Passage, passage
from judge.text.words import Word, any_of, each_sentence, words

MIN_SIMILARITY: Final = 0.8
"""Minimum similarity of letters for approximate matches: 1 minus the edit distance divided by the longer
length. In `benchmarks/quotations.py` 95% of the sentences with one to three slips reach it; 97% of
paraphrased claims do not, and the others nearly copy a sentence."""
MIN_SHORT_SIMILARITY: Final = 0.88
"""The same below `SHORT_CHARS` letters, where one word is a large part: "in Rome" is no slip of "in
Paris"."""
SHORT_CHARS: Final = 40
MIN_FUZZY_CHARS, MAX_FUZZY_CHARS = 12, 1500
"""Letters of a quotation that is matched approximately; in shorter ones a slip makes another word."""
MAX_PIECES: Final = 20
MIN_PIECE_WORDS: Final = 2
"""Minimum mean words per piece of a quotation with dots, because single words occur everywhere."""
_CANDIDATES = 32
_ANCHORS = 16
_WINDOWS = 3

_MARKUP = re.compile(
    r"(?P<entity>&(?:[a-zA-Z][a-zA-Z0-9]{1,31}|#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6});)"
    r"|</?[a-zA-Z][^<>]{0,300}>"
    r"|\]\([^()\n]{0,500}(?:\([^()\n]{0,200}\)[^()\n]{0,200})?\)"
    r"|\[\^[\w-]{1,40}\]|\[\d{1,3}(?:\s?[,;\u2013-]\s?\d{1,3}){0,9}\]|\u3010[^\u3010\u3011\n]{1,60}\u3011"
    r"|[\u00b9\u00b2\u00b3\u2070\u2074-\u2079]{1,3}"
)
_LIST_MARK = re.compile(r"^[ \t>|*+-]{0,20}(?P<mark>\d{1,3}[.)])(?=\s)", re.MULTILINE)
_GROUPED = re.compile(r"[0-9]{1,3}(?:,[0-9]{3})+(?:\.[0-9]+)?")
_ELLIPSIS = re.compile(r"[\[(]?\s?(?:\u2026|\.\s?\.\s?\.)[.\u2026]*\s?[\])]?")
# A source named before the quotation: "Page 7: ...", "[Seite 7] ...".
_LABEL = re.compile(
    rf"[\s\"'(\[*]{{0,5}}{any_of('pages')}\.?[ ]?[-#]?[ ]?\d{{1,6}}"
    r"(?:[\])*]{1,3}[ ]?:?|[ ]?[:\u2013\u2014-])(?=\s)",
    re.IGNORECASE,
)

Kind = Literal["exact", "written_otherwise", "joined", "near"]
"""exact: equal except for case, white space, quotes and dashes; written_otherwise: also except for markup and
punctuation; joined: pieces between dots; near: with slips."""


@dataclass(frozen=True, slots=True)
class Quotation:
    """A match; the offsets are the text's."""

    start: int
    end: int
    words: str
    kind: Kind

    @property
    def place(self) -> tuple[int, int]:
        return self.start, self.end


class Quotable:
    """A text to search; `read`: what is read for inexact quotations, such as an answer without its tags."""

    def __init__(self, text: str, *, read: str | None = None) -> None:
        self.text = text
        self.index = TextIndex(text)
        self._read = text if read is None else read
        self._found: dict[str, Quotation | None] = {}
        # Sentences are read as far as they are needed.
        self._unread = each_sentence(self._read)
        self._starts: list[int] = []
        self._ends: list[int] = []

    def around(self, place: tuple[int, int], *, neighbours: int = 0) -> Passage:
        """Return the sentences that overlap a span, and some before and after."""
        beyond = max(neighbours, 1)
        while len(self._starts) < beyond or self._starts[-beyond] < place[1]:
            if (found := next(self._unread, None)) is None:
                break
            self._starts.append(found[0])
            self._ends.append(found[1])
        first = max(bisect_right(self._ends, place[0]) - neighbours, 0)
        last = min(bisect_left(self._starts, place[1]) - 1 + neighbours, len(self._starts) - 1)
        start, end = place
        if first <= last:
            start, end = min(start, self._starts[first]), max(end, self._ends[last])
        return passage(self._read[start:end])

    def find(self, quotation: str) -> Quotation | None:
        """Return the first exact match of a quotation, else an approximate one; None for a blank one."""
        if quotation not in self._found:  # a judge may quote the same words for many claims
            self._found[quotation] = next(self.find_all(quotation), None)
        return self._found[quotation]

    def find_all(self, quotation: str) -> Iterator[Quotation]:
        """Yield all exact matches in order, else the best approximate one."""
        place = None
        for place in self.index.find_all(quotation):
            yield self._quoted(place, "exact")
        if place is None:
            inexact = self._inexact(quotation)
            if inexact is None and (label := _LABEL.match(quotation)) is not None:
                inexact = self._inexact(quotation[label.end() :])
            if inexact is not None:
                yield inexact

    def _quoted(self, place: tuple[int, int], kind: Kind) -> Quotation:
        # Published: lone surrogates of the text cannot be written as UTF-8.
        return Quotation(*place, without_lone_surrogates(self.text[slice(*place)]), kind)

    def _inexact(self, quotation: str) -> Quotation | None:
        pieces = [
            piece for piece in islice(_ELLIPSIS.split(quotation), MAX_PIECES) if any(map(str.isalnum, piece))
        ]
        if not pieces:
            return None
        if len(pieces) == 1:
            return self._piece(pieces[0], 0)
        if sum(len(Letters(piece).tokens) for piece in pieces) < MIN_PIECE_WORDS * len(pieces):
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
        wanted = Letters(piece)
        place = self._letters.find(wanted, begin)
        if place is None and self._unmarked is not self._letters:
            wanted = Letters(piece, keep_marks=False)
            place = self._unmarked.find(wanted, begin)
        if place is not None:
            return self._quoted(place, "written_otherwise")
        place = self._unmarked.nearest(wanted, begin)
        return None if place is None else self._quoted(place, "near")

    @cached_property
    def _letters(self) -> Letters:
        return Letters(self._read)

    @cached_property
    def _unmarked(self) -> Letters:
        return (
            self._letters if _LIST_MARK.search(self._read) is None else Letters(self._read, keep_marks=False)
        )


class Letters:
    """A text's letters and digits in one row; `keep_marks`: whether the numbers of a list's items count."""

    def __init__(self, text: str, *, keep_marks: bool = True) -> None:
        self.text = _without_markup(text, keep_marks=keep_marks)
        self.tokens: list[str] = []
        self._words: list[Word] = []
        self._starts: list[int] = []  # in `row`
        parts: list[str] = []
        size = 0
        for word in words(self.text):
            token = unicodedata.normalize("NFKC", word.text).replace("'", "")
            if "," in token and _GROUPED.fullmatch(token):
                token = token.replace(",", "")
            if parts and token[0].isdigit() and parts[-1][-1].isdigit():
                parts.append(" ")  # "3 4" is not 34
                size += 1
            self.tokens.append(token)
            self._words.append(word)
            self._starts.append(size)
            parts.append(token)
            size += len(token)
        self.row = "".join(parts)

    def find(self, wanted: Letters, begin: int) -> tuple[int, int] | None:
        position = self._starts_at(begin)
        for _ in range(_CANDIDATES if wanted.row else 0):
            position = self.row.find(wanted.row, position)
            if position < 0:
                return None
            first, last = self._token_at(position), self._token_at(position + len(wanted.row) - 1)
            if self._starts[first] == position and self._end(last) == position + len(wanted.row):
                return self._place(first, last)
            position = self._starts[first + 1] if first + 1 < len(self._starts) else len(self.row)
        return None

    def nearest(self, wanted: Letters, begin: int) -> tuple[int, int] | None:
        needed = needed_similarity(len(wanted.row))
        for similarity, first, last in sorted(self.candidates(wanted, begin), reverse=True):
            start, end = self._place(first, last)
            if (
                similarity >= needed
                and _numbers(wanted.tokens) == _numbers(self.tokens[first : last + 1])
                and passage(wanted.text).negations == passage(self.text[start:end]).negations
            ):
                return start, end
        return None

    def candidates(self, wanted: Letters, begin: int) -> Iterator[tuple[float, int, int]]:
        """Yield the similarity, first and last token of the best alignment in each likely window."""
        if not MIN_FUZZY_CHARS <= len(wanted.row) <= MAX_FUZZY_CHARS or not self.tokens:
            return
        for first, last in self._windows(wanted, self._token_at(self._starts_at(begin))):
            offset = self._starts[first]
            found = fuzz.partial_ratio_alignment(wanted.row, self.row[offset : self._end(last)])
            if found is None:
                continue
            begun = self._token_at(offset + found.dest_start)
            ended = self._token_at(offset + found.dest_end - 1)
            # The alignment may begin or end within a word, or one word off.
            yield max(
                (likeness(wanted.row, self.row[self._starts[one] : self._end(other)]), one, other)
                for one in range(max(begun - 1, first), min(begun + 1, last) + 1)
                for other in range(max(ended - 1, one), min(ended + 1, last) + 1)
            )

    def _windows(self, wanted: Letters, earliest: int) -> Iterator[tuple[int, int]]:
        """Yield windows that share most words in order: aligning whole texts costs the product of lengths."""
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
        found: dict[str, list[int]] = {}
        for number, token in enumerate(self.tokens):
            places = found.setdefault(token, [])
            if len(places) < _ANCHORS:
                places.append(number)
        return found

    def _starts_at(self, begin: int) -> int:
        """Return the position in `row` of the first token at or after an offset of the text."""
        first = bisect_left(self._words, begin, key=lambda word: word.start)
        return self._starts[first] if first < len(self._starts) else len(self.row)

    def _token_at(self, position: int) -> int:
        return max(bisect_right(self._starts, position) - 1, 0)

    def _end(self, token: int) -> int:
        return self._starts[token] + len(self.tokens[token])

    def _place(self, first: int, last: int) -> tuple[int, int]:
        return self._words[first].start, self._words[last].end


def needed_similarity(letters: int) -> float:
    return MIN_SIMILARITY if letters >= SHORT_CHARS else MIN_SHORT_SIMILARITY


def _numbers(tokens: list[str]) -> Counter[str]:
    return Counter(token for token in tokens if token[0].isdigit())


def _without_markup(text: str, *, keep_marks: bool) -> str:
    """Blanked out, so that offsets stay the same."""
    if not text.isascii() or any(sign in text for sign in "&<["):
        text = _MARKUP.sub(_blank, text)
    return text if keep_marks else _LIST_MARK.sub(lambda match: " " * len(match[0]), text)


def _blank(match: re.Match[str]) -> str:
    decoded = html.unescape(match[0]) if match["entity"] is not None else ""
    return decoded.ljust(len(match[0])) if len(decoded) == 1 else " " * len(match[0])
