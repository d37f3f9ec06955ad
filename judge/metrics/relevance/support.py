"""Check by words whether pages support an answer's claims, and whether it is about the question."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from judge.text.normal import TextIndex
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
from judge.text.words import Word, content_words, word_texts

QUESTION_SHARE = 4
"""Answer and supporting pages together must have at least one in this many of the question's words. 1 in 200
model answers to experts' questions (ExpertQA) have less, and 9 in 10 pages retrieved for other questions."""
MAX_LOOKS = 20_000
"""Limit of examined places if the judge names none; beyond it the judge's verdict is accepted."""
LONG_ANSWER = 6
"""Distinct content words from which an answer itself must share a word with the question."""


class Support:
    """Compares claims with the pages that should support them; words of the question do not count.

    If the answer and the question are certainly in another language than a page, the judge's verdict is
    accepted without comparison.

    Args:
        question: The question.
        answer: The judged answer.
        untagged: The answer without its tags.
    """

    def __init__(self, question: str, answer: str, untagged: str) -> None:
        self._question = question
        self._answer = answer
        self._asked_text = f" {' '.join(word_texts(question))} "
        self._asked = {word.text for word in content_words(question)}
        self._known = Vocabulary(self._asked)
        self._said = Vocabulary(word_texts(untagged))
        self._is_long = len({word.text for word in content_words(untagged)}) >= LONG_ANSWER
        self._pages: dict[int, Surroundings] = {}
        self._owned: dict[str, Sequence[Word]] = {}
        self._contents: dict[str, Sequence[Word]] = {}
        self._looks = 0

    def problem(
        self, claim: str, page: int, index: TextIndex, place: tuple[int, int], *, part_of: str = ""
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
        empty = self._emptiness(claim)
        if empty is None and part_of not in {"", claim}:
            empty = self._emptiness(part_of)
        if empty is not None:
            return empty
        around = self._around(page, index)
        if cannot_be_compared(index.text, self._answer, question=self._question):
            return None
        said = around.said(place, neighbours=1)
        if 2 * len(self._content(claim)) < len(self._content(part_of)):
            # One word of a sentence is not its claim.
            claim = part_of
        own = whole = self._own(part_of)
        if claim != part_of:
            own = self._own(claim)
        if not own and part_of:
            claim, own = part_of, whole
        if not own:
            return _problem_of_repetition(claim, said)
        numbers = {significant(word.text) for word in own} - {None}
        if numbers and said.numbers and said.numbers.isdisjoint(numbers):
            return "its numbers differ"
        return shortfall(own, claim, said, around.told(place, neighbours=1), of=whole)

    def told(self, page: int, index: TextIndex, place: tuple[int, int]) -> str:
        """Return the sentences of a page that overlap a span."""
        return self._around(page, index).told(place)

    def may_bear_out(self, claim: str, pages: Mapping[int, TextIndex]) -> bool:
        """Return whether any span of these pages could support any sentence of a claim.

        Used if the judge names no spans; the same rules apply.

        Args:
            claim: The claim, without its tag.
            pages: The pages it cites, by number.
        """
        for start, end in sentences(claim):
            sentence = claim[start:end]
            for page, index in pages.items():
                for place in self._around(page, index).places:
                    self._looks += 1
                    if self._looks > MAX_LOOKS:
                        return True
                    if self.problem(sentence, page, index, place, part_of=sentence) is None:
                        return True
        return False

    def is_about(self, index_and_places: Iterable[tuple[int, TextIndex, tuple[int, int]]]) -> bool:
        """Return whether the answer and its supporting spans have enough of the question's words.

        Args:
            index_and_places: Page, text and span for each supported claim.
        """
        if not self._asked:
            return True
        open_words = self._missing(self._asked, self._said)
        if self._is_long and len(open_words) == len(self._asked):
            return False
        for page, index, place in index_and_places:
            around = self._around(page, index)
            open_words = self._missing(open_words, around.said(place, neighbours=1))
        return len(self._asked) - len(open_words) >= -(-len(self._asked) // QUESTION_SHARE)

    def _around(self, page: int, index: TextIndex) -> Surroundings:
        around = self._pages.get(page)
        if around is None:
            around = self._pages[page] = Surroundings(index)
        return around

    @staticmethod
    def _missing(wanted: set[str], said: Vocabulary) -> set[str]:
        return {word for word in wanted if word not in said}

    def _own(self, text: str) -> Sequence[Word]:
        """Return a text's words that are not in the question; cached, because claims share sentences."""
        if text not in self._owned:
            self._owned[text] = own_words(text, self._known)
        return self._owned[text]

    def _content(self, text: str) -> Sequence[Word]:
        if text not in self._contents:
            self._contents[text] = content_words(text)
        return self._contents[text]

    def _emptiness(self, claim: str) -> str | None:
        """Return why a claim has no content of its own; None if it has."""
        if not self._content(claim):
            return "the claim says nothing"
        if is_refusal(claim, self._known):
            return "the claim refuses an answer or announces one"
        given = f" {' '.join(word_texts(claim))} "
        return "the claim repeats the question" if given in self._asked_text else None


def _problem_of_repetition(claim: str, said: Vocabulary) -> str | None:
    """Return a problem if less than half of a claim that repeats the question is on the page."""
    if claim.rstrip(" *_\"'").endswith(("?", "\uff1f")):
        return "the claim is a question"
    wanted = {word.text for word in content_words(claim)}
    shared = sum(word in said for word in wanted)
    few = 2 * shared < len(wanted)
    return f"it has {shared} of its {len(wanted)} words (at least half needed)" if few else None
