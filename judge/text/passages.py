"""Read passages, of one or a few sentences, and detect contradictions of two. Pure.

They are of numbers, units, dates, plain negation, or yes and no. Precision over recall: a difference counts
only if the rest of both sentences is about the same thing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Final, NamedTuple

from judge.text.quantities import MAX_CHARS, MONTHS, NUMBERED, Quantity, Token, quantities, tokens
from judge.text.words import STOP_WORDS, fold, folded_words, is_content, sentences, word_texts
from schemas import ContradictionKind

MAX_SENTENCES: Final = 8
MAX_QUANTITIES: Final = 40
"""Sentences with more numbers are tables and are not compared."""
NEIGHBOURS: Final = 3
"""Words on each side of a number that identify what it counts."""
REMEMBERED_CHARS: Final = 8_000
"""Longer passages are neither kept in memory nor compared: each pair would read them again."""
MIN_SHARED: Final = 0.6
"""Share of the source's words, without its numbers, that the statement must have."""
MIN_SHARED_BACK: Final = 0.34
"""Share of the statement's words that the source must have, because long sentences share words by chance."""
_KINDS: Final[dict[str, ContradictionKind]] = {
    "number": "numbers_differ",
    "unit": "units_differ",
    "date": "dates_differ",
}
_STEM_CHARS: Final = 4
_MAX_STEMMED_CHARS: Final = 40
# The longest usual ending that leaves a stem.
_ENDING: Final = re.compile(rf"(?<={'.' * _STEM_CHARS})(?:{'|'.join(sorted(folded_words('endings')))})\Z")
_NEGATIONS: Final = folded_words("negations")
_NOT_ONLY: Final = folded_words("not_only")
_FILLERS: Final = folded_words("fillers")
_ANSWERS: Final = dict.fromkeys(folded_words("yes") | folded_words("true"), True) | dict.fromkeys(
    folded_words("no") | folded_words("false"), False
)
_FOOTNOTE = re.compile(r"\[\^?\d{1,4}\]")
_FIRST_WORD = re.compile(r"\W*([^\W\d_]+)(?=\s*(?:[,.;:!\u3002\u3001-]|\Z))")
_SPELLED_NUMBERS = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
    "seventeen eighteen nineteen twenty"
)
_SPELLED = {word: str(number) for number, word in enumerate(_SPELLED_NUMBERS.split())}


@lru_cache(maxsize=8192)
def stem(word: str) -> str:
    """Return what the forms of a folded word have in common; of a number its significant digits."""
    if word[0].isdecimal() or word in _SPELLED:
        return "".join(filter(str.isdecimal, _SPELLED.get(word, word))).strip("0") or "0"
    if not word.isascii():
        return word[:_STEM_CHARS]
    stemmed, word = word, ""
    while stemmed != word and len(stemmed) <= _MAX_STEMMED_CHARS:
        word, stemmed = stemmed, _ENDING.sub("", stemmed)
    return stemmed


def stems(words: Iterable[str]) -> frozenset[str]:
    return frozenset(map(stem, words))


class Passage:
    """A text without its footnote numbers, and its words."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.listed = word_texts(_FOOTNOTE.sub(" ", text) if "[" in text else text)
        self.words = frozenset(self.listed)

    @cached_property
    def stems(self) -> frozenset[str]:
        return stems(self.words)

    @cached_property
    def content(self) -> frozenset[str]:
        return stems(word for word in self.words - STOP_WORDS if is_content(word))

    @cached_property
    def sentences(self) -> tuple[Passage, ...]:
        """Empty if it is too long to be compared."""
        if len(self.text) > MAX_SENTENCES * MAX_CHARS:
            return ()
        return tuple(passage(self.text[start:end]) for start, end in sentences(self.text)[:MAX_SENTENCES])

    @cached_property
    def answer(self) -> bool | None:
        """True if it starts with a yes that stands alone, False for a no, else None."""
        first = _FIRST_WORD.match(fold(self.text[:60]))
        return None if first is None else _ANSWERS.get(first[1])

    @cached_property
    def numbered(self) -> frozenset[str]:
        return frozenset(NUMBERED.findall(fold(self.text)))

    @cached_property
    def may_negate(self) -> bool:
        """False: certainly without negation."""
        return not _NEGATIONS.isdisjoint(self.words) or "'" in fold(self.text)

    # What follows is of one sentence.

    @cached_property
    def _row(self) -> tuple[Token, ...]:
        return tuple(tokens(self.text))

    @cached_property
    def quantities(self) -> list[Quantity]:
        """Its numbers and dates; none in a table."""
        numbers = sum(token.kind in {"number", "date"} for token in self._row)
        return quantities(self._row) if 0 < numbers <= MAX_QUANTITIES else []

    @cached_property
    def _beside(self) -> list[tuple[int, str]]:
        taken = {place for one in self.quantities for place in range(one.place, one.end)}
        return [
            (place, stem(text))
            for place, (kind, text, _) in enumerate(self._row)
            if kind == "word" and place not in taken and text not in STOP_WORDS and len(text) > 1
        ]

    @cached_property
    def beside(self) -> frozenset[str]:
        return frozenset(word for _, word in self._beside)

    def near(self, quantity: Quantity) -> set[str]:
        before = [word for place, word in self._beside if place < quantity.place][-NEIGHBOURS:]
        after = [word for place, word in self._beside if place >= quantity.end][:NEIGHBOURS]
        return {*before, *after}

    @cached_property
    def _parts(self) -> list[str]:
        """Its words without a yes or no before it: "l'hotel" is two, "don't" is one."""
        told = self.listed[1:] if self.answer is not None and self.listed[0] in _YES_NO else self.listed
        return [part for word in told for part in ((word,) if word.endswith("n't") else word.split("'"))]

    @cached_property
    def negations(self) -> int:
        return sum(map(_negates, self._parts)) if self.may_negate else 0

    @cached_property
    def said(self) -> frozenset[str]:
        """The stems of its words but for negations and fillers; none in a question, or with "not only"."""
        if self.text.rstrip().endswith(("?", "\u061f", "\uff1f")) or any(
            part in _NOT_ONLY and not _negates(part) and _negates(before)
            for before, part in pairwise(self._parts)
        ):
            return frozenset()
        return stems(
            part
            for part in self._parts
            if not _negates(part) and ((part not in _FILLERS and len(part) > 1) or part.isdecimal())
        )


_YES_NO: Final = folded_words("yes") | folded_words("no")


def _negates(part: str) -> bool:
    return part in _NEGATIONS or part.endswith("n't")


def passage(text: str) -> Passage:
    """Read a text; cached, because each is compared with several."""
    return _remembered(text) if len(text) <= REMEMBERED_CHARS else Passage(text)


_remembered = lru_cache(maxsize=256)(Passage)


# Contradictions

TextPart = tuple[Passage, Passage]
"""A quotation, and the sentences that it overlaps."""


class Contradiction(NamedTuple):
    kind: ContradictionKind
    stated: str
    source: str


def contradiction_between(narrow: TextPart, wide: TextPart) -> Contradiction | None:
    """Return how a statement contradicts its quoted support; None if nothing is proven, or a text is long."""
    (mine, my_sentences), (its, its_sentences) = narrow, wide
    if max(len(one.text) for one in (*narrow, *wide)) > REMEMBERED_CHARS:
        return None
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


def _number_that_differs(mine: Passage, its: Passage) -> tuple[ContradictionKind, Quantity] | None:
    """Return the only number of two like sentences that differs; more differences mean another statement."""
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
    if not source or not said:
        return not source and not said
    shared = len(said & source)
    return shared >= MIN_SHARED * len(source) and shared >= MIN_SHARED_BACK * len(said)


def _same_place(mine: Passage, one: Quantity, its: Passage, other: Quantity) -> bool:
    near = its.near(other)
    return not near or not near.isdisjoint(mine.near(one))
