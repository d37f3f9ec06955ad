"""Comparing texts by their words: stems, numbers and negations. It understands nothing."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from judge.text.index import TextIndex
from judge.text.sentences import sentences
from judge.text.words import is_content, words

THRESHOLD = 0.6
"""Share of a statement's weight that a passage must have."""
MAX_SENTENCE_TOKENS = 80
"""A longer sentence is cut into pieces of this size."""

_NUMBER_WEIGHT = 2
"""A number says more than a word; a statement with the right number needs fewer of its words."""
_MAX_POSTINGS = 64
"""A word in more sentences than this finds nothing, unless there is no other."""
_CANDIDATES = 5
_NEGATION_REACH = 3
"""Words before the first common one in which a negation still counts."""

# Evidence tags and footnote marks: their numbers are no part of what is said.
_CITATION = re.compile(
    r"(?:\bevidence\s?:?\s*)?[\[\uff3b\u3010](?:pages?\b[^\]\uff3d\u3011\n]{0,80}|[\d\s,;\u2013-]{1,40})[\]\uff3d\u3011]",
    re.IGNORECASE,
)
_NEGATIONS = frozenset(
    ("no", "not", "never", "none", "neither", "nor", "without", "cannot", "nothing", "nobody", "nowhere")
)
_NUMBERS = ("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
# "one" is left out: it is a pronoun more often than a number.
_SPELLED = {word: str(number) for number, word in enumerate(_NUMBERS, 2)}
_ORDINAL = re.compile(r"(\d+)(?:st|nd|rd|th)")
_THOUSANDS = re.compile(r"\d{1,3}(?:,\d{3})+(?!\d)")
_SUFFIXES = (
    "ations",
    "ation",
    "ments",
    "ment",
    "ings",
    "ing",
    "ions",
    "ion",
    "edly",
    "ed",
    "ly",
    "es",
    "s",
    "e",
)
_MIN_STEM_CHARS = 3


@dataclass(frozen=True, slots=True)
class Token:
    """A word's stem and its place in the text."""

    stem: str
    start: int
    end: int
    is_number: bool
    is_negation: bool
    is_content: bool


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence, or a piece of a long one, with its tokens."""

    start: int
    end: int
    tokens: tuple[Token, ...]


@dataclass(frozen=True, slots=True)
class Match:
    """How well the best passage of a text says what a statement says."""

    share: float
    """Share of the statement's weight that the passage has, 0..1."""
    numbers_agree: bool
    negation_agrees: bool
    start: int
    end: int

    @property
    def holds(self) -> bool:
        """Whether the passage says it."""
        return self.share >= THRESHOLD and self.numbers_agree and self.negation_agrees

    @property
    def strength(self) -> float:
        """The share, halved where a number or a negation differs."""
        return self.share if self.numbers_agree and self.negation_agrees else self.share / 2


@lru_cache(maxsize=65536)
def stem(word: str) -> str:
    """A normalised word without its ending; a number as digits. Light: it neither knows the language nor exceptions."""
    if word[0].isdecimal():
        ordinal = _ORDINAL.fullmatch(word)
        number = ordinal[1] if ordinal else word
        return number.replace(",", "") if _THOUSANDS.match(number) else number
    if word in _SPELLED:
        return _SPELLED[word]
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    for suffix in _SUFFIXES:
        if word.endswith(suffix) and len(word) - len(suffix) >= _MIN_STEM_CHARS and not word.endswith("ss"):
            return _undoubled(word[: -len(suffix)])
    return word


def _undoubled(base: str) -> str:
    """Without the doubling before an ending: "plann" gives "plan", "tell" stays."""
    if len(base) > 4 and base[-1] == base[-2] and base[-1] not in "aeiouls":
        return base[:-1]
    return base


def is_citation(text: str) -> bool:
    """Whether a text is made of evidence tags and footnote marks alone."""
    return not any(char.isalnum() for char in _CITATION.sub("", text))


def tokens(text: str) -> list[Token]:
    """All words of a text as tokens, in order, without evidence tags and footnote marks."""
    masked = _CITATION.sub(lambda found: " " * len(found[0]), text)
    return [_token(word.text, word.start, word.end) for word in words(TextIndex(masked))]


def _token(word: str, start: int, end: int) -> Token:
    base = stem(word)
    return Token(
        stem=base,
        start=start,
        end=end,
        is_number=base[0].isdecimal(),
        is_negation=word in _NEGATIONS or word.endswith("n't"),
        is_content=is_content(word),
    )


def split(text: str, spans: Sequence[tuple[int, int]] | None = None) -> list[Sentence]:
    """The sentences of a text with their tokens; those without a word are left out.

    Args:
        text: The text.
        spans: Where its sentences are, in order; None finds them.
    """
    found: list[Sentence] = []
    every = tokens(text)
    position = 0
    for start, end in sentences(text) if spans is None else spans:
        first = position
        while position < len(every) and every[position].start < end:
            position += 1
        inside = every[first:position]
        if len(inside) <= MAX_SENTENCE_TOKENS:
            if inside:
                found.append(Sentence(start, end, tuple(inside)))
            continue
        for cut in range(0, len(inside), MAX_SENTENCE_TOKENS):
            piece = inside[cut : cut + MAX_SENTENCE_TOKENS]
            found.append(Sentence(piece[0].start, piece[-1].end, tuple(piece)))
    return found


class Statement:
    """What a sentence says, to be looked for elsewhere."""

    __slots__ = ("negated", "numbers", "weights")

    def __init__(self, said: Sequence[Token]) -> None:
        # A name of stop words alone ("The Who") is known by just these.
        telling = [token for token in said if token.is_content and not token.is_negation] or list(said)
        self.weights = {token.stem: _NUMBER_WEIGHT if token.is_number else 1 for token in telling}
        self.numbers = {token.stem for token in telling if token.is_number}
        places = [place for place, token in enumerate(said) if token.stem in self.weights]
        self.negated = _is_negated(said, places)


class Searched:
    """A text prepared for finding statements in it.

    Args:
        text: The text.
        max_sentences: Sentences in a row that one passage may have; at least 1.
    """

    def __init__(self, text: str, *, max_sentences: int = 2) -> None:
        self.sentences = split(text)
        self._max_sentences = max_sentences
        self._postings: dict[str, list[int]] = {}
        for number, sentence in enumerate(self.sentences):
            for base in {token.stem for token in sentence.tokens}:
                self._postings.setdefault(base, []).append(number)

    def best(self, statement: Statement) -> Match | None:
        """The passage that says most of a statement; None where none has a word of it.

        Of several alike the shortest and then the first. Work is bounded whatever the text's size.
        """
        best: Match | None = None
        tried: set[tuple[int, int]] = set()
        for first in self._candidates(statement):
            for size in range(1, self._max_sentences + 1):
                for start in range(max(0, first - size + 1), first + 1):
                    if start + size > len(self.sentences) or (start, size) in tried:
                        continue
                    tried.add((start, size))
                    match = self._match(statement, start, start + size)
                    if match is not None and (best is None or _rank(match) > _rank(best)):
                        best = match
                if best is not None and best.holds and best.share == 1:
                    return best
        return best

    def _candidates(self, statement: Statement) -> list[int]:
        """The sentences with most of the statement, found by its rarer words where it has any."""
        known = sorted((base for base in statement.weights if base in self._postings), key=self._rarity)
        rare = [base for base in known if len(self._postings[base]) <= _MAX_POSTINGS]
        counts: Counter[int] = Counter()
        for base in rare or known[:1]:
            for number in self._postings[base][:_MAX_POSTINGS]:
                counts[number] += statement.weights[base]
        ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        return [number for number, _ in ranked[:_CANDIDATES]]

    def _rarity(self, base: str) -> tuple[int, str]:
        return len(self._postings[base]), base

    def _match(self, statement: Statement, start: int, end: int) -> Match | None:
        inside = [token for sentence in self.sentences[start:end] for token in sentence.tokens]
        places = [place for place, token in enumerate(inside) if token.stem in statement.weights]
        if not places:
            return None
        present = {inside[place].stem for place in places}
        return Match(
            share=sum(statement.weights[base] for base in present) / sum(statement.weights.values()),
            numbers_agree=statement.numbers <= present,
            negation_agrees=_is_negated(inside, places) == statement.negated,
            start=self.sentences[start].start,
            end=self.sentences[end - 1].end,
        )


def _is_negated(said: Sequence[Token], places: Sequence[int]) -> bool:
    """Whether negations turn round what the words at these places say: those between and shortly before them."""
    if not places:
        return False
    reached = said[max(0, places[0] - _NEGATION_REACH) : places[-1] + 1]
    return sum(token.is_negation for token in reached) % 2 == 1


def _rank(match: Match) -> tuple[bool, float, int, int]:
    return match.holds, match.strength, match.start - match.end, -match.start
