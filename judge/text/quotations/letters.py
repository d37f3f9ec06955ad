"""Approximate search for quotations by letters and digits. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cached_property

from rapidfuzz.distance import Levenshtein

from judge.text.contradictions.polarity import negations
from judge.text.index import TextIndex
from judge.text.quotations.tokens import tokens_of, without_markup

MIN_SIMILARITY = 0.8
"""Minimum similarity of letters for approximate matches: 1 minus the edit distance divided by the longer
length. In `benchmarks/quotations.py` 95% of the sentences with one to three slips reach it; 97% of
paraphrased claims do not, and the others nearly copy a sentence."""
MIN_SHORT_SIMILARITY = 0.88
"""The same for quotations of fewer letters than `SHORT_CHARS`, because one word is a large part of them: "in
Rome" is no slip of "in Paris"."""
SHORT_CHARS = 40
MIN_FUZZY_CHARS = 12
"""Minimum letters for an approximate match; in shorter quotations a slip makes another word."""
MAX_FUZZY_CHARS = 1500
"""Longer quotations are not matched approximately."""
MIN_BLOCK = 4
"""Consecutive letters that mark the start or end of a quotation."""

_CANDIDATES = 32
_ANCHORS = 16
_WINDOWS = 3


def needed_similarity(letters: int) -> float:
    """Return the minimum similarity for a quotation of this many letters."""
    return MIN_SIMILARITY if letters >= SHORT_CHARS else MIN_SHORT_SIMILARITY


class Letters:
    """The letters and digits of a text, with a mapping to its offsets.

    Args:
        text: The text.
        keep_marks: Whether list numbers are included.
    """

    def __init__(self, text: str, *, keep_marks: bool) -> None:
        self.text = without_markup(text, keep_marks=keep_marks)
        self._index = TextIndex(self.text)
        self.tokens: list[str] = []
        self._places: list[tuple[int, int]] = []  # offsets in the index's normal form
        self._starts: list[int] = []  # in `row`
        parts: list[str] = []
        size = 0
        for start, end, token in tokens_of(self._index.normal):
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
        """Return the first exact occurrence of these letters from an offset on, at word boundaries."""
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
        """Return the most similar place from an offset on.

        None if it is not similar enough, or its numbers differ.
        """
        earliest = self._token_at(self._row_position(begin))
        candidates = sorted(self._candidates(wanted, earliest), reverse=True)
        for similarity, tokens in candidates:
            if similarity >= needed_similarity(len(wanted.row)) and self._says_the_same(wanted, *tokens):
                return self._place(*tokens)
        return None

    def similarity(self, wanted: Letters) -> float:
        """Return the similarity of the most similar place, 0 to 1."""
        return max((similarity for similarity, _ in self._candidates(wanted, 0)), default=0.0)

    def _candidates(self, wanted: Letters, earliest: int) -> Iterator[tuple[float, tuple[int, int]]]:
        if not MIN_FUZZY_CHARS <= len(wanted.row) <= MAX_FUZZY_CHARS or not self.tokens:
            return
        for first, last in self._windows(wanted, earliest):
            tokens = self._aligned(wanted.row, first, last)
            if tokens is not None:
                yield self._likeness(wanted.row, tokens), tokens

    def _says_the_same(self, wanted: Letters, first: int, last: int) -> bool:
        """Return whether numbers and negations are equal; a difference there is no slip."""
        if _numbers(wanted.tokens) != _numbers(self.tokens[first : last + 1]):
            return False
        start, end = self._place(first, last)
        return negations(wanted.text) == negations(self.text[start:end])

    def _windows(self, wanted: Letters, earliest: int) -> Iterator[tuple[int, int]]:
        """Yield first and last token of windows that share most words with the quotation, in its order."""
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
        """Return the first few positions of each word."""
        found: dict[str, list[int]] = {}
        for number, token in enumerate(self.tokens):
            places = found.setdefault(token, [])
            if len(places) < _ANCHORS:
                places.append(number)
        return found

    def _aligned(self, wanted: str, first: int, last: int) -> tuple[int, int] | None:
        """Return the tokens of a window that align best, adjusted to whole words."""
        offset = self._starts[first]
        window = self.row[offset : self._end(last)]
        blocks = [block for block in Levenshtein.editops(wanted, window).as_matching_blocks() if block.size]
        if not blocks:
            return None
        # A few letters, or ones far from the rest, match by chance.
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
        """Return the position in `row` of the first token at or after an offset of the text."""
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


def _numbers(tokens: Sequence[str]) -> Counter[str]:
    return Counter(token for token in tokens if token[0].isdigit())
