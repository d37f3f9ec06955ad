"""Whether a statement contradicts a source, shown by numbers, units, dates, polarity or yes and no. Pure.

Precision goes before recall: a difference counts only where the rest of both sentences says that the same
thing is meant. Two numbers in sentences on different things contradict nothing, nor does a number that is
missing.
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
"""Of the source's words beside its numbers, the share that the statement must have."""
MIN_SHARED_BACK = 0.34
"""Of the statement's, the share that the source must have: a long sentence has many words by chance."""
NEIGHBOURS = 3
"""Words on each side of a number that say what it is the number of."""
MAX_QUANTITIES = 40
"""A sentence with more is a table and is not compared."""

_KINDS: dict[str, ContradictionKind] = {
    "number": "numbers_differ",
    "unit": "units_differ",
    "date": "dates_differ",
}


@dataclass(frozen=True, slots=True)
class Contradiction:
    """What differs, and the words of both sides that show it."""

    kind: ContradictionKind
    stated: str
    source: str


def contradiction(stated: str, source: str) -> Contradiction | None:
    """Return how a statement contradicts its source; None where code cannot show that it does.

    Args:
        stated: A sentence or a part of one.
        source: What it is said to agree with; a sentence or a part of one.
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
    """Remembered, for each quotation is compared with several."""
    return _Sentence(tokens(text))


class _Sentence:
    def __init__(self, row: Sequence[Token]) -> None:
        numbers = sum(token.kind in {"number", "date"} for token in row)
        self.quantities = quantities(row) if numbers <= MAX_QUANTITIES else []
        self._row = row
        taken = {place for one in self.quantities for place in range(one.place, one.end)}
        self.words = [
            (place, token.text)
            for place, token in enumerate(row)
            if token.kind == "word"
            and place not in taken
            and token.text not in STOP_WORDS
            and len(token.text) > 1
        ]
        self.vocabulary = Vocabulary(word for _, word in self.words)

    def before(self, quantity: Quantity) -> str:
        """The word or sign before a quantity, which says what it is there for: "in 1900"."""
        return self._row[quantity.place - 1].text if quantity.place else ""

    def is_like(self, source: _Sentence) -> bool:
        """Whether it has enough of a source's words, and the source of its."""
        words, said = ({word for _, word in one.words} for one in (source, self))
        if not words or not said:
            return not words and not said
        return sum(word in self.vocabulary for word in words) >= MIN_SHARED * len(words) and sum(
            word in source.vocabulary for word in said
        ) >= MIN_SHARED_BACK * len(said)

    def near(self, quantity: Quantity) -> list[str]:
        """The nearest words on both sides of a quantity."""
        before = [word for place, word in self.words if place < quantity.place][-NEIGHBOURS:]
        after = [word for place, word in self.words if place >= quantity.end][:NEIGHBOURS]
        return [*before, *after]


def number_that_differs(stated: str, source: str) -> tuple[ContradictionKind, Quantity] | None:
    """What differs in the numbers of two sentences that say the same otherwise, and the source's number."""
    mine, its = _sentence(stated), _sentence(source)
    counts = len(mine.quantities), len(its.quantities)
    if not min(counts) > 0:
        return None
    if counts[0] == counts[1] and [word for _, word in mine.words] == [word for _, word in its.words]:
        return _in_same_words(mine, its)
    return _in_like_words(mine, its) if mine.is_like(its) else _slip_of_unit(mine, its)


def has_number(sentence: str, number: Quantity) -> bool:
    """Whether a sentence has a number, in whatever unit."""
    return _has(_sentence(sentence).quantities, number)


def _in_same_words(mine: _Sentence, its: _Sentence) -> tuple[ContradictionKind, Quantity] | None:
    """Numbers in the same words: one that differs, or the same ones in other places.

    More are another statement, and those that took the words before them along are the same one in another
    order.
    """
    pairs = list(zip(mine.quantities, its.quantities, strict=True))
    differing = [pair for pair in pairs if _found(*pair) is not None]
    moved = all(
        _has(its.quantities, one) and mine.before(one) == its.before(other) for one, other in differing
    )
    return _found(*differing[0]) if len(differing) == 1 or (differing and moved) else None


def _in_like_words(mine: _Sentence, its: _Sentence) -> tuple[ContradictionKind, Quantity] | None:
    """Numbers in much the same words: one on each side that the other lacks, beside the same words."""
    left = [one for one in mine.quantities if not _has(its.quantities, one)]
    right = [one for one in its.quantities if not _has(mine.quantities, one)]
    if not left or not right or min(len(left), len(right)) > 1:
        return None
    pairs = [(one, other) for one in left for other in right if _same_place(mine, one, its, other)]
    return _found(*pairs[0]) if len(pairs) == 1 else None


def _slip_of_unit(mine: _Sentence, its: _Sentence) -> tuple[ContradictionKind, Quantity] | None:
    """One number in another unit of its kind (500 mg, 500 g), the only one of the kind on both sides."""
    if len(mine.quantities) != 1 or len(its.quantities) != 1:
        return None
    one, other = mine.quantities[0], its.quantities[0]
    if None in one.dimensions or one.dimensions != other.dimensions or difference(one, other) != "unit":
        return None
    return ("units_differ", other) if any(word in mine.vocabulary for _, word in its.words) else None


def _same_place(mine: _Sentence, one: Quantity, its: _Sentence, other: Quantity) -> bool:
    """Whether two quantities are of one kind and have a word beside them in common, or stand alone."""
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
