"""A passage, of one or a few sentences: its words, numbers and negations, read once and when needed. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Final

from judge.text.quantities import MAX_CHARS, Quantity, Token, quantities, tokens
from judge.text.words import STOP_WORDS, fold, folded_words, is_content, sentences, word_texts

MAX_SENTENCES: Final = 8
"""Limit of compared sentences of a passage."""
MAX_QUANTITIES: Final = 40
"""Sentences with more numbers are tables and are not compared."""
NEIGHBOURS: Final = 3
"""Words on each side of a number that identify what it counts."""
REMEMBERED_CHARS: Final = 8_000
_STEM_CHARS, _MAX_ENDING = 4, 5
_MOST_ALIKE = 10
"""Words with the same first letters that are compared."""
_ENDINGS = folded_words("endings") | {""}
_NEGATIONS: Final = folded_words("negations")
_NOT_ONLY: Final = folded_words("not_only")
_FILLERS: Final = folded_words("fillers")
_ANSWERS: Final = dict.fromkeys(folded_words("yes") | folded_words("true"), True) | dict.fromkeys(
    folded_words("no") | folded_words("false"), False
)
_FIRST_WORD = re.compile(r"\W*([^\W\d_]+)(?=\s*(?:[,.;:!\u3002\u3001-]|\Z))")
# A number with the sign before it and the words after it, which may be its unit.
_NUMBERED = re.compile(r"(?:minus\s)?[^\w\s]?\d[\w.,:/]*(?:\W{1,3}[^\W\d_]+){0,3}")
_SPELLED_NUMBERS = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
    "seventeen eighteen nineteen twenty"
)
_SPELLED = {word: str(number) for number, word in enumerate(_SPELLED_NUMBERS.split())}


class Vocabulary:
    """A set of folded words for lookup in any inflection; see `are_forms`."""

    def __init__(self, given: Iterable[str]) -> None:
        self.words = frozenset(given)

    @cached_property
    def numbers(self) -> frozenset[str]:
        """The significant digits of its numbers."""
        return frozenset(filter(None, map(significant, self.words)))

    @cached_property
    def _by_stem(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for word in sorted(self.words):
            found.setdefault(word[:_STEM_CHARS], []).append(word)
        return found

    def __contains__(self, word: str) -> bool:
        if word in self.words:
            return True
        alike = self._by_stem.get(word[:_STEM_CHARS])
        if alike is not None and any(are_forms(word, other) for other in alike[:_MOST_ALIKE]):
            return True
        return is_number(word) and significant(word) in self.numbers


def share_stem(one: str, other: str) -> bool:
    """Return whether two folded words are equal or look like inflections of one word.

    They share a prefix of at least four letters, and have at most five letters beyond it ("completed" and
    "completion", but not "internet" and "international").
    """
    return one == other or _stem_chars(one, other) > 0


def _stem_chars(one: str, other: str) -> int:
    """Return how many letters two words share from their start; 0 if they share no stem."""
    shared = 0
    for mine, its in zip(one, other, strict=False):
        if mine != its:
            break
        shared += 1
    long_enough = shared >= _STEM_CHARS and one[:_STEM_CHARS].isalpha()
    return shared if long_enough and max(len(one), len(other)) - shared <= _MAX_ENDING else 0


def are_forms(one: str, other: str) -> bool:
    """Return whether two different folded words are forms of one word: a common stem with usual endings."""
    shared = _stem_chars(one, other)
    # A stem may end with letters that the endings have in common: "valid-ate" and "valid-ation".
    return shared > 0 and any(
        (one[end:] in _ENDINGS and other[end:] in _ENDINGS) or not (one[end:] + other[end:]).isascii()
        for end in range(shared, max(_STEM_CHARS, shared - 4) - 1, -1)
    )


def is_number(word: str) -> bool:
    """Return whether a folded word is a number, in digits or an English word up to twenty."""
    return word[0].isdecimal() or word in _SPELLED


def significant(word: str) -> str | None:
    """Return the significant digits of a number; None for other words.

    1.8 (million) and 1,800,000 agree. Numbers up to twenty may be English words.
    """
    if not is_number(word):
        return None
    return "".join(filter(str.isdecimal, _SPELLED.get(word, word))).strip("0") or "0"


class Passage(Vocabulary):
    """A text, and its words in any inflection."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.listed = word_texts(text)
        """All words, in order."""
        super().__init__(self.listed)

    @cached_property
    def content(self) -> frozenset[str]:
        return frozenset(word for word in self.words - STOP_WORDS if is_content(word))

    @cached_property
    def sentences(self) -> tuple[Sentence, ...]:
        """Its sentences; none if it is too long to be compared."""
        if len(self.text) > MAX_SENTENCES * MAX_CHARS:
            return ()
        return tuple(sentence(self.text[start:end]) for start, end in sentences(self.text)[:MAX_SENTENCES])

    @cached_property
    def answer(self) -> bool | None:
        """True if it starts with a yes that stands alone, False for a no, else None."""
        first = _FIRST_WORD.match(fold(self.text[:60]))
        return None if first is None else _ANSWERS.get(first[1])

    @cached_property
    def numbered(self) -> frozenset[str]:
        """Its numbers with the words after them."""
        return frozenset(_NUMBERED.findall(fold(self.text)))

    @cached_property
    def may_negate(self) -> bool:
        """Whether it may have a negation; false for certain."""
        return not _NEGATIONS.isdisjoint(self.words) or "'" in fold(self.text)


class Sentence(Passage):
    """One sentence: its quantities, the content words beside them, and how often it is negated."""

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
        """Its content words outside of quantities, each with its place among the tokens."""
        taken = {place for one in self.quantities for place in range(one.place, one.end)}
        return [
            (place, text)
            for place, (kind, text, _) in enumerate(self._row)
            if kind == "word" and place not in taken and text not in STOP_WORDS and len(text) > 1
        ]

    @cached_property
    def beside(self) -> Vocabulary:
        """Its content words outside of quantities."""
        return Vocabulary(word for _, word in self._beside)

    def near(self, quantity: Quantity) -> list[str]:
        """Return the nearest of these words on both sides of a quantity."""
        before = [word for place, word in self._beside if place < quantity.place][-NEIGHBOURS:]
        after = [word for place, word in self._beside if place >= quantity.end][:NEIGHBOURS]
        return [*before, *after]

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
        """Its words but for negations and fillers; none if it is a question or has "not only"."""
        if self.text.rstrip().endswith(("?", "\u061f", "\uff1f")) or any(
            part in _NOT_ONLY and not _negates(part) and _negates(before)
            for before, part in pairwise(self._parts)
        ):
            return frozenset()
        return frozenset(
            part
            for part in self._parts
            if not _negates(part) and ((part not in _FILLERS and len(part) > 1) or part.isdecimal())
        )


_YES_NO: Final = folded_words("yes") | folded_words("no")


def _negates(part: str) -> bool:
    return part in _NEGATIONS or part.endswith("n't")


@lru_cache(maxsize=256)
def sentence(text: str) -> Sentence:
    """Read a sentence, or a part of one; cached, because each is compared with several."""
    return Sentence(text)


def passage(text: str) -> Passage:
    """Read a passage; cached likewise, unless it would take much memory."""
    return _remembered(text) if len(text) <= REMEMBERED_CHARS else Passage(text)


@lru_cache(maxsize=64)
def _remembered(text: str) -> Passage:
    return Passage(text)
