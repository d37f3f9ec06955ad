"""What a judge listed for coverage, held against the texts it was taken from.

Nothing that the judge says is believed where code can look: spans must occur, an item counts once, a term must be a
term, what is matched must share words with the answer that the question does not give away, conclusions need facts to be
drawn from, and the items must account for the reference, so that leaving out what was missed gains nothing.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Any

from pydantic import BaseModel, ConfigDict

from judge.coverage_overlap import Statements
from judge.quoting import quoted
from judge.sentences import sentences
from judge.text import TextIndex, neutralize, normalise
from judge.words import Word, content_words, is_content, share_stem, words
from schemas import Correction

_NUMBER = re.compile(r"\d[\d.,]*(?:s|st|nd|rd|th)?")

MIN_SENTENCE_WORDS = 3
"""A sentence of the reference with so many content words must be covered by half."""
MIN_UNTOUCHED_WORDS = 2
"""A shorter one with so many must be touched at all: "It was completed in 1889." has two."""

FACTS_SHARE = 4
"""Facts must have at least one in so many of the words that the items have."""


class ListedItem(BaseModel):
    """A fact, conclusion or term as the judge gives it."""

    model_config = ConfigDict(strict=True, frozen=True)

    item: str
    reference_span: str
    answer_span: str | None = None
    justification: str = ""
    matched: bool


class ListedOrganization(BaseModel):
    """The judge's view of the answer's structure."""

    model_config = ConfigDict(strict=True, frozen=True)

    justification: str = ""
    similar: bool


class CoverageReply(BaseModel):
    """The judge's reply in evidence mode. Keys beyond these are ignored."""

    model_config = ConfigDict(strict=True, frozen=True)

    facts: list[ListedItem]
    conclusions: list[ListedItem]
    terms: list[ListedItem]
    organization: ListedOrganization


@dataclass(frozen=True, slots=True)
class Item:
    """A verified item."""

    item: str
    reference_span: str
    reference: tuple[int, int]
    matched: bool
    justification: str
    answer_span: str | None = None
    answer: tuple[int, int] | None = None
    added: bool = False
    """Whether code added it, because the judge left it out."""

    def as_json(self) -> dict[str, Any]:
        """For the result's evidence; offsets are those of the event's own texts."""
        found: dict[str, Any] = {
            "item": self.item,
            "reference_span": self.reference_span,
            "reference_start": self.reference[0],
            "reference_end": self.reference[1],
            "matched": self.matched,
            "justification": self.justification,
            "answer_span": self.answer_span,
        }
        if self.answer is not None:
            found |= {"answer_start": self.answer[0], "answer_end": self.answer[1]}
        return found | {"added": True} if self.added else found


@dataclass(frozen=True, slots=True)
class CoverageEvidence:
    """The items that hold, and what was corrected on the way."""

    facts: tuple[Item, ...]
    conclusions: tuple[Item, ...]
    terms: tuple[Item, ...]
    similar: bool
    organization_justification: str
    corrections: tuple[Correction, ...]

    def as_json(self) -> dict[str, Any]:
        """For the result's evidence."""
        return {
            "facts": [item.as_json() for item in self.facts],
            "conclusions": [item.as_json() for item in self.conclusions],
            "terms": [item.as_json() for item in self.terms],
            "organization": {"similar": self.similar, "justification": self.organization_justification},
        }


def verify_coverage(
    reply: CoverageReply, *, reference: str, answer: str, question: str = ""
) -> CoverageEvidence:
    """Hold a judge's items against reference and answer.

    Args:
        reply: What the judge listed.
        reference: The known good answer, not blank.
        answer: The answer under judgement, not blank.
        question: The question; what it says already proves nothing in the answer.
    """
    return _Verifier(reference, answer, question).verify(reply)


class _Verifier:
    def __init__(self, reference: str, answer: str, question: str) -> None:
        self.reference = TextIndex(reference)
        self.answer = TextIndex(answer)
        self.statements = Statements(self.reference, self.answer, question)
        self.corrections: list[Correction] = []

    def verify(self, reply: CoverageReply) -> CoverageEvidence:
        facts = self._items("facts", reply.facts)
        conclusions = self._apart(facts, self._items("conclusions", reply.conclusions))
        terms = [self._with_its_word(term) for term in self._items("terms", reply.terms)]
        facts, conclusions = self._beyond_question(facts, conclusions)
        facts += self._left_out([*facts, *conclusions])
        if conclusions and not self._bear(facts, conclusions):
            # Without facts a judge would be given their neutral ratio, and with a word as the only one their whole weight.
            self._correct(
                "conclusions_without_facts",
                "conclusions are listed with hardly a fact that they could be drawn from; they count as facts",
            )
            facts, conclusions = [*facts, *conclusions], []
        return CoverageEvidence(
            facts=tuple(facts),
            conclusions=tuple(conclusions),
            terms=tuple(terms),
            similar=reply.organization.similar,
            organization_justification=reply.organization.justification,
            corrections=tuple(self.corrections),
        )

    def _correct(self, kind: str, detail: str) -> None:
        self.corrections.append(Correction(kind=kind, detail=detail))

    def _items(self, name: str, listed: Sequence[ListedItem]) -> list[Item]:
        """The items of one list that stand in the reference, each once, matched where the answer has them."""
        kept: dict[str, Item] = {}
        for number, given in enumerate(listed):
            where = f"{name}[{number}]"
            place = self.reference.find(given.reference_span)
            if place is None:
                self._correct(
                    "span_not_in_reference",
                    f"{where}: {quoted(given.reference_span)} is not in the reference",
                )
                continue
            if name == "terms" and not _is_term(given.item):
                self._correct(
                    "not_a_term", f"{where}: {quoted(given.item)} is a number, a stop word or blank"
                )
                continue
            item = self._matched(where, given, place)
            key = _key(item)
            earlier = kept.get(key)
            if earlier is None:
                kept[key] = item
                continue
            self._correct("duplicate_item", f"{where}: {quoted(given.item)} is listed already")
            if earlier.matched and not item.matched:
                # Once matched and once not is ambiguous, and what is ambiguous is not matched.
                kept[key] = replace(earlier, matched=False)
        return list(kept.values())

    def _matched(self, where: str, given: ListedItem, place: tuple[int, int]) -> Item:
        """The item, matched only if the answer has the span and the span says something."""
        item = Item(given.item, given.reference_span, place, given.matched, given.justification)
        if not given.matched:
            return item
        span = given.answer_span
        found = None if span is None else self.answer.find(span)
        # A reference of stop words alone ("The Who") is matched by its own words.
        if span is None or found is None or not (content_words(span) or _alike(span, given.reference_span)):
            if span is None:
                problem = "no span of the answer is given"
            elif found is None:
                problem = f"{quoted(span)} is not in the answer"
            else:
                problem = f"{quoted(span)} says nothing by itself"
            self._correct("span_not_in_answer", f"{where}: matched, but {problem}")
            return replace(item, matched=False)
        doubt = None if where.startswith("terms") else self.statements.problem(given.item, place, found)
        if doubt is not None:
            self._correct(
                "match_not_borne_out", f"{where}: {quoted(span)} does not state {quoted(given.item)}: {doubt}"
            )
            return replace(item, matched=False)
        return replace(item, answer_span=span, answer=found)

    def _bear(self, facts: Sequence[Item], conclusions: Sequence[Item]) -> bool:
        """Whether facts have enough of the reference for conclusions to be drawn from."""
        telling = self.statements.own or content_words(self.reference)
        of_facts = self._covered(facts, telling)
        return bool(facts) and FACTS_SHARE * len(of_facts) >= len(
            of_facts | self._covered(conclusions, telling)
        )

    def _beyond_question(self, facts: list[Item], conclusions: list[Item]) -> tuple[list[Item], list[Item]]:
        """The same items; those that repeat the question are matched only beside one that is and says more."""
        if any(
            item.matched and not self.statements.repeats_question(item.reference)
            for item in (*facts, *conclusions)
        ):
            return facts, conclusions
        for item in (*facts, *conclusions):
            if item.matched:
                self._correct(
                    "match_not_borne_out",
                    f"{quoted(item.item)} says no more than the question, and nothing else of the reference is matched",
                )
        return [_unmatched(item) for item in facts], [_unmatched(item) for item in conclusions]

    def _apart(self, facts: Iterable[Item], conclusions: Iterable[Item]) -> list[Item]:
        """The conclusions that are not facts as well."""
        items = {_key(fact) for fact in facts}
        spans = {fact.reference for fact in facts}
        kept = []
        for conclusion in conclusions:
            if _key(conclusion) in items or conclusion.reference in spans:
                self._correct(
                    "both_fact_and_conclusion",
                    f"{quoted(conclusion.item)} is listed as a fact, too, and stays one",
                )
            else:
                kept.append(conclusion)
        return kept

    def _with_its_word(self, term: Item) -> Item:
        """The term, matched only if the answer's span has one of its words, in one form or another."""
        if not term.matched or term.answer_span is None:
            return term
        wanted = [word.text for word in content_words(term.item)] or [word.text for word in words(term.item)]
        given = [word.text for word in words(term.answer_span)]
        if any(share_stem(one, other) for one in wanted for other in given):
            return term
        self._correct(
            "term_not_in_answer", f"{quoted(term.item)} shares no word with {quoted(term.answer_span)}"
        )
        return replace(term, matched=False)

    def _left_out(self, items: Sequence[Item]) -> list[Item]:
        """Facts for what the items leave out of the reference: its sentences of which less than half is covered.

        Of a short sentence one covered word is enough, and the shortest are held against the judge all together only.
        """
        if not words(self.reference):
            # Signs alone, say: no item at all is the only way to leave them out.
            whole = _Sentence(0, len(self.reference.text), ())
            return [] if items else [self._added(whole, set())]
        says = is_content if content_words(self.reference) else _any_word
        all_words = [word for word in words(self.reference) if says(word.text)]
        own = set(self.statements.own)
        covered = self._covered(items, all_words)
        enough = min(MIN_SENTENCE_WORDS, len(all_words))
        long: list[_Sentence] = []
        short: list[_Sentence] = []
        for sentence in self._sentences(all_words, own):
            untouched = len(sentence.words) >= MIN_UNTOUCHED_WORDS and covered.isdisjoint(sentence.telling)
            (long if untouched or len(sentence.words) >= enough else short).append(sentence)
        missed = [sentence for sentence in long if sentence.is_left_out(covered)]
        pool = [word for sentence in short for word in sentence.telling]
        if sum(len(sentence.words) for sentence in short) >= enough and _is_left_out(pool, covered):
            missed += [sentence for sentence in short if sentence.is_left_out(covered)]
        answer_words = self.statements.answer_words
        return [self._added(sentence, answer_words) for sentence in sorted(missed, key=lambda one: one.start)]

    def _covered(self, items: Iterable[Item], all_words: Sequence[Word]) -> set[Word]:
        """The reference's words that stand in an item's span, at any of the places where that span stands."""
        spans = {normalise(item.reference_span): item.reference_span for item in items}
        places = sorted(place for span in spans.values() for place in self.reference.find_all(span))
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

    def _sentences(self, all_words: Sequence[Word], own: set[Word]) -> list[_Sentence]:
        """The reference's sentences with their words; one that repeats another is left out."""
        found: dict[tuple[str, ...], _Sentence] = {}
        position = 0
        for start, end in sentences(self.reference.text):
            inside = []
            while position < len(all_words) and all_words[position].start < end:
                inside.append(all_words[position])
                position += 1
            found.setdefault(
                tuple(word.text for word in inside),
                _Sentence(start, end, tuple(inside), own.intersection(inside)),
            )
        return list(found.values())

    def _added(self, sentence: _Sentence, answer_words: Collection[str]) -> Item:
        text = neutralize(self.reference.text[sentence.start : sentence.end]).strip()
        if sentence.words:
            # What the question says already need not be repeated, and repeating it alone shows nothing.
            wanted = [word for word in sentence.words if word in sentence.telling]
            missing = [word.text for word in wanted if word.text not in answer_words]
        else:
            missing = [] if self.answer.find(text) else [text]
        self._correct(
            "reference_not_accounted",
            f"no item accounts for {quoted(text)} in the reference; added as a fact",
        )
        said = f"the answer lacks {quoted(', '.join(missing))}" if missing else "the answer has all its words"
        return Item(
            item=text,
            reference_span=text,
            reference=(sentence.start, sentence.end),
            matched=not missing,
            justification=f"Left out by the judge; {said}.",
            added=True,
        )


@dataclass(frozen=True, slots=True)
class _Sentence:
    start: int
    end: int
    words: tuple[Word, ...]
    own: AbstractSet[Word] = frozenset()
    """Those of the words that the question does not say already."""

    @property
    def telling(self) -> Collection[Word]:
        """The words by which it is told whether items account for it."""
        return self.own or self.words

    def is_left_out(self, covered: set[Word]) -> bool:
        return _is_left_out(self.telling, covered)


def _is_left_out(some: Collection[Word], covered: set[Word]) -> bool:
    return 2 * sum(word in covered for word in some) < len(some)


def _unmatched(item: Item) -> Item:
    return replace(item, matched=False, answer_span=None, answer=None)


def _any_word(_: str) -> bool:
    return True


def _is_term(item: str) -> bool:
    return any(not _NUMBER.fullmatch(word.text) for word in content_words(item))


def _key(item: Item) -> str:
    """What tells items apart: their words, or their span where they have none."""
    return normalise(item.item).rstrip(".") or normalise(item.reference_span)


def _alike(one: str, other: str) -> bool:
    return [word.text for word in words(one)] == [word.text for word in words(other)] != []
