"""Whether an answer's words bear out that it states what a reference states."""

from __future__ import annotations

from bisect import bisect_left

from judge.overlap import (
    Surroundings,
    Vocabulary,
    cannot_be_compared,
    is_answering,
    own_words,
    shortfall,
    significant,
)
from judge.tags import without_tags
from judge.text import TextIndex, Word, content_words, word_texts, words


class Statements:
    """A reference's statements against an answer, to a question whose words count for nothing.

    Where the answer is, like the question, surely in another language than the reference, nothing is compared: the judge
    is believed.

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
        self._asked = Vocabulary(word.text for word in content_words(question))
        self.own = own_words(reference, self._asked)
        """The reference's words that the question does not say already."""
        self._starts = [word.start for word in self.own]
        self._comparable = not cannot_be_compared(reference.text, answer.text, question=question)

    def problem(self, item: str, stated: tuple[int, int], found: tuple[int, int]) -> str | None:
        """Say why a place in the answer does not show that the answer states an item; None where it may.

        Args:
            item: The item in the judge's words.
            stated: Its span in the reference.
            found: The span in the answer that is said to state it.
        """
        if not self._comparable:
            return None
        said, told = self._answer.said(found), self._answer.told(found)
        wanted = self._within(*stated)
        if not wanted:
            return self._problem_of_repetition(stated, said, told)
        text = self._reference.index.text
        for start, end in self._reference.places:
            inside = [word for word in wanted if start <= word.start < end]
            if inside:
                problem = shortfall(inside, text, said, told, of=self._within(start, end))
                if problem is not None:
                    return problem
        return self._problem_of_numbers(item, wanted, said)

    def _within(self, start: int, end: int) -> list[Word]:
        return self.own[bisect_left(self._starts, start) : bisect_left(self._starts, end)]

    def _problem_of_numbers(self, item: str, wanted: list[Word], said: Vocabulary) -> str | None:
        named = {significant(word.text) for word in words(item)} - {None}
        numbers = {number for word in wanted for number in (significant(word.text),) if number in named}
        if numbers and said.numbers and said.numbers.isdisjoint(numbers):
            return "its numbers are others"
        return None

    def repeats_question(self, stated: tuple[int, int]) -> bool:
        """Whether an item says nothing that the question does not say, in a reference that says more."""
        return self._comparable and bool(self.own) and not self._within(*stated)

    def _problem_of_repetition(self, stated: tuple[int, int], said: Vocabulary, told: str) -> str | None:
        """The item says nothing beyond the question (or yes, or no): half of it must be in the answer, too."""
        if told.rstrip().endswith(("?", "\uff1f")):
            return "it is a question"
        span = self._reference.index.text[stated[0] : stated[1]]
        wanted = {word.text for word in content_words(span)} or {word.text for word in words(span)}
        shared = sum(word in said for word in wanted)
        if 2 * shared >= len(wanted) or is_answering(said):
            return None
        return f"it shares {shared} of {len(wanted)} words with it, at least half are needed"
