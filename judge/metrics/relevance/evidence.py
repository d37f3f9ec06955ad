"""What a judge listed for relevance, held against the answer's own tags and the pages they name."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from judge.metrics.relevance.support import Support
from judge.text.index import TextIndex, neutralize
from judge.text.quoting import quoted
from judge.text.sentences import sentences
from judge.text.tags import MAX_PAGE, Claim, page_key, tagged_claims
from judge.text.words import content_words
from schemas import Correction

MAX_TOLD_PAGES = 20
"""Pages that one message names."""
MAX_PLACES = 100
"""Places of one claim in the answer that are looked at."""

PageNumber = Annotated[int, Field(ge=0, le=MAX_PAGE)]


class ListedClaim(BaseModel):
    """A claim as the judge gives it."""

    model_config = ConfigDict(strict=True, frozen=True)

    claim_span: str
    pages: list[PageNumber] = Field(default_factory=list)
    page: PageNumber | None = None
    page_span: str | None = None
    justification: str = ""
    supported: bool
    relevant: bool


class RelevanceReply(BaseModel):
    """The judge's reply in evidence mode. Keys beyond these are ignored; the score's range is checked later."""

    model_config = ConfigDict(strict=True, frozen=True)

    claims: list[ListedClaim]
    justification: str
    score: int


@dataclass(frozen=True, slots=True)
class CheckedClaim:
    """A verified claim."""

    claim_span: str
    place: tuple[int, int]
    pages: tuple[int, ...]
    supported: bool
    relevant: bool
    justification: str
    page: int | None = None
    page_span: str | None = None
    page_place: tuple[int, int] | None = None
    added: bool = False
    """Whether code added it, because the judge left it out."""

    @property
    def upheld(self) -> bool:
        """Whether it counts in the answer's favour."""
        return self.supported and self.relevant

    def as_json(self) -> dict[str, Any]:
        """For the result's evidence; offsets are those of the event's own texts."""
        found: dict[str, Any] = {
            "claim_span": self.claim_span,
            "claim_start": self.place[0],
            "claim_end": self.place[1],
            "pages": list(self.pages),
            "supported": self.supported,
            "relevant": self.relevant,
            "page": self.page,
            "page_span": self.page_span,
            "justification": self.justification,
        }
        if self.page_place is not None:
            found |= {"page_start": self.page_place[0], "page_end": self.page_place[1]}
        return found | {"added": True} if self.added else found


def unsupported_claim(claim: Claim, justification: str) -> CheckedClaim:
    """A claim of the answer that counts as unsupported, and why."""
    return CheckedClaim(
        claim_span=neutralize(claim.text),
        place=(claim.start, claim.end),
        pages=claim.pages,
        supported=False,
        relevant=False,
        justification=justification,
        added=True,
    )


def told_pages(pages: Sequence[int]) -> str:
    """Pages as a message names them: "Page-7, Page-9 and 3 more"."""
    told = ", ".join(page_key(page) for page in pages[:MAX_TOLD_PAGES])
    return f"{told} and {len(pages) - MAX_TOLD_PAGES} more" if len(pages) > MAX_TOLD_PAGES else told


def verify_relevance(
    listed: Sequence[ListedClaim], *, answer: str, pages: Mapping[int, str], question: str = ""
) -> tuple[tuple[CheckedClaim, ...], tuple[Correction, ...]]:
    """Hold a judge's claims against the answer and its pages.

    Args:
        listed: What the judge listed.
        answer: The answer under judgement.
        pages: The text of each page that exists, by number.
        question: The question; what it says already supports nothing.

    Returns:
        The claims that hold, in the answer's order, and what was corrected.
    """
    return _Verifier(answer, pages, question).verify(listed)


class _Verifier:
    def __init__(self, answer: str, pages: Mapping[int, str], question: str) -> None:
        self.answer = TextIndex(answer)
        self.support = Support(question, answer)
        self.tagged = tagged_claims(answer)
        self.ends = [claim.end for claim in self.tagged]
        self.pages = pages
        self.indexes: dict[int, TextIndex] = {}
        self.corrections: list[Correction] = []

    def verify(
        self, listed: Sequence[ListedClaim]
    ) -> tuple[tuple[CheckedClaim, ...], tuple[Correction, ...]]:
        kept: dict[tuple[int, int], CheckedClaim] = {}
        claimed: set[int] = set()
        for number, given in enumerate(listed):
            where = f"claims[{number}]"
            found = self._locate(given, kept, claimed)
            if found is None:
                self._correct(
                    "span_not_in_answer", f"{where}: {quoted(given.claim_span)} is not in the answer"
                )
                continue
            place, owner = found
            if owner is not None:
                claimed.add(owner)
            claim = self._checked(where, given, place, None if owner is None else self.tagged[owner])
            earlier = kept.get(place)
            if earlier is not None:
                self._correct("duplicate_claim", f"{where}: {quoted(given.claim_span)} is listed already")
            if earlier is None or (earlier.upheld and not claim.upheld):
                # Judged twice and not alike: what is ambiguous does not count in the answer's favour.
                kept[place] = claim
        for owner, tagged in enumerate(self.tagged):
            if owner not in claimed:
                self._correct(
                    "claim_not_listed", f"the judge left out {quoted(tagged.text)}; it is unsupported"
                )
                kept[tagged.start, tagged.end] = unsupported_claim(tagged, "Left out by the judge.")
            elif not self._is_accounted(tagged, kept):
                self._correct(
                    "claim_not_listed", f"the judge left out most of {quoted(tagged.text)}; it is unsupported"
                )
                kept[tagged.start, tagged.end] = unsupported_claim(tagged, "Mostly left out by the judge.")
        claims = self._on_topic([kept[place] for place in sorted(kept)])
        return tuple(claims), tuple(self.corrections)

    @staticmethod
    def _is_accounted(tagged: Claim, kept: Iterable[tuple[int, int]]) -> bool:
        """Whether the listed spans have at least half of a claim's words: one word of it is not the claim."""
        inside = [place for place in kept if place[0] < tagged.end and place[1] > tagged.start]
        all_words = [
            (word.start + tagged.start, word.end + tagged.start) for word in content_words(tagged.text)
        ]
        listed = sum(any(place[0] <= one[0] and one[1] <= place[1] for place in inside) for one in all_words)
        return 2 * listed >= len(all_words)

    def _on_topic(self, claims: list[CheckedClaim]) -> list[CheckedClaim]:
        """The claims, none of them relevant where neither answer nor pages speak of what was asked."""
        upheld = [claim for claim in claims if claim.upheld and claim.page is not None]
        if not upheld or self.support.is_about(
            (claim.page, self._index(claim.page), claim.page_place)
            for claim in upheld
            if claim.page is not None and claim.page_place is not None
        ):
            return claims
        self._correct(
            "not_about_question",
            "claims are listed as relevant, but hardly a word of the question is in them",
        )
        return [replace(claim, relevant=False) for claim in claims]

    def _correct(self, kind: str, detail: str) -> None:
        self.corrections.append(Correction(kind=kind, detail=detail))

    def _locate(
        self, given: ListedClaim, kept: Mapping[tuple[int, int], CheckedClaim], claimed: set[int]
    ) -> tuple[tuple[int, int], int | None] | None:
        """Where the claim stands, and which tagged claim it is part of.

        Of several places the best is one that no claim has taken, in a tagged claim with the pages that the judge names.
        """
        best: tuple[tuple[int, int], int | None] | None = None
        best_rank = (False, False, False, False)
        for place in islice(self.answer.find_all(given.claim_span), MAX_PLACES):
            owner = self._owner(place)
            pages = () if owner is None else self.tagged[owner].pages
            rank = (
                place not in kept,
                owner is not None,
                set(pages) == set(given.pages),
                owner is not None and owner not in claimed,
            )
            if best is None or rank > best_rank:
                best, best_rank = (place, owner), rank
            if all(rank):
                break
        return best

    def _owner(self, place: tuple[int, int]) -> int | None:
        """The tagged claim that has most of this place."""
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
        self, where: str, given: ListedClaim, place: tuple[int, int], tagged: Claim | None
    ) -> CheckedClaim:
        pages = () if tagged is None else tagged.pages
        if set(given.pages) != set(pages):
            said, real = told_pages(given.pages) or "no page", told_pages(pages) or "no page"
            self._correct("pages_corrected", f"{where}: the judge says {said}, the answer cites {real}")
        support = self._support(where, given, tagged, place) if given.supported else None
        return CheckedClaim(
            claim_span=given.claim_span,
            place=place,
            pages=pages,
            supported=support is not None,
            relevant=given.relevant,
            justification=given.justification,
            page=None if support is None else support[0],
            page_span=None if support is None else given.page_span,
            page_place=None if support is None else support[1],
        )

    def _support(
        self, where: str, given: ListedClaim, tagged: Claim | None, claim_place: tuple[int, int]
    ) -> tuple[int, tuple[int, int]] | None:
        """The cited page that has the judge's words, and where."""
        cited = () if tagged is None else tagged.pages
        existing = [page for page in cited if page in self.pages]
        span = given.page_span
        if span is not None and content_words(span):
            for page in sorted(existing, key=lambda page: page != given.page):
                place = self._index(page).find(span)
                if place is None:
                    continue
                doubt = self.support.problem(
                    given.claim_span,
                    page,
                    self._index(page),
                    place,
                    part_of="" if tagged is None else self._sentence(tagged, claim_place),
                )
                if doubt is None:
                    return page, place
                self._correct(
                    "support_not_borne_out",
                    f"{where}: {quoted(span)} on {page_key(page)} does not support it: {doubt}",
                )
                return None
        if not cited:
            self._correct("no_page_cited", f"{where}: supported, but the answer cites no page for it")
        elif not existing:
            self._correct(
                "page_missing", f"{where}: supported, but {told_pages(cited)} is not in the context"
            )
        elif given.page is not None and given.page not in cited:
            self._correct(
                "page_not_cited",
                f"{where}: the judge relies on {page_key(given.page)}, which it does not cite",
            )
        elif given.page is not None and given.page not in self.pages:
            self._correct("page_missing", f"{where}: {page_key(given.page)} is not in the context")
        elif span is None:
            self._correct("span_not_in_page", f"{where}: supported, but no words of a page are given")
        else:
            problem = "is not on" if content_words(span) else "says nothing by itself on"
            self._correct("span_not_in_page", f"{where}: {quoted(span)} {problem} {told_pages(existing)}")
        return None

    @staticmethod
    def _sentence(tagged: Claim, place: tuple[int, int]) -> str:
        """The sentences of a tagged claim that a listed span touches."""
        touched = [
            (start, end)
            for start, end in sentences(tagged.text)
            if start + tagged.start < place[1] and end + tagged.start > place[0]
        ]
        return tagged.text[touched[0][0] : touched[-1][1]] if touched else tagged.text

    def _index(self, page: int) -> TextIndex:
        if page not in self.indexes:
            self.indexes[page] = TextIndex(self.pages[page])
        return self.indexes[page]
