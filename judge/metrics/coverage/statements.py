"""Check by words whether an answer states what a reference states."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection
from functools import cached_property

from judge.text.citations import without_tags
from judge.text.normal import TextIndex
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
from judge.text.words import Word, content_words, is_content, word_texts, words

QUESTION_SHARE = 4
"""An answer with less than one in this many of the question's words is off topic, if the reference has more.
This holds for 1 in 1,390 accepted human answers (NQ), for none of 219 model answers to experts' questions
(ExpertQA), and for two in three pages retrieved for other questions."""
MAX_LOOKS = 20_000
"""Limit of compared pairs of sentences; beyond it the judge's verdict is accepted."""
LONG_ANSWER = 6
"""Distinct content words from which an answer is checked for being off topic; a short one need not repeat the
question."""


class Statements:
    """Compares an answer with a reference's statements; words of the question do not count.

    If the answer and the question are certainly in another language than the reference, the judge's verdict
    is accepted without comparison.

    Args:
        reference: The reference.
        answer: The judged answer.
        question: The question.
    """

    def __init__(self, reference: TextIndex, answer: TextIndex, question: str) -> None:
        self._reference = Surroundings(reference)
        # Words and numbers of evidence tags state nothing.
        untagged = without_tags(answer.text)
        self._answer = Surroundings(answer, text=untagged)
        self.answer_words = frozenset(word_texts(untagged))
        """The answer's words, without those of its evidence tags."""
        self._asked_words = {word.text for word in content_words(question)}
        self._asked = Vocabulary(self._asked_words)
        self.own = own_words(reference, self._asked)
        """The reference's words that are not in the question."""
        self._starts = [word.start for word in self.own]
        self._comparable = not cannot_be_compared(reference.text, answer.text, question=question)

    def problem(self, item: str, stated: tuple[int, int], found: tuple[int, int]) -> str | None:
        """Return why a span of the answer does not state an item; None if it may.

        Args:
            item: The item in the judge's words.
            stated: The item's span in the reference.
            found: The quoted span in the answer.
        """
        if not self._comparable:
            return None
        said, told = self._answer.said(found), self._answer.told(found)
        if is_refusal(told, self._asked) and not is_refusal(self._reference.told(stated), self._asked):
            return "it refuses an answer or announces one"
        wanted = self._within(*stated)
        if not wanted:
            return self._problem_of_repetition(stated, said, told)
        text = self._reference.index.text
        for start, end in self._reference.places:
            inside = [word for word in wanted if start <= word.start < end]
            if inside:
                whole = self._within(start, end)
                problem = shortfall(inside, text, said, told, of=whole)
                problem = problem or (
                    self._shortfall_beside_the_point(whole, said) if self._is_on_something_else else None
                )
                if problem is not None:
                    return problem
        return self._problem_of_numbers(item, wanted, said)

    def stated(self, place: tuple[int, int]) -> str:
        """Return the sentences of the reference that overlap a span."""
        return self._reference.told(place)

    def told(self, place: tuple[int, int]) -> str:
        """Return the sentences of the answer that overlap a span, without tags."""
        return self._answer.told(place)

    def may_state_anything(self) -> bool:
        """Return whether any sentence of the answer could state part of the reference.

        Used if the judge names no items: one common word is enough, unless the answer is off topic.
        """
        if not self._comparable or not self.own:
            return True
        everything = Vocabulary(self.answer_words)
        looks = 0
        for start, end in self._reference.places:
            whole = self._within(start, end)
            if not any(word.text in everything for word in whole):
                continue
            for found in self._answer.places:
                looks += 1
                if looks > MAX_LOOKS:
                    return True
                said = self._answer.said(found)
                if not any(word.text in said for word in whole):
                    continue
                if is_refusal(self._answer.told(found), self._asked):
                    continue
                if not (self._is_on_something_else and self._shortfall_beside_the_point(whole, said)):
                    return True
        return False

    @cached_property
    def _is_on_something_else(self) -> bool:
        """Whether the answer shares hardly any words with the question, although the reference does."""
        if not self._asked_words or _has_share(self._asked_words, self.answer_words):
            return False
        if sum(map(is_content, self.answer_words)) < LONG_ANSWER:
            return False
        if _has_share(self._asked_words, Vocabulary(self.answer_words)):
            return False
        return _has_share(self._asked_words, Vocabulary(word_texts(self._reference.index.text)))

    @staticmethod
    def _shortfall_beside_the_point(sentence: list[Word], said: Vocabulary) -> str | None:
        """Return a problem if less than half of the sentence's words are shared, which may be chance."""
        wanted = {word.text for word in sentence}
        shared = sum(word in said for word in wanted)
        if 2 * shared >= len(wanted):
            return None
        return (
            f"the answer has hardly a word of the question, and shares {shared} of {len(wanted)} words with "
            "the sentence (at least half needed)"
        )

    def _within(self, start: int, end: int) -> list[Word]:
        return self.own[bisect_left(self._starts, start) : bisect_left(self._starts, end)]

    def _problem_of_numbers(self, item: str, wanted: list[Word], said: Vocabulary) -> str | None:
        named = {significant(word.text) for word in words(item)} - {None}
        numbers = {number for word in wanted for number in (significant(word.text),) if number in named}
        if numbers and said.numbers and said.numbers.isdisjoint(numbers):
            return "its numbers differ"
        return None

    def repeats_question(self, stated: tuple[int, int]) -> bool:
        """Return whether an item only repeats the question, while the reference says more."""
        return self._comparable and bool(self.own) and not self._within(*stated)

    def _problem_of_repetition(self, stated: tuple[int, int], said: Vocabulary, told: str) -> str | None:
        """Return a problem if less than half of an item that repeats the question is in the answer."""
        if told.rstrip().endswith(("?", "\uff1f")):
            return "it is a question"
        span = self._reference.index.text[stated[0] : stated[1]]
        wanted = {word.text for word in content_words(span)} or {word.text for word in words(span)}
        shared = sum(word in said for word in wanted)
        if 2 * shared >= len(wanted) or is_answering(said):
            return None
        return f"it shares {shared} of {len(wanted)} words with it (at least half needed)"


def _has_share(asked: Collection[str], said: Collection[str] | Vocabulary) -> bool:
    """Return whether at least one in `QUESTION_SHARE` of the question's words occurs."""
    return QUESTION_SHARE * sum(word in said for word in asked) >= len(asked)
