"""Verify a coverage judge's items against the texts.

Corrections (always lower the score): quotations that are not in their text, duplicate items, terms that are
    numbers, matches whose two quotations contradict each other. Suspicions: matches that share no words with
    the answer, items that do not account for the reference, conclusions with hardly any fact.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from judge.metric import Verification
from judge.metrics.coverage.account import Account, ReferenceSentence
from judge.metrics.coverage.items import CoverageEvidence, CoverageReply, Item, ListedItem
from judge.metrics.coverage.statements import Statements
from judge.metrics.findings import Findings
from judge.text.citations import without_tags
from judge.text.contradictions import Passage, contradiction_between
from judge.text.normal import neutralize, normalise, quoted
from judge.text.quotations import Quotable, Quotation
from judge.text.words import content_words, has_content, has_words, share_stem, words

_NOTHING_LISTED = (
    "facts and conclusions are empty, but the reference says something; list what it states, matched or not"
)
_NUMBER = re.compile(r"\d[\d.,]*(?:s|st|nd|rd|th)?")


def verify_coverage(
    reply: CoverageReply,
    *,
    reference: str,
    answer: str,
    question: str = "",
    verification: Verification = "marks",
) -> CoverageEvidence:
    """Verify a judge's items against reference and answer.

    Args:
        reply: The judge's items.
        reference: The reference, not blank.
        answer: The judged answer, not blank.
        question: The question; its words are no evidence in the answer.
        verification: How suspicions are handled.
    """
    return _Verifier(reference, answer, question, verification).verify(reply)


class _Verifier:
    def __init__(self, reference: str, answer: str, question: str, verification: Verification) -> None:
        self.reference = Quotable(reference)
        self.answer = Quotable(answer, read=without_tags(answer))
        self.statements = Statements(self.reference.index, self.answer.index, question)
        self.findings = Findings(verification)

    def verify(self, reply: CoverageReply) -> CoverageEvidence:
        facts = self._items("facts", reply.facts)
        conclusions = self._apart(facts, self._items("conclusions", reply.conclusions))
        terms = [self._with_its_word(term) for term in self._items("terms", reply.terms)]
        if self.findings.looks_for_suspicions:
            facts, conclusions = self._beyond_question(facts, conclusions)
            facts, conclusions = self._accounted(facts, conclusions)
        return CoverageEvidence(
            facts=tuple(facts),
            conclusions=tuple(conclusions),
            terms=tuple(terms),
            similar=reply.organization.similar,
            organization_justification=reply.organization.justification,
            corrections=self.findings.corrections,
            suspicions=self.findings.suspicions,
            objection=self.findings.objection if reply.facts or reply.conclusions else _NOTHING_LISTED,
        )

    def _items(self, name: str, listed: Sequence[ListedItem]) -> list[Item]:
        """Return the distinct items of one list, matched if the answer has them."""
        kept: dict[str, Item] = {}
        for number, given in enumerate(listed):
            where = f"{name}[{number}]"
            if name == "terms" and not self._is_term(where, given.item):
                continue
            item = self._checked(where, given)
            if item is None:
                continue
            key = _key(item)
            earlier = kept.get(key)
            if earlier is None:
                kept[key] = item
                continue
            self.findings.correct("duplicate_item", f"{where}: {quoted(given.item)} is listed already")
            if earlier.matched and not item.matched:
                # An item listed as matched and as unmatched counts as unmatched.
                kept[key] = replace(earlier, matched=False)
        return list(kept.values())

    def _is_term(self, where: str, term: str) -> bool:
        said = content_words(term)
        detail = f"{where}: {quoted(term)} is a number, a stop word or blank"
        if not has_words(term) or (said and all(_NUMBER.fullmatch(word.text) for word in said)):
            self.findings.correct("not_a_term", detail)
            return False
        # "The Who" and "IT" only look like stop words.
        return bool(said) or not self.findings.suspect("not_a_term", detail)

    def _checked(self, where: str, given: ListedItem) -> Item | None:
        """Return the item with its place in the reference; None if it is invented and unmatched."""
        found = self.reference.find(given.reference_span)
        item = Item(given.item, given.reference_span, None, given.matched, given.justification)
        if found is None:
            self.findings.not_found(f"{where}.reference_span", given.reference_span, "the reference")
            self.findings.correct(
                "span_not_in_reference", f"{where}: {quoted(given.reference_span)} is not in the reference"
            )
            # An invented unmatched item is dropped; an invented match counts as unmatched.
            return replace(item, matched=False) if given.matched else None
        item = replace(item, reference_span=found.words, reference=found.place, inexact=found.kind != "exact")
        return self._matched(where, given, item, found) if given.matched else item

    def _matched(self, where: str, given: ListedItem, item: Item, stated: Quotation) -> Item:
        """Return the item, matched only if the answer has its words and does not contradict it."""
        span = given.answer_span
        found = self.answer.find(span) if span is not None and has_words(span) else None
        if span is None or found is None:
            problem = (
                "no span of the answer is given" if span is None else f"{quoted(span)} is not in the answer"
            )
            self.findings.not_found(f"{where}.answer_span", span, "the answer")
            self.findings.correct("span_not_in_answer", f"{where}: matched, but {problem}")
            return replace(item, matched=False)
        if not where.startswith("terms"):
            against = contradiction_between(
                Passage(stated.words, self.statements.stated(stated.place)),
                Passage(found.words, self.statements.told(found.place)),
            )
            if against is not None:
                self.findings.correct(
                    against.kind,
                    (
                        f"{where}: the answer says {quoted(against.stated)}, the reference "
                        f"{quoted(against.source)}"
                    ),
                )
                return replace(item, matched=False)
        if self._is_doubted(where, given, stated, found):
            return replace(item, matched=False)
        inexact = item.inexact or found.kind != "exact"
        return replace(item, answer_span=found.words, answer=found.place, inexact=inexact)

    def _is_doubted(self, where: str, given: ListedItem, stated: Quotation, found: Quotation) -> bool:
        """Return whether a suspicion removes the match."""
        if not self.findings.looks_for_suspicions:
            return False
        # A reference of only stop words ("The Who") is matched by its own words.
        if not (has_content(found.words) or _alike(found.words, stated.words)):
            return self.findings.suspect(
                "span_says_nothing", f"{where}: matched, but {quoted(found.words)} says nothing by itself"
            )
        if where.startswith("terms"):
            return False
        doubt = self.statements.problem(given.item, stated.place, found.place)
        return doubt is not None and self.findings.suspect(
            "match_not_borne_out",
            f"{where}: {quoted(found.words)} does not state {quoted(given.item)}: {doubt}",
        )

    def _beyond_question(self, facts: list[Item], conclusions: list[Item]) -> tuple[list[Item], list[Item]]:
        """Return the items; those that repeat the question need another matched item that says more."""
        matched = [item for item in (*facts, *conclusions) if item.matched and item.reference is not None]
        if any(item.reference and not self.statements.repeats_question(item.reference) for item in matched):
            return facts, conclusions
        lowered = [
            self.findings.suspect(
                "match_not_borne_out",
                (
                    f"{quoted(item.item)} only repeats the question, and nothing else of the reference is "
                    "matched"
                ),
            )
            for item in matched
        ]
        if not any(lowered):
            return facts, conclusions
        return [_unmatched(item) for item in facts], [_unmatched(item) for item in conclusions]

    def _accounted(self, facts: list[Item], conclusions: list[Item]) -> tuple[list[Item], list[Item]]:
        """Return the items plus omitted ones; conclusions without enough facts become facts."""
        account = Account(self.reference.index, self.statements.own)
        for sentence in account.left_out(_spans([*facts, *conclusions])):
            text = neutralize(self.reference.text[sentence.start : sentence.end]).strip()
            if self.findings.suspect(
                "reference_not_accounted", f"no item accounts for {quoted(text)} in the reference"
            ):
                facts = [*facts, self._added(sentence, text)]
        if not conclusions or (facts and account.bears(_spans(facts), _spans(conclusions))):
            return facts, conclusions
        # Without facts their neutral ratio would apply, and with a one-word fact their full weight.
        if self.findings.suspect(
            "conclusions_without_facts",
            "conclusions are listed with hardly any fact to draw them from",
        ):
            return [*facts, *conclusions], []
        return facts, conclusions

    def _apart(self, facts: Iterable[Item], conclusions: Iterable[Item]) -> list[Item]:
        """Return the conclusions that are not also listed as facts."""
        items = {_key(fact) for fact in facts}
        spans = {fact.reference for fact in facts} - {None}
        kept = []
        for conclusion in conclusions:
            detail = f"{quoted(conclusion.item)} is also listed as a fact and counts as one"
            if _key(conclusion) in items:
                self.findings.correct("both_fact_and_conclusion", detail)
            elif conclusion.reference not in spans or not self.findings.suspect(
                "both_fact_and_conclusion", detail
            ):
                kept.append(conclusion)
        return kept

    def _with_its_word(self, term: Item) -> Item:
        """Return the term, matched only if the answer's span has one of its words, in any inflection."""
        if not term.matched or term.answer_span is None or not self.findings.looks_for_suspicions:
            return term
        wanted = [word.text for word in content_words(term.item)] or [word.text for word in words(term.item)]
        given = [word.text for word in words(term.answer_span)]
        if any(share_stem(one, other) for one in wanted for other in given):
            return term
        # It may still be the term in another spelling or language, or an abbreviation.
        detail = f"{quoted(term.item)} shares no word with {quoted(term.answer_span)}"
        return replace(term, matched=False) if self.findings.suspect("term_not_in_answer", detail) else term

    def _added(self, sentence: ReferenceSentence, text: str) -> Item:
        """Return a fact for an omitted sentence."""
        if sentence.words:
            # Words of the question need not be repeated, and repeating them is no evidence.
            answer_words = self.statements.answer_words
            missing = [word.text for word in sentence.telling if word.text not in answer_words]
        else:
            missing = [] if self.answer.index.find(text) else [text]
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


def _key(item: Item) -> str:
    """Return the key of an item: its words, or its span if it has none."""
    return normalise(item.item).rstrip(".") or normalise(item.reference_span)


def _alike(one: str, other: str) -> bool:
    return [word.text for word in words(one)] == [word.text for word in words(other)] != []
