"""Contradictions between two quotations, with their sentences as context. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice

from judge.text.contradictions.comparison import Contradiction, has_number, number_that_differs
from judge.text.contradictions.polarity import answers_differ, negations, polarity_differs
from judge.text.contradictions.reading import MAX_CHARS
from judge.text.sentences import each_sentence

MAX_SENTENCES = 8
"""Limit of compared sentences of a passage."""


@dataclass(frozen=True, slots=True)
class Passage:
    """A quotation and the sentences that it overlaps."""

    words: str
    sentences: str

    @property
    def parts(self) -> Sequence[str]:
        """The compared parts: the sentences of the quotation, and those around it."""
        return list(dict.fromkeys((*_split(self.words), *_split(self.sentences))))

    @property
    def own(self) -> Sequence[str]:
        """The quoted parts of the quotation's sentences."""
        return _split(self.words)

    @property
    def polar(self) -> Sequence[str]:
        """Parts whose polarity is reliable: no negation was cut off."""
        whole = _split(self.sentences)
        return self.parts if sum(map(negations, self.own)) == sum(map(negations, whole)) else whole


def contradiction_between(narrow: Passage, wide: Passage) -> Contradiction | None:
    """Return how two passages contradict each other; None if no contradiction is proven.

    Args:
        narrow: The statement: an item of a reference, or a claim of an answer.
        wide: The quoted support. A number that occurs anywhere in it is no contradiction.
    """
    for one, other in dict.fromkeys(((narrow.words, wide.words), (narrow.sentences, wide.sentences))):
        if answers_differ(one, other):
            return Contradiction("answers_differ", other, one)
    return _numbers(narrow, wide) or _polarity(narrow, wide)


def _numbers(narrow: Passage, wide: Passage) -> Contradiction | None:
    parts = wide.parts
    for one in narrow.own:
        for other in parts:
            found = number_that_differs(other, one)
            if found is None:
                continue
            kind, number = found
            if not any(has_number(part, number) for part in parts if part != other):
                return Contradiction(kind, other, one)
    return None


def _polarity(narrow: Passage, wide: Passage) -> Contradiction | None:
    others = wide.polar
    for one in narrow.polar:
        for other in others:
            if polarity_differs(one, other):
                return Contradiction("polarity_differs", other, one)
    return None


def _split(text: str) -> Sequence[str]:
    return _remembered(text) if len(text) <= MAX_SENTENCES * MAX_CHARS else ()


@lru_cache(maxsize=32)
def _remembered(text: str) -> Sequence[str]:
    return tuple(text[start:end] for start, end in islice(each_sentence(text), MAX_SENTENCES))
