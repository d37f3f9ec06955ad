"""Search a text for the passage that shares most words with a statement, in any inflection."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from dataclasses import dataclass

from judge.text.overlap import Vocabulary, significant
from judge.text.sentences import sentences
from judge.text.words import content_words, word_texts

MAX_SENTENCES = 64
"""Words in more sentences than this are not searched, unless there is no other."""

NEARLY_ALL = 0.75
"""Share of a statement's words in a sentence from which negation is compared."""

_CANDIDATES = 16
_KEY_CHARS = 4
_NEGATIONS = frozenset(
    ("no", "not", "never", "none", "neither", "nor", "without", "cannot", "nothing", "nobody", "nowhere")
)
# Numbers of footnotes are not part of the text.
_FOOTNOTE = re.compile(r"\[\^?\d[\d\s,;\u2013-]{0,40}\]")


def unmarked(text: str) -> str:
    """Return the text with footnote marks blanked out; offsets stay the same."""
    return _FOOTNOTE.sub(lambda mark: " " * len(mark[0]), text)


class Statement:
    """The content words of a sentence; all words if it has only stop words ("The Who")."""

    __slots__ = ("negated", "numbers", "words")

    def __init__(self, text: str) -> None:
        text = unmarked(text)
        said = [word.text for word in content_words(text) if not _negates(word.text)]
        self.words = frozenset(said or word_texts(text))
        self.numbers = frozenset(word for word in self.words if significant(word) is not None)
        self.negated = _is_negated(text)


@dataclass(frozen=True, slots=True)
class Match:
    """The passage that best matches a statement."""

    share: float
    """Share of the statement's distinct words, 0..1."""
    numbers_agree: bool
    """Whether it has all of the statement's numbers."""
    negation_agrees: bool
    """Whether no nearly equal sentence of the passage differs by a negation."""
    start: int
    end: int

    def holds(self, threshold: float) -> bool:
        """Return whether the passage counts as saying the statement."""
        return self.share >= threshold and self.agrees

    @property
    def agrees(self) -> bool:
        """Whether neither a number nor a negation differs."""
        return self.numbers_agree and self.negation_agrees

    @property
    def reason(self) -> str:
        """Explanation: the share of words, and what differs."""
        share = f"{self.share:.0%} of its words"
        if not self.numbers_agree:
            return f"{share}; a number is missing"
        return share if self.negation_agrees else f"{share}; one of the two is negated"


class Searched:
    """A text indexed for searching statements.

    Building is linear in the text, a search linear in the statement.

    Args:
        text: The text.
        together: Maximum sentences of a passage; at least 1.
    """

    def __init__(self, text: str, *, together: int) -> None:
        text = unmarked(text)
        self.text = text
        self._together = together
        self._places = sentences(text)
        self._said: list[Vocabulary] = []
        self._index: defaultdict[str, list[int]] = defaultdict(list)
        for number, (start, end) in enumerate(self._places):
            said = set(word_texts(text[start:end]))
            self._said.append(Vocabulary(said))
            for key in {_key(word) for word in said}:
                self._index[key].append(number)

    def best(self, statement: Statement) -> Match | None:
        """Return the passage with most of a statement's words, on a tie the shortest, then the first.

        None if no passage has a word of it.
        """
        found = {
            near: {word for word in statement.words if word in self._said[near]}
            for number in self._candidates(statement)
            for near in range(
                max(0, number - self._together + 1), min(len(self._said), number + self._together)
            )
        }
        best: tuple[int, int, int] | None = None
        numbers = sorted(number for number, shared in found.items() if shared)
        for place, first in enumerate(numbers):
            shared: set[str] = set()
            for last in numbers[place : place + self._together]:
                if last - first >= self._together:
                    break
                shared |= found[last]
                best = max(best or (0, 0, 0), (len(shared), first - last, -first))
        if best is None:
            return None
        _, less, first = best[0], best[1], -best[2]
        passage = range(first, first - less + 1)
        shared = set().union(*(found[number] for number in passage))
        nearest = max(passage, key=lambda number: len(found[number]))
        return Match(
            share=len(shared) / len(statement.words),
            numbers_agree=statement.numbers <= shared,
            negation_agrees=len(found[nearest]) < NEARLY_ALL * len(statement.words)
            or _is_negated(self.text[slice(*self._places[nearest])]) == statement.negated,
            start=self._places[first][0],
            end=self._places[first - less][1],
        )

    def _candidates(self, statement: Statement) -> list[int]:
        """Return the sentences with most of a statement's words, found by its rarer words if it has any."""
        keys = {_key(word) for word in statement.words} & self._index.keys()
        known = [self._index[key] for key in sorted(keys, key=lambda key: (len(self._index[key]), key))]
        rare = [places for places in known if len(places) <= MAX_SENTENCES] or known[:1]
        counts = Counter(number for places in rare for number in places[:MAX_SENTENCES])
        return sorted(counts, key=lambda number: (-counts[number], number))[:_CANDIDATES]

    def has(self, word: str) -> str | None:
        """Return the first sentence with a word in any inflection."""
        for number in self._index.get(_key(word), ()):
            if word in self._said[number]:
                return self.text[slice(*self._places[number])]
        return None


def _key(word: str) -> str:
    """Return the index key that all forms of a word share."""
    return significant(word) or word[:_KEY_CHARS]


def _negates(word: str) -> bool:
    return word in _NEGATIONS or word.endswith("n't")


def _is_negated(text: str) -> bool:
    return sum(map(_negates, word_texts(text))) % 2 == 1
