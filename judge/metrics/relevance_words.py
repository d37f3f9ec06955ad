"""Word checks of relevance: which sentences make a claim, and does a page have a claim's words? Pure.

Greetings, headings, introductions, questions, offers and refusals make no claim. In doubt, a sentence with a
citation does, and one without does not. The words of each language are in `claims.yaml`.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from functools import cache
from importlib import resources
from typing import Any

import yaml

from judge.text.citations import Claim
from judge.text.languages import fold
from judge.text.normal import TextIndex, is_unspaced
from judge.text.quantities import tokens
from judge.text.sentences import sentences
from judge.text.support import (
    Surroundings,
    Vocabulary,
    cannot_be_compared,
    is_refusal,
    own_words,
    shortfall,
    significant,
)
from judge.text.words import Word, content_words, has_words, word_texts

MIN_CLAIM_WORDS = 3
"""Minimum content words of a claim without a citation."""
MIN_BARE_WORDS = 5
"""The same for a line without a full stop, which may be a heading."""
MIN_UNSPACED_CHARS = 8
"""Minimum letters of such a claim in a script without spaces."""
MAX_POLITE_WORDS = 8
"""A sentence to the reader with this many content words, or with a number, makes a claim."""
MAX_CHARS = 4000
"""Maximum characters of a sentence that are examined."""
QUESTION_SHARE = 4
"""Answer and supporting pages together must have at least one in this many of the question's words. 1 in 200
model answers to experts' questions (ExpertQA) have less, and 9 in 10 pages retrieved for other questions."""
LONG_ANSWER = 6
"""Distinct content words from which an answer itself must share a word with the question."""

_DATA: dict[str, Any] = yaml.safe_load(
    resources.files("judge").joinpath("metrics", "claims.yaml").read_text("utf-8")
)
_OPENING = re.compile(
    rf"\W*(?:{'|'.join(re.escape(fold(opening)) for opening in _DATA['openings'])})(?![^\W_])"
)
_SOURCES_SAY_NOTHING = re.compile(_DATA["sources_say_nothing"])
_PERSONS = frozenset(map(fold, _DATA["persons"]))
_PERSON_ENDINGS = tuple(_DATA["person_endings"])
_FIRST_WORD_ENDINGS = tuple(_DATA["first_word_endings"])
_FORMAL = re.compile(_DATA["formal_address"])
_STOPS = ".!\u3002\uff01\u061f\u06d4\u0964\u2026"
_NOT_CLAIMING_ENDS = frozenset({":", "\uff1a", "?", "\uff1f", "\u061f", ";"})
_CLOSING = "\"'\u201d\u2019\u00bb)]*_ "
_HEADING = re.compile(r"\s{0,3}#{1,6}\s|\s{0,3}(?:\*\*|__)[^*_\n]{1,120}(?:\*\*|__):?\s*\Z")


def claiming_parts(text: str, *, surely: bool) -> Sequence[tuple[int, int]]:
    """Return start and end (exclusive) of the sentences of a text that make a claim.

    Args:
        text: A part of an answer.
        surely: Whether doubtful sentences count as no claim; else they do.
    """
    return [
        (start, end)
        for start, end in sentences(text)
        if (claims_surely(text[start:end]) if surely else not claims_nothing(text[start:end]))
    ]


def claims_nothing(sentence: str) -> bool:
    """Return whether a sentence certainly makes no claim (greeting, heading, question, offer, refusal)."""
    text = sentence[:MAX_CHARS].strip()
    if not has_words(text) or _HEADING.match(text):
        return True
    if text.rstrip(_CLOSING)[-1:] in _NOT_CLAIMING_ENDS:
        return True
    folded = fold(text)
    if _SOURCES_SAY_NOTHING.search(folded) is not None:
        return True
    # "Sure, it opens at 9" is a claim.
    says_more = any(map(str.isdigit, folded)) or len(content_words(folded)) > 12
    return not says_more and _OPENING.match(folded) is not None


def claims_surely(sentence: str) -> bool:
    """Return whether a sentence without citation certainly makes a claim."""
    text = sentence[:MAX_CHARS].strip()
    if claims_nothing(text):
        return False
    content = content_words(text)
    is_short = len(content) < MAX_POLITE_WORDS and not any(map(str.isdigit, text))
    if is_short and _speaks_to_reader(text):
        return False
    has_stop = text.rstrip(_CLOSING)[-1:] in _STOPS
    if content and is_unspaced(content[0].text):
        return has_stop and len(content) >= MIN_UNSPACED_CHARS
    titled = sum(text[word.start].isupper() for word in content)
    if has_stop:
        # All words capitalised: a name or a title.
        return len(content) >= MIN_CLAIM_WORDS and titled < len(content)
    return len(content) >= MIN_BARE_WORDS and 2 * titled < len(content)


def _speaks_to_reader(text: str) -> bool:
    """Return whether a sentence is in the first or second person: courtesy as likely as a claim."""
    folded = [token.text for token in tokens(text) if token.kind == "word"]
    if not folded:
        return False
    return (
        not _PERSONS.isdisjoint(part for word in folded for part in word.split("'"))
        or any(word.endswith(_PERSON_ENDINGS) for word in folded)
        or folded[0].endswith(_FIRST_WORD_ENDINGS)
        or _FORMAL.search(text) is not None
    )


class SupportWords:
    """Compares claims with the pages that should support them; words of the question do not count.

    If the answer and the question are certainly in another language than a page, nothing is doubted.

    Args:
        question: The question.
        answer: The judged answer.
        untagged: The answer without its tags.
    """

    def __init__(self, question: str, answer: str, untagged: str) -> None:
        self._question = question
        self._answer = answer
        self._asked_text = f" {' '.join(word_texts(question))} "
        self._asked_words = {word.text for word in content_words(question)}
        self._asked = Vocabulary(self._asked_words)
        self._answer_words = Vocabulary(word_texts(untagged))
        self._is_long = len({word.text for word in content_words(untagged)}) >= LONG_ANSWER
        self._pages: dict[int, Surroundings] = {}
        # Cached, because claims share sentences.
        self._own = cache(lambda text: own_words(text, self._asked))
        self._count = cache(lambda text: len(content_words(text)))
        self._emptiness = cache(self._find_emptiness)

    def doubt(
        self, claim: str, page: int, index: TextIndex, place: tuple[int, int], *, part_of: str
    ) -> str | None:
        """Return why a span of a page does not support a claim; None if it may.

        Args:
            claim: The claim, as quoted from the answer.
            part_of: Its sentence. A claim of less than half of it, or that says no more than the question, is
                compared as the whole sentence.
            page: The page's number.
            index: The page's text.
            place: The quoted span.
        """
        empty = self._emptiness(claim) or (self._emptiness(part_of) if part_of not in {"", claim} else None)
        if empty is not None:
            return empty
        around = self._around(page, index)
        if cannot_be_compared(index.text, self._answer, question=self._question):
            return None
        vocabulary = around.said(place, neighbours=1)
        if 2 * self._count(claim) < self._count(part_of):
            claim = part_of  # one word of a sentence is not its claim
        whole: Sequence[Word] = self._own(part_of)
        own: Sequence[Word] = self._own(claim)
        if not own and part_of:
            claim, own = part_of, whole
        if not own:
            return _doubt_of_repetition(claim, vocabulary)
        numbers = {significant(word.text) for word in own} - {None}
        if numbers and vocabulary.numbers and vocabulary.numbers.isdisjoint(numbers):
            return "its numbers differ"
        return shortfall(own, claim, vocabulary, around.told(place, neighbours=1), of=whole)

    def page_sentences(self, page: int, index: TextIndex, place: tuple[int, int]) -> str:
        """Return the sentences of a page that overlap a span."""
        return self._around(page, index).told(place)

    def is_about_question(self, places: Iterable[tuple[int, TextIndex, tuple[int, int]]]) -> bool:
        """Return whether the answer and its supporting spans have enough of the question's words.

        Args:
            places: Page, text and span for each supported claim.
        """
        if not self._asked_words:
            return True
        missing = {word for word in self._asked_words if word not in self._answer_words}
        if self._is_long and len(missing) == len(self._asked_words):
            return False
        for page, index, place in places:
            vocabulary = self._around(page, index).said(place, neighbours=1)
            missing = {word for word in missing if word not in vocabulary}
        return QUESTION_SHARE * (len(self._asked_words) - len(missing)) >= len(self._asked_words)

    def _around(self, page: int, index: TextIndex) -> Surroundings:
        around = self._pages.get(page)
        if around is None:
            around = self._pages[page] = Surroundings(index)
        return around

    def _find_emptiness(self, claim: str) -> str | None:
        """Return why a claim has no content of its own; None if it has."""
        if not content_words(claim):
            return "the claim says nothing"
        if is_refusal(claim, self._asked):
            return "the claim refuses an answer or announces one"
        normalised = f" {' '.join(word_texts(claim))} "
        return "the claim repeats the question" if normalised in self._asked_text else None


def _doubt_of_repetition(claim: str, vocabulary: Vocabulary) -> str | None:
    """Return a doubt if less than half of a claim that repeats the question is on the page."""
    if claim.rstrip(" *_\"'").endswith(("?", "\uff1f")):
        return "the claim is a question"
    wanted = {word.text for word in content_words(claim)}
    shared = sum(word in vocabulary for word in wanted)
    few = 2 * shared < len(wanted)
    return f"it has {shared} of its {len(wanted)} words (at least half needed)" if few else None


class Stretches:
    """tuple[int, int]s of an answer merged into disjoint intervals, to test what they cover."""

    def __init__(self, places: Iterable[tuple[int, int]]) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []
        for start, end in sorted(places):
            if self._ends and start <= self._ends[-1]:
                self._ends[-1] = max(self._ends[-1], end)
            else:
                self._starts.append(start)
                self._ends.append(end)

    def has_half(self, claim: Claim, parts: Iterable[tuple[int, int]]) -> bool:
        """Return whether at least half of the words of a claim's sentences are covered."""
        places = [
            (claim.start + start + word.start, claim.start + start + word.end)
            for start, end in parts
            for word in content_words(claim.text[start:end])
        ]
        if not places:
            return self.touches(claim.start, claim.end)
        return 2 * sum(self._covers(*place) for place in places) >= len(places)

    def touches(self, start: int, end: int) -> bool:
        """Return whether any part between two offsets is covered."""
        return bisect_left(self._starts, end) > bisect_right(self._ends, start)

    def _covers(self, start: int, end: int) -> bool:
        number = bisect_right(self._starts, start) - 1
        return number >= 0 and end <= self._ends[number]
