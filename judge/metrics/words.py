"""Word checks: does an answer state what the reference states, does a page state a claim? Pure.

They only mark a result. Words of the question do not count. If the answer and the question are certainly in
another language than the reference or page, nothing is doubted.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Sequence
from functools import cache, cached_property

from judge.text.citations import without_tags
from judge.text.normal import TextIndex, normalise
from judge.text.support import (
    Surroundings,
    Vocabulary,
    cannot_be_compared,
    is_answering,
    is_refusal,
    own_words,
    shortfall,
    significant,
)
from judge.text.words import Word, content_words, is_content, sentences, word_texts, words

Place = tuple[int, int]
"""Start and end (exclusive) in a text."""
QUESTION_SHARE = 4
"""An answer with less than one in this many of the question's words is off topic, if the reference has more:
1 in 1,390 accepted human answers (NQ), none of 219 model answers to experts' questions (ExpertQA), two in
three pages retrieved for other questions. So is an answer together with its supporting pages: 1 in 200 model
answers (ExpertQA), 9 in 10 pages retrieved for other questions."""
LONG_ANSWER = 6
"""Distinct content words from which an answer itself is checked; a short one need not repeat the question."""
MIN_SENTENCE_WORDS = 3
"""Sentences of the reference with at least this many content words must be half covered."""
MIN_UNTOUCHED_WORDS = 2
"""Shorter ones with at least this many need one covered word: "It was completed in 1889." has two."""
FACTS_SHARE = 4
"""Facts must contain at least one in this many of the items' words."""


class AnswerWords:
    """Compares an answer with a reference's statements."""

    def __init__(self, reference: TextIndex, answer: TextIndex, question: str) -> None:
        self._reference = Surroundings(reference)
        # Words and numbers of evidence tags state nothing.
        untagged = without_tags(answer.text)
        self._answer = Surroundings(answer, text=untagged)
        self._answer_words = frozenset(word_texts(untagged))
        self._asked_words = {word.text for word in content_words(question)}
        self._asked = Vocabulary(self._asked_words)
        self.own = own_words(reference, self._asked)
        """The reference's words that are not in the question."""
        self._starts = [word.start for word in self.own]
        self._comparable = not cannot_be_compared(reference.text, answer.text, question=question)

    def reference_sentences(self, place: Place) -> str:
        return self._reference.told(place)

    def answer_sentences(self, place: Place) -> str:
        return self._answer.told(place)

    def repeats_question(self, stated: Place) -> bool:
        """Return whether an item only repeats the question, while the reference says more."""
        return self._comparable and bool(self.own) and not self._within(*stated)

    def doubt(self, item: str, stated: Place, found: Place) -> str | None:
        """Return why a span of the answer does not state an item of the reference; None if it may."""
        if not self._comparable:
            return None
        vocabulary, text = self._answer.said(found), self._answer.told(found)
        if is_refusal(text, self._asked) and not is_refusal(self._reference.told(stated), self._asked):
            return "it refuses an answer or announces one"
        wanted = self._within(*stated)
        if not wanted:
            return self._doubt_of_repetition(stated, vocabulary, text)
        for start, end in self._reference.places:
            inside = [word for word in wanted if start <= word.start < end]
            if not inside:
                continue
            sentence = self._within(start, end)
            doubt = shortfall(inside, self._reference.index.text, vocabulary, text, of=sentence)
            if doubt is None and self._is_off_topic:
                doubt = _doubt_off_topic(sentence, vocabulary)
            if doubt is not None:
                return doubt
        named = {significant(word.text) for word in words(item)} - {None}
        numbers = {significant(word.text) for word in wanted} & named
        if numbers and vocabulary.numbers and vocabulary.numbers.isdisjoint(numbers):
            return "its numbers differ"
        return None

    @cached_property
    def _is_off_topic(self) -> bool:
        """Whether the answer shares hardly any words with the question, although the reference does."""
        if not self._asked_words or _has_share(self._asked_words, self._answer_words):
            return False
        if sum(map(is_content, self._answer_words)) < LONG_ANSWER:
            return False
        if _has_share(self._asked_words, Vocabulary(self._answer_words)):
            return False
        return _has_share(self._asked_words, Vocabulary(word_texts(self._reference.index.text)))

    def _within(self, start: int, end: int) -> list[Word]:
        return self.own[bisect_left(self._starts, start) : bisect_left(self._starts, end)]

    def _doubt_of_repetition(self, stated: Place, vocabulary: Vocabulary, text: str) -> str | None:
        """Return a doubt if less than half of an item that repeats the question is in the answer."""
        if text.rstrip().endswith(("?", "\uff1f")):
            return "it is a question"
        span = self._reference.index.text[stated[0] : stated[1]]
        wanted = {word.text for word in content_words(span)} or {word.text for word in words(span)}
        shared = sum(word in vocabulary for word in wanted)
        if 2 * shared >= len(wanted) or is_answering(vocabulary):
            return None
        return f"it shares {shared} of {len(wanted)} words with it (at least half needed)"


def _doubt_off_topic(sentence: list[Word], vocabulary: Vocabulary) -> str | None:
    """Return a doubt if less than half of the sentence's words are shared, which may be chance."""
    wanted = {word.text for word in sentence}
    shared = sum(word in vocabulary for word in wanted)
    if 2 * shared >= len(wanted):
        return None
    return (
        f"the answer has hardly a word of the question, and shares {shared} of {len(wanted)} words with "
        "the sentence (at least half needed)"
    )


def _has_share(asked: Collection[str], said: Collection[str] | Vocabulary) -> bool:
    """Return whether at least one in `QUESTION_SHARE` of the question's words occurs."""
    return QUESTION_SHARE * sum(word in said for word in asked) >= len(asked)


def has_facts_for(
    reference: TextIndex, own: Sequence[Word], facts: Iterable[str], conclusions: Iterable[str]
) -> bool:
    """Return whether the spans of the facts cover enough of the reference to draw the conclusions from."""
    telling = own or content_words(reference)
    of_facts = _covered(reference, facts, telling)
    return FACTS_SHARE * len(of_facts) >= len(of_facts | _covered(reference, conclusions, telling))


def left_out(reference: TextIndex, own: Sequence[Word], spans: Collection[str]) -> list[Place]:
    """Return the sentences of the reference of which less than half is covered by the spans of items.

    A sentence with words that are not in the question is judged by these alone. For a short sentence one
    covered word is enough; the shortest are only checked together.
    """
    if not words(reference):
        # No words, only signs: left out only if there is no item at all.
        return [] if spans else [(0, len(reference.text))]
    counted = list(content_words(reference)) or list(words(reference))
    covered = _covered(reference, spans, counted)
    enough = min(MIN_SENTENCE_WORDS, len(counted))
    own_set = set(own)
    missed: list[Place] = []
    short: dict[Place, list[Word]] = {}
    short_words = 0
    for place, inside in _sentences(reference, counted).items():
        telling = [word for word in inside if word in own_set] or inside
        is_untouched = len(inside) >= MIN_UNTOUCHED_WORDS and covered.isdisjoint(telling)
        if not is_untouched and len(inside) < enough:
            short[place] = telling
            short_words += len(inside)
        elif _is_missed(telling, covered):
            missed.append(place)
    if short_words >= enough and _is_missed([word for some in short.values() for word in some], covered):
        missed += [place for place, telling in short.items() if _is_missed(telling, covered)]
    return sorted(missed)


def _is_missed(some: Collection[Word], covered: Collection[Word]) -> bool:
    return 2 * sum(word in covered for word in some) < len(some)


def _covered(reference: TextIndex, spans: Iterable[str], counted: Sequence[Word]) -> set[Word]:
    """Return the reference's words that occur in any occurrence of a span."""
    distinct = {normalise(span): span for span in spans}
    places = sorted(place for span in distinct.values() for place in reference.find_all(span))
    starts = [word.start for word in counted]
    covered: set[Word] = set()
    reached = 0
    for start, end in places:
        covered.update(counted[bisect_left(starts, max(start, reached)) : bisect_left(starts, end)])
        reached = max(reached, end)
    return covered


def _sentences(reference: TextIndex, counted: Sequence[Word]) -> dict[Place, list[Word]]:
    """Return the places of the reference's distinct sentences, with their words."""
    starts = [word.start for word in counted]
    distinct: dict[tuple[str, ...], tuple[Place, list[Word]]] = {}
    for start, end in sentences(reference.text):
        inside = list(counted[bisect_left(starts, start) : bisect_left(starts, end)])
        distinct.setdefault(tuple(word.text for word in inside), ((start, end), inside))
    return dict(distinct.values())


class SupportWords:
    """Compares claims with the pages that should support them; `untagged` is the answer without its tags."""

    def __init__(self, question: str, answer: str, untagged: str) -> None:
        self._question = question
        self._answer = answer
        self._asked_text = f" {' '.join(word_texts(question))} "
        self._asked_words = {word.text for word in content_words(question)}
        self._asked = Vocabulary(self._asked_words)
        self._answer_words = Vocabulary(word_texts(untagged))
        self._is_long = len(set(filter(is_content, word_texts(untagged)))) >= LONG_ANSWER
        self._pages: dict[int, Surroundings] = {}
        # Cached, because claims share sentences.
        self._own = cache(lambda text: own_words(text, self._asked))
        self._count = cache(lambda text: len(content_words(text)))
        self._emptiness = cache(self._find_emptiness)

    def doubt(self, claim: str, page: int, index: TextIndex, place: Place, *, part_of: str) -> str | None:
        """Return why a span of a page does not support a claim; None if it may.

        A claim of less than half of its sentence `part_of`, or that says no more than the question, is
        compared as the whole sentence.
        """
        empty = self._emptiness(claim) or (self._emptiness(part_of) if part_of not in {"", claim} else None)
        if empty is not None:
            return empty
        doubt = self._doubt_of_words(claim, self._around(page, index), place, part_of)
        if doubt is None or cannot_be_compared(index.text, self._answer, question=self._question):
            return None
        return doubt

    def _doubt_of_words(self, claim: str, around: Surroundings, place: Place, part_of: str) -> str | None:
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

    def page_sentences(self, page: int, index: TextIndex, place: Place) -> str:
        return self._around(page, index).told(place)

    def is_about_question(self, places: Iterable[tuple[int, TextIndex, Place]]) -> bool:
        """Return whether the answer and its supporting spans have enough of the question's words."""
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
