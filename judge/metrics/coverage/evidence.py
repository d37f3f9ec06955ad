"""What a judge listed for coverage, held against the texts it was taken from.

Nothing that the judge says is believed where code can look: spans must occur, an item counts once, a term must be a
term, what is matched must share words with the answer that the question does not give away, conclusions need facts to be
drawn from, and the items must account for the reference, so that leaving out what was missed gains nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from judge.metrics.coverage.account import Account, ReferenceSentence
from judge.metrics.coverage.items import CoverageEvidence, CoverageReply, Item, ListedItem
from judge.metrics.coverage.statements import Statements
from judge.text.index import TextIndex, neutralize, normalise
from judge.text.quoting import quoted
from judge.text.words import content_words, share_stem, words
from schemas import Correction

_NUMBER = re.compile(r"\d[\d.,]*(?:s|st|nd|rd|th)?")


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
        self.account = Account(self.reference, self.statements.own)
        self.corrections: list[Correction] = []

    def verify(self, reply: CoverageReply) -> CoverageEvidence:
        facts = self._items("facts", reply.facts)
        conclusions = self._apart(facts, self._items("conclusions", reply.conclusions))
        terms = [self._with_its_word(term) for term in self._items("terms", reply.terms)]
        facts, conclusions = self._beyond_question(facts, conclusions)
        listed = _spans([*facts, *conclusions])
        facts += [self._added(sentence) for sentence in self.account.left_out(listed)]
        if conclusions and not (facts and self.account.bears(_spans(facts), _spans(conclusions))):
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

    def _added(self, sentence: ReferenceSentence) -> Item:
        """A fact for what was left out."""
        text = neutralize(self.reference.text[sentence.start : sentence.end]).strip()
        if sentence.words:
            # What the question says already need not be repeated, and repeating it alone shows nothing.
            answer_words = self.statements.answer_words
            missing = [word.text for word in sentence.telling if word.text not in answer_words]
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


def _spans(items: Iterable[Item]) -> list[str]:
    return [item.reference_span for item in items]


def _unmatched(item: Item) -> Item:
    return replace(item, matched=False, answer_span=None, answer=None)


def _is_term(item: str) -> bool:
    return any(not _NUMBER.fullmatch(word.text) for word in content_words(item))


def _key(item: Item) -> str:
    """What tells items apart: their words, or their span where they have none."""
    return normalise(item.item).rstrip(".") or normalise(item.reference_span)


def _alike(one: str, other: str) -> bool:
    return [word.text for word in words(one)] == [word.text for word in words(other)] != []
