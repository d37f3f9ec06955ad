"""Detect contradictions in numbers, units, dates, plain negation, or yes and no. Pure.

Precision over recall: a difference counts only if the rest of both sentences is about the same thing. A
missing number is no contradiction; antonyms and negating forms of verbs are the judge's business.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from judge.text.passages import REMEMBERED_CHARS, Passage, Sentence, passage
from judge.text.quantities import MONTHS, Quantity
from schemas import ContradictionKind

MIN_SHARED: Final = 0.6
"""Share of the source's words, without its numbers, that the statement must have."""
MIN_SHARED_BACK: Final = 0.34
"""Share of the statement's words that the source must have, because long sentences share words by chance."""

_KINDS: Final[dict[str, ContradictionKind]] = {
    "number": "numbers_differ",
    "unit": "units_differ",
    "date": "dates_differ",
}


class TextPart(NamedTuple):
    """A quotation and the sentences that it overlaps."""

    words: str
    sentences: str


class Contradiction(NamedTuple):
    """The kind of difference, and the differing words of both sides."""

    kind: ContradictionKind
    stated: str
    source: str


def contradiction_between(narrow: TextPart, wide: TextPart) -> Contradiction | None:
    """Return how a statement and its quoted support contradict each other; None if nothing is proven.

    A number of the statement (`narrow`) that occurs anywhere in the support (`wide`) is no contradiction.
    Longer texts than a passage are not compared: each pair would read them again.
    """
    if max(map(len, (*narrow, *wide))) > REMEMBERED_CHARS:
        return None
    stated, support = map(passage, narrow), map(passage, wide)
    (mine, my_sentences), (its, its_sentences) = stated, support
    for one, other in ((mine, its), (my_sentences, its_sentences)):
        if one.answer is not None and other.answer is not None and one.answer != other.answer:
            return Contradiction("answers_differ", other.text, one.text)
    return _numbers(mine, its, its_sentences) or _negation(my_sentences, its_sentences)


def _numbers(stated: Passage, quoted: Passage, support: Passage) -> Contradiction | None:
    if stated.numbered <= support.numbered | quoted.numbered and stated.words.isdisjoint(MONTHS):
        return None  # nothing that could differ
    parts = dict.fromkeys((*quoted.sentences, *support.sentences))
    others = [other for other in parts if other.quantities]
    numbers = [number for other in others for number in other.quantities]
    for one in stated.sentences if numbers else ():
        unsaid = [number for number in one.quantities if not any(map(number.agrees, numbers))]
        for other in others if unsaid else ():
            found = _number_that_differs(other, one)
            if found is not None and found[1] in unsaid:
                return Contradiction(found[0], other.text, one.text)
    return None


def _negation(stated: Passage, support: Passage) -> Contradiction | None:
    """Compare whole sentences, because a quotation may have left out the negation."""
    if not stated.may_negate and not support.may_negate:
        return None
    for one in stated.sentences:
        for other in support.sentences:
            if one.negations % 2 != other.negations % 2 and one.said and one.said == other.said:
                return Contradiction("polarity_differs", other.text, one.text)
    return None


def _number_that_differs(mine: Sentence, its: Sentence) -> tuple[ContradictionKind, Quantity] | None:
    """Return the only number of two similar sentences that differs, and the source's number.

    More differences mean another statement.
    """
    left = [one for one in mine.quantities if not any(map(one.agrees, its.quantities))]
    right = [one for one in its.quantities if not any(map(one.agrees, mine.quantities))]
    if not left or not right or min(len(left), len(right)) > 1 or not _is_like(mine.beside, its.beside):
        return None
    same_words = mine.beside == its.beside
    pairs = [
        (one, other)
        for one in left
        for other in right
        if (same_words or (one.date is None) == (other.date is None)) and _same_place(mine, one, its, other)
    ]
    difference = pairs[0][0].difference(pairs[0][1]) if len(pairs) == 1 else None
    return None if difference is None else (_KINDS[difference], pairs[0][1])


def _is_like(said: frozenset[str], source: frozenset[str]) -> bool:
    """Return whether both sentences share enough words."""
    if not source or not said:
        return not source and not said
    shared = len(said & source)
    return shared >= MIN_SHARED * len(source) and shared >= MIN_SHARED_BACK * len(said)


def _same_place(mine: Sentence, one: Quantity, its: Sentence, other: Quantity) -> bool:
    """Return whether two quantities share a neighbouring word, if there is one."""
    near = its.near(other)
    return not near or not near.isdisjoint(mine.near(one))
