"""Items of a coverage verdict: as listed by the judge, and as verified."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict

from schemas import Correction, Suspicion


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

    facts: list[ListedItem]
    conclusions: list[ListedItem]
    terms: list[ListedItem]
    organization: ListedOrganization


@dataclass(frozen=True, slots=True)
class Item:
    """A verified item."""

    item: str
    reference_span: str
    reference: tuple[int, int] | None
    matched: bool
    justification: str
    answer_span: str | None = None
    answer: tuple[int, int] | None = None
    added: bool = False
    """Whether code added it, because the judge omitted it."""
    inexact: bool = False
    """Whether a quotation was inexact; the spans are the texts' own."""

    def as_json(self) -> dict[str, Any]:
        """Return it for the result's evidence; offsets refer to the event's texts."""
        found: dict[str, Any] = {
            "item": self.item,
            "reference_span": self.reference_span,
            "matched": self.matched,
            "justification": self.justification,
            "answer_span": self.answer_span,
        }
        if self.reference is not None:
            found |= {"reference_start": self.reference[0], "reference_end": self.reference[1]}
        if self.answer is not None:
            found |= {"answer_start": self.answer[0], "answer_end": self.answer[1]}
        if self.inexact:
            found["inexact"] = True
        return found | {"added": True} if self.added else found


@dataclass(frozen=True, slots=True)
class CoverageEvidence:
    """The verified items, and the findings."""

    facts: tuple[Item, ...]
    conclusions: tuple[Item, ...]
    terms: tuple[Item, ...]
    similar: bool
    organization_justification: str
    corrections: tuple[Correction, ...]
    suspicions: tuple[Suspicion, ...] = ()
    objection: str | None = None

    def as_json(self) -> dict[str, Any]:
        """Return it for the result's evidence."""
        return {
            "facts": [item.as_json() for item in self.facts],
            "conclusions": [item.as_json() for item in self.conclusions],
            "terms": [item.as_json() for item in self.terms],
            "organization": {"similar": self.similar, "justification": self.organization_justification},
        }
