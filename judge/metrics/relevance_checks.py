"""Verify a relevance judge's claims against the answer's citations and the cited pages.

What is proven wrong is a correction and lowers the score; what shared words only suggest is a suspicion.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Annotated, Any

from pydantic import Field

from judge.metrics.base import Findings
from judge.metrics.doubts import Doubts, Place, Stretches, cannot_be_compared, claiming_parts, uncited_numbers
from judge.metrics.replies import MAX_ITEMS, Listed
from judge.text.citations import Cited, Claim, page_key
from judge.text.normal import neutralize, quoted
from judge.text.passages import Passage, passage
from judge.text.quotations import Quotable, Quotation
from judge.text.tags import MAX_PAGE
from judge.text.words import has_words, sentences
from schemas import CorrectionKind

MAX_PLACES = 100
MAX_NAMED_PAGES = 20

PageNumber = Annotated[int, Field(ge=0, le=MAX_PAGE)]


class ListedClaim(Listed):
    claim_span: str
    pages: list[PageNumber] = Field(default_factory=list)
    page: PageNumber | None = None
    page_span: str | None = None
    justification: str = ""
    supported: bool
    relevant: bool


class RelevanceReply(Listed):
    claims: list[ListedClaim] = Field(max_length=MAX_ITEMS)
    justification: str
    score: int


Verified = dict[str, Any]
"""A claim as the evidence has it. Offsets refer to the event's texts; spans are the texts' own words.

`added`: code added it, because the judge omitted it; `inexact`: a quotation was inexact."""


Support = tuple[int, Quotation]
"""A page, and the words there that support a claim."""


def is_upheld(claim: Verified) -> bool:
    return bool(claim["supported"] and claim["relevant"])


def unsupported_claim(claim: Claim, justification: str) -> Verified:
    return _verified(neutralize(claim.text), (claim.start, claim.end), claim.pages, justification) | {
        "added": True
    }


def _verified(
    span: str,
    place: Place,
    pages: Sequence[int],
    justification: str,
    relevant: bool = False,
    found: Support | None = None,
) -> Verified:
    page, support = found or (None, None)
    places = {} if support is None else {"page_start": support.start, "page_end": support.end}
    return {
        "claim_span": span,
        "claim_start": place[0],
        "claim_end": place[1],
        "pages": list(pages),
        "supported": support is not None,
        "relevant": relevant,
        "page": page,
        "page_span": None if support is None else support.words,
        "justification": justification,
        **places,
    }


def format_pages(pages: Sequence[int]) -> str:
    """Return pages for a message: "Page-7, Page-9 and 3 more"."""
    named = ", ".join(page_key(page) for page in pages[:MAX_NAMED_PAGES])
    return f"{named} and {len(pages) - MAX_NAMED_PAGES} more" if len(pages) > MAX_NAMED_PAGES else named


class RelevanceChecks:
    def __init__(self, cited: Cited, *, question: str) -> None:
        self.findings = Findings()
        self._read = cited.read
        self._answer = Quotable(cited.answer, read=cited.read.text)
        self._question = question
        self._doubts = Doubts(question)
        self._tagged = cited.read.claims
        self._cited = [frozenset(claim.pages) for claim in self._tagged]
        self._ends = [claim.end for claim in self._tagged]
        self._pages = cited.pages
        self._quotables: dict[int, Quotable] = {}
        self._places: dict[str, list[tuple[Quotation, int | None]]] = {}

    def verify(self, listed: Sequence[ListedClaim]) -> list[Verified]:
        kept: dict[Place, Verified] = {}
        used: set[int] = set()
        for number, given in enumerate(listed):
            where = f"claims[{number}]"
            located = self._locate(given, kept, used)
            span = quoted(given.claim_span)
            if located is None:
                self.findings.not_found(f"{where}.claim_span", given.claim_span, "the answer")
                self.findings.correct("span_not_in_answer", f"{where}: {span} is not in the answer")
                continue
            stated, owner = located
            if owner is not None:
                used.add(owner)
            claim = self._checked(where, given, stated, None if owner is None else self._tagged[owner])
            earlier = kept.get(stated.place)
            if earlier is not None:
                self.findings.correct("duplicate_claim", f"{where}: {span} is listed already")
            if earlier is None or (is_upheld(earlier) and not is_upheld(claim)):
                # Listed twice with different judgements: counts against the answer.
                kept[stated.place] = claim
        for omitted in self._omitted(kept):
            kept.setdefault((omitted["claim_start"], omitted["claim_end"]), omitted)
        claims = [kept[place] for place in sorted(kept)]
        self._suspect_topic(claims)
        return claims

    def _omitted(self, kept: Mapping[Place, Verified]) -> list[Verified]:
        """Return the claims of which the judge lists less than half of the words, with the same pages."""
        by_pages: dict[tuple[int, ...], Stretches] = {}
        omitted = []
        for claim in (*self._tagged, *uncited_numbers(self._read.untagged)):
            if claim.pages not in by_pages:
                pages = set(claim.pages)
                by_pages[claim.pages] = Stretches(
                    place for place, one in kept.items() if pages.issubset(one["pages"])
                )
            listed = by_pages[claim.pages]
            if listed.covers(claim.start, claim.end):
                continue
            parts = claiming_parts(claim.text) if claim.pages else [(0, len(claim.text))]
            if parts and not listed.has_half(claim, parts):
                most, how, uncited, why = "", "Left", "", ""
                if not claim.pages:
                    uncited, why = ", which cites no page", "; it cites no page"
                elif listed.touches(claim.start, claim.end):
                    most, how = "most of ", "Mostly left"
                omission = f"the judge left out {most}{quoted(claim.text)}{uncited}; it is unsupported"
                self.findings.correct("claim_not_listed", omission)
                omitted.append(unsupported_claim(claim, f"{how} out by the judge{why}."))
        return omitted

    def _suspect_topic(self, claims: Sequence[Verified]) -> None:
        told: list[Passage] = [
            self._quotable(claim["page"]).around((claim["page_start"], claim["page_end"]), neighbours=1)
            for claim in claims
            if is_upheld(claim)
        ]
        answer = passage(self._read.text)
        if told and not self._doubts.is_about(answer, *told):
            doubt = "claims are listed as relevant, but hardly a word of the question is in them"
            self.findings.suspect("not_about_question", doubt)

    def _locate(
        self, given: ListedClaim, kept: Mapping[Place, Verified], used: set[int]
    ) -> tuple[Quotation, int | None] | None:
        """Return the best place of a claim, unused and with the pages that the judge names, and its owner."""
        span, wanted = given.claim_span, set(given.pages)
        if span not in self._places:
            found = islice(self._answer.find_all(span), MAX_PLACES)
            self._places[span] = [(one, self._owner(one.place)) for one in found]

        def rank(located: tuple[Quotation, int | None]) -> tuple[bool, ...]:
            one, owner = located
            if owner is None:
                return one.place not in kept, False, not wanted
            return one.place not in kept, True, wanted == self._cited[owner], owner not in used

        return max(self._places[span], key=rank, default=None)

    def _owner(self, place: Place) -> int | None:
        best, most = None, 0
        for owner in range(bisect_right(self._ends, place[0]), len(self._tagged)):
            claim = self._tagged[owner]
            if claim.start >= place[1]:
                break
            shared = min(place[1], claim.end) - max(place[0], claim.start)
            if shared > most:
                best, most = owner, shared
        return best

    def _checked(self, where: str, given: ListedClaim, stated: Quotation, tagged: Claim | None) -> Verified:
        pages = () if tagged is None else tagged.pages
        if set(given.pages) != set(pages):
            said, cited = format_pages(given.pages) or "no page", format_pages(pages) or "no page"
            detail = f"{where}: the judge says {said}, the answer cites {cited}"
            self.findings.correct("pages_corrected", detail)
        support = self._support(where, given, tagged, stated) if given.supported else None
        judged = given.justification, given.relevant, support
        claim = _verified(stated.words, stated.place, pages, *judged)
        exact = stated.kind == "exact" and (support is None or support[1].kind == "exact")
        return claim if exact else claim | {"inexact": True}

    def _support(
        self, where: str, given: ListedClaim, tagged: Claim | None, stated: Quotation
    ) -> Support | None:
        """Return the cited page that contains the judge's quotation and does not contradict the claim."""
        cited = () if tagged is None else tagged.pages
        existing = [page for page in cited if page in self._pages]
        span = given.page_span
        if tagged is not None and span is not None and has_words(span):
            for page in sorted(existing, key=lambda page: page != given.page):
                found = self._quotable(page).find(span)
                if found is not None:
                    return (page, found) if self._holds(where, tagged, stated, page, found) else None
        kind: CorrectionKind = "page_missing"
        if not cited:
            kind, problem = "no_page_cited", "supported, but the answer cites no page for it"
        elif not existing:
            problem = f"supported, but {format_pages(cited)} is not in the context"
        elif given.page is not None and given.page not in cited:
            kind = "page_not_cited"
            problem = f"the judge relies on {page_key(given.page)}, which it does not cite"
        elif given.page is not None and given.page not in self._pages:
            problem = f"{page_key(given.page)} is not in the context"
        else:
            self.findings.not_found(f"{where}.page_span", span, format_pages(existing))
            kind, problem = "span_not_in_page", "supported, but no words of a page are given"
            if span is not None:
                problem = f"{quoted(span)} is not on {format_pages(existing)}"
        self.findings.correct(kind, f"{where}: {problem}")
        return None

    def _holds(self, where: str, tagged: Claim, stated: Quotation, page: int, found: Quotation) -> bool:
        """Return whether no contradiction refutes a page's support of a claim; mark weak support."""
        said, there = passage(stated.words), self._quotable(page)
        sentence = passage(_overlapping_sentences(tagged, stated.place))
        words = passage(found.words)
        names = "the answer", page_key(page)
        if self.findings.contradict(where, (said, sentence), (words, there.around(found.place)), names=names):
            return False
        if not words.content:
            detail = f"{where}: {quoted(found.words)} says nothing by itself"
            self.findings.suspect("span_says_nothing", detail)
            return True
        doubt = self._doubt(said, sentence, page, there.around(found.place, neighbours=1))
        if doubt is not None:
            detail = f"{where}: {quoted(found.words)} on {page_key(page)} does not support it: {doubt}"
            self.findings.suspect("support_not_borne_out", detail)
        return True

    def _doubt(self, claim: Passage, sentence: Passage, page: int, support: Passage) -> str | None:
        """Return why a page does not support a claim, or the sentence that it is a small part of."""
        for text in dict.fromkeys((claim, sentence)):
            empty = self._doubts.is_empty(text)
            if empty is not None:
                return empty
        is_part = 2 * len(claim.content) < len(sentence.content)
        stated = sentence if is_part or not self._doubts.own(claim) else claim
        doubt = self._doubts.doubt(stated, sentence, support)
        if doubt is None or cannot_be_compared(self._pages[page], self._answer.text, question=self._question):
            return None
        return doubt

    def _quotable(self, page: int) -> Quotable:
        if page not in self._quotables:
            self._quotables[page] = Quotable(self._pages[page])
        return self._quotables[page]


def _overlapping_sentences(tagged: Claim, place: Place) -> str:
    if place[0] <= tagged.start and tagged.end <= place[1]:
        return tagged.text
    touched = [
        (start, end)
        for start, end in sentences(tagged.text)
        if start + tagged.start < place[1] and end + tagged.start > place[0]
    ]
    return tagged.text[touched[0][0] : touched[-1][1]] if touched else tagged.text
