"""Check that a coverage judge's items account for the reference: omitting misses must gain nothing."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from judge.text.normal import TextIndex, normalise
from judge.text.sentences import sentences
from judge.text.words import Word, content_words, is_content, words

MIN_SENTENCE_WORDS = 3
"""Sentences of the reference with at least this many content words must be half covered."""
MIN_UNTOUCHED_WORDS = 2
"""Shorter ones with at least this many need one covered word: "It was completed in 1889." has two."""
FACTS_SHARE = 4
"""Facts must contain at least one in this many of the items' words."""


@dataclass(frozen=True, slots=True)
class ReferenceSentence:
    """A sentence of the reference, with the words that items must cover."""

    start: int
    end: int
    words: tuple[Word, ...]
    own: AbstractSet[Word] = frozenset()
    """The words that are not in the question."""

    @property
    def telling(self) -> Sequence[Word]:
        """Its own words, or all if it has none, in order."""
        return [word for word in self.words if word in self.own] if self.own else self.words


class Account:
    """Compares the spans of items with the whole reference.

    Args:
        reference: The reference.
        own: Its words that are not in the question.
    """

    def __init__(self, reference: TextIndex, own: Sequence[Word]) -> None:
        self._reference = reference
        self._own = own

    def bears(self, facts: Iterable[str], conclusions: Iterable[str]) -> bool:
        """Return whether the facts cover enough of the reference to draw conclusions from.

        Args:
            facts: The spans of the facts.
            conclusions: The spans of the conclusions.
        """
        telling = self._own or content_words(self._reference)
        of_facts = self._covered(facts, telling)
        both = of_facts | self._covered(conclusions, telling)
        return FACTS_SHARE * len(of_facts) >= len(both)

    def left_out(self, spans: Collection[str]) -> list[ReferenceSentence]:
        """Return the sentences of the reference of which less than half is covered, in order.

        For a short sentence one covered word is enough; the shortest are only checked together.

        Args:
            spans: The spans of all items.
        """
        if not words(self._reference):
            # No words, only signs: left out only if there is no item at all.
            return [] if spans else [ReferenceSentence(0, len(self._reference.text), ())]
        says = is_content if content_words(self._reference) else _any_word
        all_words = [word for word in words(self._reference) if says(word.text)]
        covered = self._covered(spans, all_words)
        enough = min(MIN_SENTENCE_WORDS, len(all_words))
        long: list[ReferenceSentence] = []
        short: list[ReferenceSentence] = []
        for sentence in self._sentences(all_words):
            untouched = len(sentence.words) >= MIN_UNTOUCHED_WORDS and covered.isdisjoint(sentence.telling)
            (long if untouched or len(sentence.words) >= enough else short).append(sentence)
        missed = [sentence for sentence in long if _is_left_out(sentence.telling, covered)]
        pool = [word for sentence in short for word in sentence.telling]
        if sum(len(sentence.words) for sentence in short) >= enough and _is_left_out(pool, covered):
            missed += [sentence for sentence in short if _is_left_out(sentence.telling, covered)]
        return sorted(missed, key=lambda one: one.start)

    def _covered(self, spans: Iterable[str], all_words: Sequence[Word]) -> set[Word]:
        """Return the reference's words that occur in any occurrence of a span."""
        different = {normalise(span): span for span in spans}
        places = sorted(place for span in different.values() for place in self._reference.find_all(span))
        covered: set[Word] = set()
        reached = 0
        waiting = iter(all_words)
        word = next(waiting, None)
        for start, end in places:
            reached = max(reached, end)
            while word is not None and word.start < reached:
                if word.start >= start:
                    covered.add(word)
                word = next(waiting, None)
        return covered

    def _sentences(self, all_words: Sequence[Word]) -> list[ReferenceSentence]:
        """Return the reference's distinct sentences with their words."""
        own = set(self._own)
        found: dict[tuple[str, ...], ReferenceSentence] = {}
        position = 0
        for start, end in sentences(self._reference.text):
            inside = []
            while position < len(all_words) and all_words[position].start < end:
                inside.append(all_words[position])
                position += 1
            found.setdefault(
                tuple(word.text for word in inside),
                ReferenceSentence(start, end, tuple(inside), own.intersection(inside)),
            )
        return list(found.values())


def _is_left_out(some: Collection[Word], covered: AbstractSet[Word]) -> bool:
    return 2 * sum(word in covered for word in some) < len(some)


def _any_word(_: str) -> bool:
    return True
