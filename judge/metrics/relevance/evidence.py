"""Verify a relevance judge's claims against the answer's citations and the cited pages.

Corrections (always lower the score): quotations that are not in their text, pages that are not cited or
    missing, duplicate claims, omitted claims, claims contradicted by the quoted page. Suspicions: few shared
    words, a claim without content, an answer that is hardly about the question.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import islice

from judge.metric import Verification
from judge.metrics.findings import Findings
from judge.metrics.relevance.claims import claiming_parts
from judge.metrics.relevance.items import (
    CheckedClaim,
    ListedClaim,
    RelevanceEvidence,
    told_pages,
    unsupported_claim,
)
from judge.metrics.relevance.support import Support
from judge.text.citations import (
    USUAL,
    Citing,
    Claim,
    page_key,
    tagged_claims,
    untagged_segments,
    without_tags,
)
from judge.text.contradictions import Passage, contradiction_between
from judge.text.normal import quoted
from judge.text.quotations import Quotable, Quotation
from judge.text.sentences import sentences
from judge.text.words import content_words, has_content, has_words

MAX_PLACES = 100
"""Limit of examined occurrences of one claim in the answer."""


def verify_relevance(
    listed: Sequence[ListedClaim],
    *,
    answer: str,
    pages: Mapping[int, str],
    question: str = "",
    citing: Citing = USUAL,
    verification: Verification = "marks",
) -> RelevanceEvidence:
    """Verify a judge's claims against the answer and its pages.

    Args:
        listed: The judge's claims.
        answer: The judged answer.
        pages: The text of each existing page, by number.
        question: The question; its words are no evidence of support.
        citing: Citation syntax of the answer.
        verification: How suspicions are handled.
    """
    return _Verifier(answer, pages, question, citing, verification).verify(listed)


class _Verifier:
    def __init__(
        self, answer: str, pages: Mapping[int, str], question: str, citing: Citing, verification: Verification
    ) -> None:
        untagged = without_tags(answer, citing)
        self.answer = Quotable(answer, read=untagged)
        self.support = Support(question, answer, untagged)
        self.tagged = tagged_claims(answer, citing)
        self.others = untagged_segments(answer, citing)
        self.ends = [claim.end for claim in self.tagged]
        self.pages = pages
        self.quotables: dict[int, Quotable] = {}
        self.findings = Findings(verification)

    def verify(self, listed: Sequence[ListedClaim]) -> RelevanceEvidence:
        kept: dict[tuple[int, int], CheckedClaim] = {}
        claimed: set[int] = set()
        for number, given in enumerate(listed):
            where = f"claims[{number}]"
            found = self._locate(given, kept, claimed)
            if found is None:
                self.findings.not_found(f"{where}.claim_span", given.claim_span, "the answer")
                self.findings.correct(
                    "span_not_in_answer", f"{where}: {quoted(given.claim_span)} is not in the answer"
                )
                continue
            stated, owner = found
            if owner is not None:
                claimed.add(owner)
            claim = self._checked(where, given, stated, None if owner is None else self.tagged[owner])
            earlier = kept.get(stated.place)
            if earlier is not None:
                self.findings.correct(
                    "duplicate_claim", f"{where}: {quoted(given.claim_span)} is listed already"
                )
            if earlier is None or (earlier.upheld and not claim.upheld):
                # Listed twice with different judgements: counts against the answer.
                kept[stated.place] = claim
        for left_out in self._left_out(kept):
            kept.setdefault(left_out.place, left_out)
        claims = [kept[place] for place in sorted(kept)]
        if self.findings.looks_for_suspicions:
            claims = self._on_topic(claims)
        return RelevanceEvidence(
            tuple(claims), self.findings.corrections, self.findings.suspicions, self.findings.objection
        )

    def _left_out(self, kept: Mapping[tuple[int, int], CheckedClaim]) -> list[CheckedClaim]:
        """Return the answer's claims of which the judge lists less than half of the words.

        A listed claim with another line's pages does not count, because this line's pages were not examined.
        """
        with_pages: dict[frozenset[int], _Stretches] = {}
        found = []
        for claim in self.tagged:
            parts = claiming_parts(claim.text, surely=False)
            pages = frozenset(claim.pages)
            if pages not in with_pages:
                with_pages[pages] = _Stretches(
                    place for place, one in kept.items() if pages <= set(one.pages)
                )
            listed = with_pages[pages]
            if parts and not listed.has_half(claim, parts):
                what = "most of " if listed.touches(claim.start, claim.end) else ""
                self.findings.correct(
                    "claim_not_listed", f"the judge left out {what}{quoted(claim.text)}; it is unsupported"
                )
                reason = "Mostly left out by the judge." if what else "Left out by the judge."
                found.append(unsupported_claim(claim, reason))
        listed = _Stretches(kept)
        for segment in self.others:
            for part in claiming_parts(segment.text, surely=True):
                if listed.has_half(segment, [part]):
                    continue
                start, end = segment.start + part[0], segment.start + part[1]
                sentence = Claim(self.answer.text[start:end], start, end, ())
                self.findings.correct(
                    "claim_not_listed",
                    f"the judge left out {quoted(sentence.text)}, which cites no page; it is unsupported",
                )
                found.append(unsupported_claim(sentence, "Left out by the judge; it cites no page."))
        return found

    def _on_topic(self, claims: list[CheckedClaim]) -> list[CheckedClaim]:
        """Return the claims; none is relevant if neither answer nor pages are about the question."""
        upheld = [claim for claim in claims if claim.upheld and claim.page is not None]
        if not upheld or self.support.is_about(
            (claim.page, self._quotable(claim.page).index, claim.page_place)
            for claim in upheld
            if claim.page is not None and claim.page_place is not None
        ):
            return claims
        if not self.findings.suspect(
            "not_about_question",
            "claims are listed as relevant, but hardly a word of the question is in them",
        ):
            return claims
        return [replace(claim, relevant=False) for claim in claims]

    def _locate(
        self, given: ListedClaim, kept: Mapping[tuple[int, int], CheckedClaim], claimed: set[int]
    ) -> tuple[Quotation, int | None] | None:
        """Return the place of a claim, and the tagged claim that contains it.

        Of several places, prefers an unused one in a tagged claim with the pages that the judge names.
        """
        best: tuple[Quotation, int | None] | None = None
        best_rank = (False, False, False, False)
        for found in islice(self.answer.find_all(given.claim_span), MAX_PLACES):
            owner = self._owner(found.place)
            pages = () if owner is None else self.tagged[owner].pages
            rank = (
                found.place not in kept,
                owner is not None,
                set(pages) == set(given.pages),
                owner is not None and owner not in claimed,
            )
            if best is None or rank > best_rank:
                best, best_rank = (found, owner), rank
            if all(rank):
                break
        return best

    def _owner(self, place: tuple[int, int]) -> int | None:
        """Return the tagged claim that overlaps most with this place."""
        best, most = None, 0
        for owner in range(bisect_right(self.ends, place[0]), len(self.tagged)):
            claim = self.tagged[owner]
            if claim.start >= place[1]:
                break
            shared = min(place[1], claim.end) - max(place[0], claim.start)
            if shared > most:
                best, most = owner, shared
        return best

    def _checked(
        self, where: str, given: ListedClaim, stated: Quotation, tagged: Claim | None
    ) -> CheckedClaim:
        pages = () if tagged is None else tagged.pages
        if set(given.pages) != set(pages):
            said, real = told_pages(given.pages) or "no page", told_pages(pages) or "no page"
            self.findings.correct(
                "pages_corrected", f"{where}: the judge says {said}, the answer cites {real}"
            )
        support = self._support(where, given, tagged, stated) if given.supported else None
        quoted_words = None if support is None else support[1]
        return CheckedClaim(
            claim_span=stated.words,
            place=stated.place,
            pages=pages,
            supported=support is not None,
            relevant=given.relevant,
            justification=given.justification,
            page=None if support is None else support[0],
            page_span=None if quoted_words is None else quoted_words.words,
            page_place=None if quoted_words is None else quoted_words.place,
            inexact=stated.kind != "exact" or (quoted_words is not None and quoted_words.kind != "exact"),
        )

    def _support(
        self, where: str, given: ListedClaim, tagged: Claim | None, stated: Quotation
    ) -> tuple[int, Quotation] | None:
        """Return the cited page that contains the judge's quotation, and its place."""
        cited = () if tagged is None else tagged.pages
        existing = [page for page in cited if page in self.pages]
        span = given.page_span
        if span is not None and has_words(span):
            for page in sorted(existing, key=lambda page: page != given.page):
                found = self._quotable(page).find(span)
                if found is not None:
                    holds = self._holds(where, tagged, stated, page, found)
                    return (page, found) if holds else None
        if not cited:
            self.findings.correct("no_page_cited", f"{where}: supported, but the answer cites no page for it")
        elif not existing:
            self.findings.correct(
                "page_missing", f"{where}: supported, but {told_pages(cited)} is not in the context"
            )
        elif given.page is not None and given.page not in cited:
            self.findings.correct(
                "page_not_cited",
                f"{where}: the judge relies on {page_key(given.page)}, which it does not cite",
            )
        elif given.page is not None and given.page not in self.pages:
            self.findings.correct("page_missing", f"{where}: {page_key(given.page)} is not in the context")
        else:
            self.findings.not_found(f"{where}.page_span", span, told_pages(existing))
            detail = (
                "supported, but no words of a page are given"
                if span is None
                else f"{quoted(span)} is not on {told_pages(existing)}"
            )
            self.findings.correct("span_not_in_page", f"{where}: {detail}")
        return None

    def _holds(
        self, where: str, tagged: Claim | None, stated: Quotation, page: int, found: Quotation
    ) -> bool:
        """Return whether neither a contradiction nor a suspicion refutes a page's support of a claim."""
        sentence = "" if tagged is None else self._sentence(tagged, stated.place)
        told = self.support.told(page, self._quotable(page).index, found.place)
        against = contradiction_between(
            Passage(stated.words, sentence or stated.words), Passage(found.words, told)
        )
        if against is not None:
            self.findings.correct(
                against.kind,
                (
                    f"{where}: the answer says {quoted(against.source)}, {page_key(page)} "
                    f"{quoted(against.stated)}"
                ),
            )
            return False
        if not self.findings.looks_for_suspicions:
            return True
        if not has_content(found.words):
            return not self.findings.suspect(
                "span_says_nothing", f"{where}: {quoted(found.words)} says nothing by itself"
            )
        doubt = self.support.problem(
            stated.words, page, self._quotable(page).index, found.place, part_of=sentence
        )
        return doubt is None or not self.findings.suspect(
            "support_not_borne_out",
            f"{where}: {quoted(found.words)} on {page_key(page)} does not support it: {doubt}",
        )

    @staticmethod
    def _sentence(tagged: Claim, place: tuple[int, int]) -> str:
        """Return the sentences of a tagged claim that overlap a listed span."""
        touched = [
            (start, end)
            for start, end in sentences(tagged.text)
            if start + tagged.start < place[1] and end + tagged.start > place[0]
        ]
        return tagged.text[touched[0][0] : touched[-1][1]] if touched else tagged.text

    def _quotable(self, page: int) -> Quotable:
        if page not in self.quotables:
            self.quotables[page] = Quotable(self.pages[page])
        return self.quotables[page]


class _Stretches:
    """Places of an answer merged into disjoint intervals, to test what they cover.

    Args:
        places: Start and end (exclusive) of each.
    """

    def __init__(self, places: Iterable[tuple[int, int]]) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []
        for start, end in sorted(places):
            if self._ends and start <= self._ends[-1]:
                self._ends[-1] = max(self._ends[-1], end)
            else:
                self._starts.append(start)
                self._ends.append(end)

    def has_half(self, claim: Claim, parts: Iterable[tuple[int, int]]) -> bool:
        """Return whether at least half of the words of a claim's sentences are covered."""
        places = [
            (claim.start + start + word.start, claim.start + start + word.end)
            for start, end in parts
            for word in content_words(claim.text[start:end])
        ]
        if not places:
            return self.touches(claim.start, claim.end)
        return 2 * sum(self._covers(*place) for place in places) >= len(places)

    def touches(self, start: int, end: int) -> bool:
        """Return whether any part between two offsets is covered."""
        return bisect_left(self._starts, end) > bisect_right(self._ends, start)

    def _covers(self, start: int, end: int) -> bool:
        number = bisect_right(self._starts, start) - 1
        return number >= 0 and end <= self._ends[number]
