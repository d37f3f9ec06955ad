"""Whether an answer's words bear out that it states what a reference states."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection
from functools import cached_property

from judge.text.index import TextIndex
from judge.text.overlap import (
    Surroundings,
    Vocabulary,
    cannot_be_compared,
    is_answering,
    own_words,
    shortfall,
    significant,
)
from judge.text.refusals import is_refusal
from judge.text.tags import without_tags
from judge.text.words import Word, content_words, is_content, word_texts, words

QUESTION_SHARE = 4
"""An answer that has fewer than one in this many of the question's words, where the reference has more, is on
something else. Of answers that people accept (NQ) one in 1,390 is, of answers by models to experts' questions
(ExpertQA) none of 219, of pages fetched for other questions two in three."""
MAX_LOOKS = 20_000
"""Pairs of sentences that are looked at; beyond that the judge is believed."""
LONG_ANSWER = 6
"""Where the answer has this many different words that say something: a short one need not repeat what was
asked."""


class Statements:
    """A reference's statements against an answer, to a question whose words count for nothing.

    Where the answer is, like the question, surely in another language than the reference, nothing is
    compared: the judge is believed.

    Args:
        reference: The known good answer.
        answer: The answer under judgement.
        question: The question.
    """

    def __init__(self, reference: TextIndex, answer: TextIndex, question: str) -> None:
        self._reference = Surroundings(reference)
        # An evidence tag has words and a number that state nothing.
        untagged = without_tags(answer.text)
        self._answer = Surroundings(answer, text=untagged)
        self.answer_words = frozenset(word_texts(untagged))
        """The answer's words, without those of its evidence tags."""
        self._asked_words = {word.text for word in content_words(question)}
        self._asked = Vocabulary(self._asked_words)
        self.own = own_words(reference, self._asked)
        """The reference's words that the question does not say already."""
        self._starts = [word.start for word in self.own]
        self._comparable = not cannot_be_compared(reference.text, answer.text, question=question)

    def problem(self, item: str, stated: tuple[int, int], found: tuple[int, int]) -> str | None:
        """Return why a place in the answer does not show that the answer states an item; None where it may.

        Args:
            item: The item in the judge's words.
            stated: Its span in the reference.
            found: The span in the answer that is said to state it.
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
        """The sentences of the reference that a place touches."""
        return self._reference.told(place)

    def told(self, place: tuple[int, int]) -> str:
        """The sentences of the answer that a place touches, without tags."""
        return self._answer.told(place)

    def may_state_anything(self) -> bool:
        """Whether any sentence of the answer could show that it states something of the reference.

        For a judge that does not say which: one word in common is enough, unless the answer is on something
        else.
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
        """Whether the answer shares hardly a word with the question, though the reference does."""
        if not self._asked_words or _has_share(self._asked_words, self.answer_words):
            return False
        if sum(map(is_content, self.answer_words)) < LONG_ANSWER:
            return False
        if _has_share(self._asked_words, Vocabulary(self.answer_words)):
            return False
        return _has_share(self._asked_words, Vocabulary(word_texts(self._reference.index.text)))

    @staticmethod
    def _shortfall_beside_the_point(sentence: list[Word], said: Vocabulary) -> str | None:
        """Some words are shared by chance: half of the sentence's are not."""
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
        """Whether an item says nothing that the question does not say, in a reference that says more."""
        return self._comparable and bool(self.own) and not self._within(*stated)

    def _problem_of_repetition(self, stated: tuple[int, int], said: Vocabulary, told: str) -> str | None:
        """The item says nothing beyond the question, or yes or no: half of it must be in the answer, too."""
        if told.rstrip().endswith(("?", "\uff1f")):
            return "it is a question"
        span = self._reference.index.text[stated[0] : stated[1]]
        wanted = {word.text for word in content_words(span)} or {word.text for word in words(span)}
        shared = sum(word in said for word in wanted)
        if 2 * shared >= len(wanted) or is_answering(said):
            return None
        return f"it shares {shared} of {len(wanted)} words with it (at least half needed)"


def _has_share(asked: Collection[str], said: Collection[str] | Vocabulary) -> bool:
    """Whether at least one in `QUESTION_SHARE` of the question's words is said."""
    return QUESTION_SHARE * sum(word in said for word in asked) >= len(asked)
