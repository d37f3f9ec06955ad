"""Verify a coverage judge's items against reference and answer.

What is proven wrong is a correction and lowers the score; what shared words only suggest is a suspicion.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property
from typing import Any

from pydantic import Field

from judge.metrics.base import Findings
from judge.metrics.doubts import LONG_ANSWER, Doubts, Place, cannot_be_compared, has_facts_for, left_out
from judge.metrics.replies import MAX_ITEMS, Listed
from judge.text.citations import read_citations
from judge.text.normal import normalise, quoted
from judge.text.passages import Passage, passage
from judge.text.quotations import Quotable, Quotation
from judge.text.words import content_words, has_words, sentences

_NOTHING_LISTED = (
    "facts and conclusions are empty, but the reference says something; list what it states, matched or not"
)
_NUMBER = re.compile(r"\d[\d.,]*(?:s|st|nd|rd|th)?")


class ListedItem(Listed):
    item: str
    reference_span: str
    answer_span: str | None = None
    justification: str = ""
    matched: bool


class ListedOrganization(Listed):
    justification: str = ""
    similar: bool


class CoverageReply(Listed):
    facts: list[ListedItem] = Field(max_length=MAX_ITEMS)
    conclusions: list[ListedItem] = Field(max_length=MAX_ITEMS)
    terms: list[ListedItem] = Field(max_length=MAX_ITEMS)
    organization: ListedOrganization


Verified = dict[str, Any]
"""An item as the evidence has it. Offsets refer to the event's texts; spans are the texts' own words.
`inexact`: a quotation was inexact."""


def _key(item: Verified) -> str:
    return normalise(item["item"]).rstrip(".") or normalise(item["reference_span"])


def _place(item: Verified) -> Place | None:
    return (item["reference_start"], item["reference_end"]) if "reference_start" in item else None


class CoverageChecks:
    """Verifies the items of one verdict; words of the question are no evidence in the answer."""

    def __init__(self, *, reference: str, answer: str, question: str) -> None:
        self.findings = Findings()
        self.nothing_listed: str | None = None
        self._reference = Quotable(reference)
        self._untagged = read_citations(answer).text
        self._answer = Quotable(answer, read=self._untagged)
        self._question = question
        self._doubts = Doubts(question)
        self._own = self._doubts.own(passage(reference))
        self._sentences = sentences(reference)

    def verify(
        self, facts: Sequence[ListedItem], conclusions: Sequence[ListedItem], terms: Sequence[ListedItem]
    ) -> tuple[list[Verified], list[Verified], list[Verified]]:
        if not facts and not conclusions:
            self.nothing_listed = _NOTHING_LISTED
        checked_facts = self._items("facts", facts)
        checked_conclusions = self._not_facts(checked_facts, self._items("conclusions", conclusions))
        checked_terms = self._items("terms", terms)
        self._suspect_terms(checked_terms)
        self._suspect_repetition([*checked_facts, *checked_conclusions])
        self._suspect_omissions(checked_facts, checked_conclusions)
        return checked_facts, checked_conclusions, checked_terms

    def _items(self, name: str, listed: Sequence[ListedItem]) -> list[Verified]:
        kept: dict[str, Verified] = {}
        for number, given in enumerate(listed):
            where = f"{name}[{number}]"
            if name == "terms" and not self._is_term(where, given.item):
                continue
            item = self._checked(where, given)
            if item is None:
                continue
            earlier = kept.setdefault(_key(item), item)
            if earlier is not item:
                self.findings.correct("duplicate_item", f"{where}: {quoted(given.item)} is listed already")
                # An item listed as matched and as unmatched counts as unmatched.
                earlier["matched"] = earlier["matched"] and item["matched"]
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

    def _checked(self, where: str, given: ListedItem) -> Verified | None:
        """Return the item with its places; None if it is invented and unmatched."""
        stated = self._reference.find(given.reference_span)
        item: Verified = {
            "item": given.item,
            "reference_span": given.reference_span,
            "matched": False,
            "justification": given.justification,
            "answer_span": None,
        }
        if stated is None:
            self.findings.not_found(f"{where}.reference_span", given.reference_span, "the reference")
            problem = f"{where}: {quoted(given.reference_span)} is not in the reference"
            self.findings.correct("span_not_in_reference", problem)
            # An invented unmatched item is dropped; an invented match counts as unmatched.
            return item if given.matched else None
        item |= {"reference_span": stated.words, "reference_start": stated.start, "reference_end": stated.end}
        found = self._matching(where, given, stated) if given.matched else None
        if found is not None:
            item |= {"matched": True, "answer_span": found.words}
            item |= {"answer_start": found.start, "answer_end": found.end}
        exact = stated.kind == "exact" and (found is None or found.kind == "exact")
        return item if exact else item | {"inexact": True}

    def _matching(self, where: str, given: ListedItem, stated: Quotation) -> Quotation | None:
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
        told = self._answer.around(found.place)
        words = passage(found.words)
        if not is_term and self.findings.contradict(
            where,
            (passage(stated.words), self._reference.around(stated.place)),
            (words, told),
            names=("the reference", "the answer"),
        ):
            return None
        said = quoted(found.words)
        # A reference of only stop words ("The Who") is matched by its own words.
        if not (words.content or words.listed == passage(stated.words).listed != []):
            self.findings.suspect("span_says_nothing", f"{where}: matched, but {said} says nothing by itself")
        elif not is_term:
            doubt = self._doubt(stated.place, told)
            if doubt is not None:
                detail = f"{where}: {said} does not state {quoted(given.item)}: {doubt}"
                self.findings.suspect("match_not_borne_out", detail)
        return found

    def _doubt(self, stated: Place, told: Passage) -> str | None:
        """Return why an answer's sentences do not state all sentences of a span, by words of its own."""
        if not self._comparable:
            return None
        text = self._reference.text
        if self._doubts.refuses(told) and not self._doubts.refuses(self._reference.around(stated)):
            return "it refuses an answer or announces one"
        parts = [
            (passage(text[max(start, stated[0]) : min(end, stated[1])]), passage(text[start:end]))
            for start, end in self._sentences
            if start < stated[1] and end > stated[0]
        ]
        whole = (passage(text[slice(*stated)]),) * 2
        parts = [part for part in parts if self._doubts.own(part[0])] or [whole]
        doubts = (self._doubt_of_sentence(*part, told) for part in parts)
        return next(filter(None, doubts), None)

    def _doubt_of_sentence(self, stated: Passage, sentence: Passage, told: Passage) -> str | None:
        doubt = self._doubts.doubt(stated, sentence, told)
        own = self._doubts.own(sentence)
        shared = len(own & told.stems) if doubt is None and self._is_off_topic else len(own)
        if 2 * shared >= len(own):
            return doubt
        return (
            f"the answer has hardly a word of the question, and shares {shared} of {len(own)} words with the "
            "sentence (at least half needed)"
        )

    @cached_property
    def _comparable(self) -> bool:
        return not cannot_be_compared(self._reference.text, self._untagged, question=self._question)

    @cached_property
    def _is_off_topic(self) -> bool:
        answer = passage(self._untagged)
        return (
            len(answer.content) >= LONG_ANSWER
            and not self._doubts.is_about(answer)
            and self._doubts.is_about(passage(self._reference.text))
        )

    def _not_facts(self, facts: Sequence[Verified], conclusions: Sequence[Verified]) -> list[Verified]:
        keys = set(map(_key, facts))
        places = set(map(_place, facts)) - {None}
        kept = []
        for conclusion in conclusions:
            detail = f"{quoted(conclusion['item'])} is also listed as a fact and counts as one"
            if _key(conclusion) in keys:
                self.findings.correct("both_fact_and_conclusion", detail)
                continue
            if _place(conclusion) in places:
                self.findings.suspect("both_fact_and_conclusion", detail)
            kept.append(conclusion)
        return kept

    def _suspect_terms(self, terms: Sequence[Verified]) -> None:
        """Mark matched terms whose span shares no word with them: another spelling, or no match."""
        for term in terms:
            if not term["matched"]:
                continue
            wanted, given = passage(term["item"]), passage(term["answer_span"])
            if (wanted.content or wanted.stems).isdisjoint(given.stems):
                detail = f"{quoted(term['item'])} shares no word with {quoted(term['answer_span'])}"
                self.findings.suspect("term_not_in_answer", detail)

    def _suspect_repetition(self, items: Sequence[Verified]) -> None:
        matched = [item for item in items if item["matched"]]
        repeats = not any(self._doubts.own(passage(item["reference_span"])) for item in matched)
        for item in matched if self._own and repeats and self._comparable else ():
            why = "only repeats the question, and nothing else of the reference is matched"
            self.findings.suspect("match_not_borne_out", f"{quoted(item['item'])} {why}")

    def _suspect_omissions(self, facts: Sequence[Verified], conclusions: Sequence[Verified]) -> None:
        reference = self._reference.index
        spans_of_facts = [item["reference_span"] for item in facts]
        spans_of_conclusions = [item["reference_span"] for item in conclusions]
        missed = left_out(reference, self._own, [*spans_of_facts, *spans_of_conclusions])
        for text in dict.fromkeys(quoted(reference.text[start:end].strip()) for start, end in missed):
            self.findings.suspect("reference_not_accounted", f"no item accounts for {text} in the reference")
        if conclusions and not (
            facts and has_facts_for(reference, self._own, spans_of_facts, spans_of_conclusions)
        ):
            # Without facts their neutral ratio would apply, and with a one-word fact their full weight.
            doubt = "conclusions are listed with hardly any fact to draw them from"
            self.findings.suspect("conclusions_without_facts", doubt)
