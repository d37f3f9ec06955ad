"""Claims of a relevance verdict: as listed by the judge, and as verified."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from judge.text.citations import MAX_PAGE, Claim, page_key
from judge.text.normal import neutralize
from schemas import Correction, Suspicion

MAX_TOLD_PAGES = 20
"""Limit of pages listed in one message."""

PageNumber = Annotated[int, Field(ge=0, le=MAX_PAGE)]


class ListedClaim(BaseModel):
    """A claim as listed by the judge."""

    model_config = ConfigDict(strict=True, frozen=True)

    claim_span: str
    pages: list[PageNumber] = Field(default_factory=list)
    page: PageNumber | None = None
    page_span: str | None = None
    justification: str = ""
    supported: bool
    relevant: bool


class RelevanceReply(BaseModel):
    """The judge's reply in evidence mode. Other keys are ignored; the score's range is checked later."""

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
    """Whether code added it, because the judge omitted it."""
    inexact: bool = False
    """Whether a quotation was inexact; the spans are the texts' own."""

    @property
    def upheld(self) -> bool:
        """Whether it counts in the answer's favour."""
        return self.supported and self.relevant

    def as_json(self) -> dict[str, Any]:
        """Return it for the result's evidence; offsets refer to the event's texts."""
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
        if self.inexact:
            found["inexact"] = True
        return found | {"added": True} if self.added else found


@dataclass(frozen=True, slots=True)
class RelevanceEvidence:
    """The verified claims, in the answer's order, and the findings."""

    claims: tuple[CheckedClaim, ...]
    corrections: tuple[Correction, ...]
    suspicions: tuple[Suspicion, ...]
    objection: str | None


def unsupported_claim(claim: Claim, justification: str) -> CheckedClaim:
    """Return a claim of the answer as unsupported, with the reason."""
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
    """Return pages for a message: "Page-7, Page-9 and 3 more"."""
    told = ", ".join(page_key(page) for page in pages[:MAX_TOLD_PAGES])
    return f"{told} and {len(pages) - MAX_TOLD_PAGES} more" if len(pages) > MAX_TOLD_PAGES else told
