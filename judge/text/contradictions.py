"""Detect contradictions in numbers, units, dates, plain negation, or yes and no. Pure.

Precision over recall: a difference counts only if the rest of both sentences is about the same thing. A
missing number is no contradiction; antonyms and negating forms of verbs are the judge's business.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import dropwhile, islice, pairwise
from typing import Final

from judge.text.quantities import MAX_CHARS, Quantity, Token, quantities, tokens
from judge.text.support import Vocabulary
from judge.text.words import STOP_WORDS, fold, folded_words, sentences
from schemas import ContradictionKind

MAX_SENTENCES: Final = 8
"""Limit of compared sentences of a passage."""
MIN_SHARED: Final = 0.6
"""Share of the source's words, without its numbers, that the statement must have."""
MIN_SHARED_BACK: Final = 0.34
"""Share of the statement's words that the source must have, because long sentences share words by chance."""
NEIGHBOURS: Final = 3
"""Words on each side of a number that identify what it counts."""
MAX_QUANTITIES: Final = 40
"""Sentences with more numbers are tables and are not compared."""
MAX_SURPLUS: Final = 4
"""Maximum words that one of two sentences has beyond the other, before negations are compared."""

_KINDS: Final[dict[str, ContradictionKind]] = {
    "number": "numbers_differ",
    "unit": "units_differ",
    "date": "dates_differ",
}
_NEGATIONS: Final = folded_words("negations")
_NOT_ONLY: Final = folded_words("not_only")
_FILLERS: Final = folded_words("fillers")
_YES, _NO = folded_words("yes"), folded_words("no")
_TRUE, _FALSE = folded_words("true"), folded_words("false")
_MAY_ANSWER: Final = re.compile("|".join(map(re.escape, _YES | _NO | _TRUE | _FALSE)))
_AFTER_ANSWER: Final = frozenset(",.;:!-\u3002\uff0c\u3001")


@dataclass(frozen=True, slots=True)
class TextPart:
    """A quotation and the sentences that it overlaps."""

    words: str
    sentences: str


@dataclass(frozen=True, slots=True)
class Contradiction:
    """The kind of difference, and the differing words of both sides."""

    kind: ContradictionKind
    stated: str
    source: str


def contradiction_between(narrow: TextPart, wide: TextPart) -> Contradiction | None:
    """Return how a statement and its quoted support contradict each other; None if nothing is proven.

    A number of the statement (`narrow`) that occurs anywhere in the support (`wide`) is no contradiction.
    """
    for one, other in dict.fromkeys(((narrow.words, wide.words), (narrow.sentences, wide.sentences))):
        mine, its = _answer(one), _answer(other)
        if mine is not None and its is not None and mine != its:
            return Contradiction("answers_differ", other, one)
    return _numbers(narrow, wide) or _negation(narrow, wide)


def negations(text: str) -> int:
    """Return the number of negations in a text; 0 if it is longer than a sentence."""
    return _sentence(text).negations


def _numbers(narrow: TextPart, wide: TextPart) -> Contradiction | None:
    own = [one for one in map(_sentence, _split(narrow.words)) if one.quantities]
    if not own:
        return None
    parts = dict.fromkeys((*_split(wide.words), *_split(wide.sentences)))
    others = [other for other in map(_sentence, parts) if other.quantities]
    numbers = [number for other in others for number in other.quantities]
    for one in own:
        unsaid = [number for number in one.quantities if not any(map(number.agrees, numbers))]
        for other in others if unsaid else ():
            found = _number_that_differs(other, one)
            if found is not None and found[1] in unsaid:
                return Contradiction(found[0], other.text, one.text)
    return None


def _negation(narrow: TextPart, wide: TextPart) -> Contradiction | None:
    """Compare whole sentences, because a quotation may have left out the negation."""
    others = [_sentence(other) for other in _split(wide.sentences)]
    for one in map(_sentence, _split(narrow.sentences)):
        for other in others:
            if one.negations % 2 != other.negations % 2 and one.says_the_same(other):
                return Contradiction("polarity_differs", other.text, one.text)
    return None


class _Sentence:
    """A sentence: its quantities, its other content words, and how often it is negated."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._row = row = tuple(tokens(text))
        numbers = sum(token.kind in {"number", "date"} for token in row)
        self.quantities = quantities(row) if 0 < numbers <= MAX_QUANTITIES else []
        parts = [part for token in _without_answer(row) for part in _parts(token)]
        self._parts = parts
        self.negations = sum(map(_negates, parts))

    @cached_property
    def words(self) -> list[tuple[int, str]]:
        """Its content words outside of quantities, each with its place among the tokens."""
        taken = {place for one in self.quantities for place in range(one.place, one.end)}
        return [
            (place, text)
            for place, (kind, text, _) in enumerate(self._row)
            if kind == "word" and place not in taken and text not in STOP_WORDS and len(text) > 1
        ]

    @cached_property
    def texts(self) -> frozenset[str]:
        """Its content words outside of quantities."""
        return frozenset(word for _, word in self.words)

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """The same, in any inflection."""
        return Vocabulary(self.texts)

    @cached_property
    def _is_clear(self) -> bool:
        """Whether its polarity is certain: it is no question, and has no "not only"."""
        pairs = pairwise(self._parts)
        return not (
            self.text.rstrip().endswith(("?", "\u061f", "\uff1f"))
            or any(part in _NOT_ONLY and not _negates(part) and _negates(before) for before, part in pairs)
        )

    @cached_property
    def _said(self) -> frozenset[str]:
        """Its words but for negations and fillers."""
        return frozenset(
            part
            for part in self._parts
            if not _negates(part) and ((part not in _FILLERS and len(part) > 1) or part.isdecimal())
        )

    def says_the_same(self, other: _Sentence) -> bool:
        """Return whether both have the same words, in any inflection, but for negations and fillers."""
        if not (self._is_clear and other._is_clear and self._said and other._said):
            return False
        mine, its = self._said - other._said, other._said - self._said
        if max(len(mine), len(its)) > MAX_SURPLUS or len(mine) != len(its):
            return False
        known, told = Vocabulary(its), Vocabulary(mine)
        return all(word in known for word in mine) and all(word in told for word in its)

    def is_like(self, source: _Sentence) -> bool:
        """Return whether both sentences share enough words."""
        words, said = source.texts, self.texts
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


@lru_cache(maxsize=128)
def _sentence(text: str) -> _Sentence:
    """Cached, because each quotation is compared with several."""
    return _Sentence(text)


def _number_that_differs(mine: _Sentence, its: _Sentence) -> tuple[ContradictionKind, Quantity] | None:
    """Return the only number of two similar sentences that differs, and the source's number.

    More differences mean another statement.
    """
    left = [one for one in mine.quantities if not any(map(one.agrees, its.quantities))]
    right = [one for one in its.quantities if not any(map(one.agrees, mine.quantities))]
    if not left or not right or min(len(left), len(right)) > 1 or not mine.is_like(its):
        return None
    same_words = mine.texts == its.texts
    pairs = [
        (one, other)
        for one in left
        for other in right
        if (same_words or (one.date is None) == (other.date is None)) and _same_place(mine, one, its, other)
    ]
    difference = pairs[0][0].difference(pairs[0][1]) if len(pairs) == 1 else None
    return None if difference is None else (_KINDS[difference], pairs[0][1])


def _same_place(mine: _Sentence, one: Quantity, its: _Sentence, other: Quantity) -> bool:
    """Return whether two quantities share a neighbouring word, if there is one."""
    near = its.near(other)
    said = Vocabulary(mine.near(one))
    return not near or any(word in said for word in near)


def _negates(part: str) -> bool:
    return part in _NEGATIONS or part.endswith("n't")


def _parts(token: Token) -> Sequence[str]:
    """Return the words of a token: "l'hotel" has two, "don't" is one; none for a sign."""
    if token.kind == "sign":
        return ()
    return (token.text,) if "'" not in token.text or token.text.endswith("n't") else token.text.split("'")


def _answer(text: str) -> bool | None:
    """Return True if a text starts with yes, False for no, else None."""
    if _MAY_ANSWER.search(fold(text[:60])) is None:
        return None
    row = tuple(islice(_from_first_word(tokens(text[:60])), 2))
    word = row[0].text if row and _stands_alone(row) else ""
    return True if word in _YES or word in _TRUE else False if word in _NO or word in _FALSE else None


def _without_answer(row: Sequence[Token]) -> Sequence[Token]:
    """Return the tokens after a leading "yes," or "no," (a "no" is no negation of the rest)."""
    row = tuple(_from_first_word(row))
    return row[1:] if len(row) > 1 and row[0].text in _YES | _NO and _stands_alone(row) else row


def _from_first_word(row: Iterable[Token]) -> Iterator[Token]:
    return dropwhile(lambda token: token.kind == "sign", row)


def _stands_alone(row: Sequence[Token]) -> bool:
    """Return whether the first word is followed by a sign or the end."""
    return len(row) == 1 or (row[1].kind == "sign" and row[1].text in _AFTER_ANSWER)


def _split(text: str) -> Sequence[str]:
    if len(text) > MAX_SENTENCES * MAX_CHARS:
        return ()
    return [text[start:end] for start, end in sentences(text)[:MAX_SENTENCES]]
