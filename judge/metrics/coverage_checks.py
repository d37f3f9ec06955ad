"""Verify a coverage judge's items against reference and answer.

Corrections lower the score: quotations that are not in their text, duplicate items, terms that are numbers,
matches whose two quotations contradict each other. Suspicions only mark the result: matches that share no
words with the answer, items that do not account for the reference, conclusions with hardly any fact.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from judge.metrics.base import Findings
from judge.metrics.replies import MAX_ITEMS
from judge.metrics.words import AnswerWords, has_facts_for, left_out
from judge.text.citations import without_tags
from judge.text.contradictions import TextPart, contradiction_between
from judge.text.normal import neutralize, normalise, quoted
from judge.text.quotations import Quotable, Quotation
from judge.text.support import share_stem
from judge.text.words import content_words, has_content, has_words, words

_NOTHING_LISTED = (
    "facts and conclusions are empty, but the reference says something; list what it states, matched or not"
)
_NUMBER = re.compile(r"\d[\d.,]*(?:s|st|nd|rd|th)?")


class ListedItem(BaseModel):
    """A fact, conclusion or term as listed by the judge."""

    model_config = ConfigDict(strict=True, frozen=True)

    item: str
    reference_span: str
    answer_span: str | None = None
    justification: str = ""
    matched: bool


class ListedOrganization(BaseModel):
    """The judge's rating of the answer's structure."""

    model_config = ConfigDict(strict=True, frozen=True)

    justification: str = ""
    similar: bool


class CoverageReply(BaseModel):
    """The judge's reply in evidence mode. Other keys are ignored."""

    model_config = ConfigDict(strict=True, frozen=True)

    facts: list[ListedItem] = Field(max_length=MAX_ITEMS)
    conclusions: list[ListedItem] = Field(max_length=MAX_ITEMS)
    terms: list[ListedItem] = Field(max_length=MAX_ITEMS)
    organization: ListedOrganization


@dataclass(frozen=True, slots=True)
class Item:
    """A verified item. Offsets refer to the event's texts; spans are the texts' own words."""

    item: str
    reference_span: str
    reference: tuple[int, int] | None
    matched: bool
    justification: str
    answer_span: str | None = None
    answer: tuple[int, int] | None = None
    inexact: bool = False
    """Whether a quotation was inexact."""

    def as_json(self) -> dict[str, Any]:
        fields: dict[str, Any] = {
            "item": self.item,
            "reference_span": self.reference_span,
            "matched": self.matched,
            "justification": self.justification,
            "answer_span": self.answer_span,
        }
        if self.reference is not None:
            fields |= {"reference_start": self.reference[0], "reference_end": self.reference[1]}
        if self.answer is not None:
            fields |= {"answer_start": self.answer[0], "answer_end": self.answer[1]}
        return fields | {"inexact": True} if self.inexact else fields

    @property
    def key(self) -> str:
        """The item's words, or its span if it has none."""
        return normalise(self.item).rstrip(".") or normalise(self.reference_span)


class CoverageChecks:
    """Verifies the items of one verdict.

    Args:
        reference: The reference, not blank.
        answer: The judged answer, not blank.
        question: The question; its words are no evidence in the answer.
    """

    def __init__(self, *, reference: str, answer: str, question: str) -> None:
        self.findings = Findings()
        self.nothing_listed: str | None = None
        self._reference = Quotable(reference)
        self._answer = Quotable(answer, read=without_tags(answer))
        self._words = AnswerWords(self._reference.index, self._answer.index, question)

    def verify(
        self, facts: Sequence[ListedItem], conclusions: Sequence[ListedItem], terms: Sequence[ListedItem]
    ) -> tuple[list[Item], list[Item], list[Item]]:
        """Return the distinct facts, conclusions and terms, matched if the answer has them."""
        if not facts and not conclusions:
            self.nothing_listed = _NOTHING_LISTED
        checked_facts = self._items("facts", facts)
        checked_conclusions = self._not_facts(checked_facts, self._items("conclusions", conclusions))
        checked_terms = self._items("terms", terms)
        self._suspect_terms(checked_terms)
        self._suspect_repetition([*checked_facts, *checked_conclusions])
        self._suspect_omissions(checked_facts, checked_conclusions)
        return checked_facts, checked_conclusions, checked_terms

    def _items(self, name: str, listed: Sequence[ListedItem]) -> list[Item]:
        kept: dict[str, Item] = {}
        for number, given in enumerate(listed):
            where = f"{name}[{number}]"
            if name == "terms" and not self._is_term(where, given.item):
                continue
            item = self._checked(where, given)
            if item is None:
                continue
            earlier = kept.get(item.key)
            if earlier is None:
                kept[item.key] = item
                continue
            self.findings.correct("duplicate_item", f"{where}: {quoted(given.item)} is listed already")
            if earlier.matched and not item.matched:
                # An item listed as matched and as unmatched counts as unmatched.
                kept[item.key] = replace(earlier, matched=False)
        return list(kept.values())

    def _is_term(self, where: str, term: str) -> bool:
        said = content_words(term)
        detail = f"{where}: {quoted(term)} is a number, a stop word or blank"
        if not has_words(term) or (said and all(_NUMBER.fullmatch(word.text) for word in said)):
            self.findings.correct("not_a_term", detail)
            return False
        if not said:
            # "The Who" and "IT" only look like stop words.
            self.findings.suspect("not_a_term", detail)
        return True

    def _checked(self, where: str, given: ListedItem) -> Item | None:
        """Return the item with its places; None if it is invented and unmatched."""
        stated = self._reference.find(given.reference_span)
        item = Item(given.item, given.reference_span, None, given.matched, given.justification)
        if stated is None:
            self.findings.not_found(f"{where}.reference_span", given.reference_span, "the reference")
            problem = f"{where}: {quoted(given.reference_span)} is not in the reference"
            self.findings.correct("span_not_in_reference", problem)
            # An invented unmatched item is dropped; an invented match counts as unmatched.
            return replace(item, matched=False) if given.matched else None
        inexact = stated.kind != "exact"
        item = replace(item, reference_span=stated.words, reference=stated.place, inexact=inexact)
        if not given.matched:
            return item
        matching = self._matching(where, given, stated)
        if matching is None:
            return replace(item, matched=False)
        inexact = inexact or matching.kind != "exact"
        return replace(item, answer_span=matching.words, answer=matching.place, inexact=inexact)

    def _matching(self, where: str, given: ListedItem, stated: Quotation) -> Quotation | None:
        """Return the place in the answer that matches an item; None if it is not there or contradicts it."""
        span = given.answer_span
        found = self._answer.find(span) if span is not None and has_words(span) else None
        if span is None or found is None:
            problem = "no span of the answer is given"
            if span is not None:
                problem = f"{quoted(span)} is not in the answer"
            self.findings.not_found(f"{where}.answer_span", span, "the answer")
            self.findings.correct("span_not_in_answer", f"{where}: matched, but {problem}")
            return None
        is_term = where.startswith("terms")
        if not is_term:
            against = contradiction_between(
                TextPart(stated.words, self._words.reference_sentences(stated.place)),
                TextPart(found.words, self._words.answer_sentences(found.place)),
            )
            if against is not None:
                sides = f"the answer says {quoted(against.stated)}, the reference {quoted(against.source)}"
                self.findings.correct(against.kind, f"{where}: {sides}")
                return None
        said = quoted(found.words)
        # A reference of only stop words ("The Who") is matched by its own words.
        if not (has_content(found.words) or _same_words(found.words, stated.words)):
            self.findings.suspect("span_says_nothing", f"{where}: matched, but {said} says nothing by itself")
        elif not is_term:
            doubt = self._words.doubt(given.item, stated.place, found.place)
            if doubt is not None:
                detail = f"{where}: {said} does not state {quoted(given.item)}: {doubt}"
                self.findings.suspect("match_not_borne_out", detail)
        return found

    def _not_facts(self, facts: Sequence[Item], conclusions: Sequence[Item]) -> list[Item]:
        """Return the conclusions that are not also listed as facts."""
        keys = {fact.key for fact in facts}
        places = {fact.reference for fact in facts} - {None}
        kept = []
        for conclusion in conclusions:
            detail = f"{quoted(conclusion.item)} is also listed as a fact and counts as one"
            if conclusion.key in keys:
                self.findings.correct("both_fact_and_conclusion", detail)
                continue
            if conclusion.reference in places:
                self.findings.suspect("both_fact_and_conclusion", detail)
            kept.append(conclusion)
        return kept

    def _suspect_terms(self, terms: Sequence[Item]) -> None:
        """Mark matched terms whose span shares no word with them: another spelling, or no match."""
        for term in terms:
            if not term.matched or term.answer_span is None:
                continue
            wanted, given = content_words(term.item) or words(term.item), words(term.answer_span)
            if not any(share_stem(one.text, other.text) for one in wanted for other in given):
                detail = f"{quoted(term.item)} shares no word with {quoted(term.answer_span)}"
                self.findings.suspect("term_not_in_answer", detail)

    def _suspect_repetition(self, items: Sequence[Item]) -> None:
        """Mark matched items if all of them only repeat the question, while the reference says more."""
        matched = [item for item in items if item.matched and item.reference is not None]
        if all(item.reference and self._words.repeats_question(item.reference) for item in matched):
            why = "only repeats the question, and nothing else of the reference is matched"
            for item in matched:
                self.findings.suspect("match_not_borne_out", f"{quoted(item.item)} {why}")

    def _suspect_omissions(self, facts: Sequence[Item], conclusions: Sequence[Item]) -> None:
        """Mark sentences of the reference without an item, and conclusions without facts."""
        reference, own = self._reference.index, self._words.own
        spans_of_facts = [item.reference_span for item in facts]
        spans_of_conclusions = [item.reference_span for item in conclusions]
        for start, end in left_out(reference, own, [*spans_of_facts, *spans_of_conclusions]):
            text = quoted(neutralize(reference.text[start:end]).strip())
            self.findings.suspect("reference_not_accounted", f"no item accounts for {text} in the reference")
        if conclusions and not (
            facts and has_facts_for(reference, own, spans_of_facts, spans_of_conclusions)
        ):
            # Without facts their neutral ratio would apply, and with a one-word fact their full weight.
            doubt = "conclusions are listed with hardly any fact to draw them from"
            self.findings.suspect("conclusions_without_facts", doubt)


def _same_words(one: str, other: str) -> bool:
    return [word.text for word in words(one)] == [word.text for word in words(other)] != []
