"""Detect contradictions in numbers, units, dates, polarity or yes and no. Pure.

Precision over recall: a difference counts only if the rest of both sentences is about the same thing. A
missing number is no contradiction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from judge.text.contradictions.polarity import answers_differ, polarity_differs
from judge.text.contradictions.quantities import Quantity, difference, quantities
from judge.text.contradictions.reading import Token, tokens
from judge.text.overlap import Vocabulary
from judge.text.words import STOP_WORDS
from schemas import ContradictionKind

MIN_SHARED = 0.6
"""Share of the source's words, without its numbers, that the statement must have."""
MIN_SHARED_BACK = 0.34
"""Share of the statement's words that the source must have, because long sentences share words by chance."""
NEIGHBOURS = 3
"""Words on each side of a number that identify what it counts."""
MAX_QUANTITIES = 40
"""Sentences with more numbers are tables and are not compared."""

_KINDS: dict[str, ContradictionKind] = {
    "number": "numbers_differ",
    "unit": "units_differ",
    "date": "dates_differ",
}


@dataclass(frozen=True, slots=True)
class Contradiction:
    """The kind of difference, and the differing words of both sides."""

    kind: ContradictionKind
    stated: str
    source: str


def contradiction(stated: str, source: str) -> Contradiction | None:
    """Return how a statement contradicts its source; None if no contradiction is proven.

    Args:
        stated: A sentence or a part of one.
        source: The quoted source; a sentence or a part of one.
    """
    if answers_differ(stated, source):
        return Contradiction("answers_differ", stated, source)
    number = number_that_differs(stated, source)
    if number is not None:
        return Contradiction(number[0], stated, source)
    if polarity_differs(stated, source):
        return Contradiction("polarity_differs", stated, source)
    return None


@lru_cache(maxsize=64)
def _sentence(text: str) -> _Sentence:
    """Cached, because each quotation is compared with several."""
    return _Sentence(tokens(text))


class _Sentence:
    def __init__(self, row: Sequence[Token]) -> None:
        numbers = sum(token.kind in {"number", "date"} for token in row)
        self.quantities = quantities(row) if numbers <= MAX_QUANTITIES else []
        self._row = row
        taken = {place for one in self.quantities for place in range(one.place, one.end)}
        # Sentences without a quantity are not compared by their words.
        self.words = [
            (place, token.text)
            for place, token in enumerate(row if self.quantities else ())
            if token.kind == "word"
            and place not in taken
            and token.text not in STOP_WORDS
            and len(token.text) > 1
        ]
        self.texts = [word for _, word in self.words]
        self.vocabulary = Vocabulary(self.texts)

    def before(self, quantity: Quantity) -> str:
        """Return the word or sign before a quantity: "in 1900"."""
        return self._row[quantity.place - 1].text if quantity.place else ""

    def is_like(self, source: _Sentence) -> bool:
        """Return whether both sentences share enough words."""
        words, said = set(source.texts), set(self.texts)
        if not words or not said:
            return not words and not said
        equal = len(words & said)
        shared = equal + sum(word in self.vocabulary for word in words - said)
        if shared < MIN_SHARED * len(words):
            return False
        return equal + sum(word in source.vocabulary for word in said - words) >= MIN_SHARED_BACK * len(said)

    def near(self, quantity: Quantity) -> list[str]:
        """Return the nearest words on both sides of a quantity."""
        before = [word for place, word in self.words if place < quantity.place][-NEIGHBOURS:]
        after = [word for place, word in self.words if place >= quantity.end][:NEIGHBOURS]
        return [*before, *after]


def number_that_differs(stated: str, source: str) -> tuple[ContradictionKind, Quantity] | None:
    """Return the differing number of two otherwise equal sentences, and the source's number."""
    mine, its = _sentence(stated), _sentence(source)
    counts = len(mine.quantities), len(its.quantities)
    if not min(counts) > 0:
        return None
    if counts[0] == counts[1] and mine.texts == its.texts:
        return _in_same_words(mine, its)
    return _in_like_words(mine, its) if mine.is_like(its) else _slip_of_unit(mine, its)


def has_number(sentence: str, number: Quantity) -> bool:
    """Return whether a sentence has a number, in any unit."""
    return _has(_sentence(sentence).quantities, number)


def _in_same_words(mine: _Sentence, its: _Sentence) -> tuple[ContradictionKind, Quantity] | None:
    """Compare numbers in equal words: one that differs, or the same ones in other places.

    More differences mean another statement; numbers moved with the preceding words are only reordered.
    """
    pairs = list(zip(mine.quantities, its.quantities, strict=True))
    differing = [pair for pair in pairs if _found(*pair) is not None]
    moved = all(
        _has(its.quantities, one) and mine.before(one) == its.before(other) for one, other in differing
    )
    return _found(*differing[0]) if len(differing) == 1 or (differing and moved) else None


def _in_like_words(mine: _Sentence, its: _Sentence) -> tuple[ContradictionKind, Quantity] | None:
    """Compare numbers in similar words: one on each side that the other lacks, beside the same words."""
    left = [one for one in mine.quantities if not _has(its.quantities, one)]
    right = [one for one in its.quantities if not _has(mine.quantities, one)]
    if not left or not right or min(len(left), len(right)) > 1:
        return None
    pairs = [(one, other) for one in left for other in right if _same_place(mine, one, its, other)]
    return _found(*pairs[0]) if len(pairs) == 1 else None


def _slip_of_unit(mine: _Sentence, its: _Sentence) -> tuple[ContradictionKind, Quantity] | None:
    """Compare the only quantities of both sentences: the same number in another unit (500 mg, 500 g)."""
    if len(mine.quantities) != 1 or len(its.quantities) != 1:
        return None
    one, other = mine.quantities[0], its.quantities[0]
    if None in one.dimensions or one.dimensions != other.dimensions or difference(one, other) != "unit":
        return None
    return ("units_differ", other) if any(word in mine.vocabulary for _, word in its.words) else None


def _same_place(mine: _Sentence, one: Quantity, its: _Sentence, other: Quantity) -> bool:
    """Return whether both or neither are dates, and they share a neighbouring word, if there is one."""
    if (one.date is None) != (other.date is None):
        return False
    near = its.near(other)
    said = Vocabulary(mine.near(one))
    return not near or any(word in said for word in near)


def _has(given: Sequence[Quantity], one: Quantity) -> bool:
    return any(difference(one, other) == "same" for other in given)


def _found(one: Quantity, other: Quantity) -> tuple[ContradictionKind, Quantity] | None:
    kind = _KINDS.get(difference(one, other))
    return None if kind is None else (kind, other)
