"""Whether the words of pages bear out an answer's claims, and whether it is about the question at all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from judge.text.index import TextIndex
from judge.text.overlap import Surroundings, Vocabulary, cannot_be_compared, own_words, shortfall, significant
from judge.text.refusals import is_refusal
from judge.text.sentences import sentences
from judge.text.words import Word, content_words, word_texts

QUESTION_SHARE = 4
"""Answer and supporting pages together must have at least one in this many of the question's words. Of
answers by models to experts' questions (ExpertQA) one in 200 has less, of pages fetched for other questions
nine in ten do."""
MAX_LOOKS = 20_000
"""Places of pages that are looked at where the judge names none; beyond that it is believed."""
LONG_ANSWER = 6
"""An answer with this many different words that say something has at least one of the question's, whatever
its pages have."""


class Support:
    """Claims against the pages that are said to support them, to a question whose words count for nothing.

    Where the answer is, like the question, surely in another language than a page, the two are not compared:
    the judge is believed.

    Args:
        question: The question.
        answer: The answer under judgement.
        untagged: The same without its tags.
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
        """Return why a place on a page does not show that it supports a claim; None where it may.

        Args:
            claim: The claim as the judge quotes it from the answer.
            part_of: The sentence that it is in. A part of less than half of it, or that says no more than the
                question, is checked against the page with all of it.
            page: The page's number.
            index: The page's text.
            place: The span that is said to support it.
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
            # A word of a sentence is not what it claims.
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
        """The sentences of a page that a place touches."""
        return self._around(page, index).told(place)

    def may_bear_out(self, claim: str, pages: Mapping[int, TextIndex]) -> bool:
        """Whether any place on these pages could support any sentence of a claim.

        For a judge that does not say which: no less is asked than of one that does.

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
        """Whether the answer and the places that support it have enough of the question's words.

        Args:
            index_and_places: Page, its text, and the span there, for each supported claim.
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
        """Its own words; remembered, for the claims of a line are part of the same text."""
        if text not in self._owned:
            self._owned[text] = own_words(text, self._known)
        return self._owned[text]

    def _content(self, text: str) -> Sequence[Word]:
        if text not in self._contents:
            self._contents[text] = content_words(text)
        return self._contents[text]

    def _emptiness(self, claim: str) -> str | None:
        """What makes the claim none by itself."""
        if not self._content(claim):
            return "the claim says nothing"
        if is_refusal(claim, self._known):
            return "the claim refuses an answer or announces one"
        given = f" {' '.join(word_texts(claim))} "
        return "the claim repeats the question" if given in self._asked_text else None


def _problem_of_repetition(claim: str, said: Vocabulary) -> str | None:
    """The claim's words are all in the question: at least half of them must stand on the page, too."""
    if claim.rstrip(" *_\"'").endswith(("?", "\uff1f")):
        return "the claim is a question"
    wanted = {word.text for word in content_words(claim)}
    shared = sum(word in said for word in wanted)
    few = 2 * shared < len(wanted)
    return f"it has {shared} of its {len(wanted)} words (at least half needed)" if few else None
