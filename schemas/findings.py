"""Published verdicts of the built-in metrics; kinds of corrections and suspicions, with a sentence each."""

from __future__ import annotations

from typing import Annotated, Final, Literal, get_args

from pydantic import ConfigDict, Field

from schemas.base import Message

ContradictionKind = Literal[
    "numbers_differ", "units_differ", "dates_differ", "polarity_differs", "answers_differ"
]
"""Contradictions between an answer and its source that code can prove."""

SuspicionKind = Literal[
    "both_fact_and_conclusion",
    "citation_not_understood",
    "conclusions_without_facts",
    "match_not_borne_out",
    "no_citation",
    "not_a_term",
    "not_about_question",
    "reference_not_accounted",
    "span_says_nothing",
    "support_not_borne_out",
    "term_not_in_answer",
]
"""Kinds of suspicions: not proven; they mark a result."""

CorrectionKind = (
    ContradictionKind
    | SuspicionKind
    | Literal[
        "claim_not_listed",
        "duplicate_claim",
        "duplicate_item",
        "no_page_cited",
        "page_missing",
        "page_not_cited",
        "pages_corrected",
        "score_lowered",
        "score_recomputed",
        "span_not_in_answer",
        "span_not_in_page",
        "span_not_in_reference",
        "text_not_listed",
    ]
)
"""Kinds of corrections: proven errors and changes."""

MEANINGS: Final[dict[CorrectionKind, str]] = {
    "answers_differ": "One text says yes, the other no.",
    "dates_differ": "The two sentences are the same but for a date.",
    "numbers_differ": "The two sentences are the same but for a number.",
    "polarity_differs": "The two sentences are the same but for a negation.",
    "units_differ": "The same number has another unit of the same dimension (500 mg, 500 g).",
    "both_fact_and_conclusion": "One statement is listed as a fact and as a conclusion; it counts once.",
    "citation_not_understood": "The answer seems to have a citation in a form that is not recognised.",
    "conclusions_without_facts": "Conclusions are listed with hardly any facts.",
    "match_not_borne_out": "The answer's quoted words share hardly any words with the item.",
    "no_citation": "No citation is recognised in the answer.",
    "not_a_term": "An item listed as a term is no technical term.",
    "not_about_question": "Claims are listed as relevant, but have hardly any words of the question.",
    "reference_not_accounted": "No item accounts for a sentence of the reference.",
    "span_says_nothing": "A quotation has no content word.",
    "support_not_borne_out": "The page's quoted words share hardly any words with the claim.",
    "term_not_in_answer": "A term is listed as matched, but the answer has none of its words.",
    "claim_not_listed": "The judge omitted a claim of the answer; it counts as unsupported.",
    "duplicate_claim": "The judge listed a claim twice; it counts once.",
    "duplicate_item": "The judge listed an item twice; it counts once.",
    "no_page_cited": "A claim is listed as supported, but the answer cites no page for it.",
    "page_missing": "A claim relies on a page that is not in the context.",
    "page_not_cited": "A claim relies on a page that the answer does not cite for it.",
    "pages_corrected": "The judge named other pages than the answer cites; the answer's count.",
    "score_lowered": "The judge's score was lowered to what the verified claims and citations allow.",
    "score_recomputed": "The judge's score does not follow from its counts; the metric's formula decides.",
    "span_not_in_answer": "A quotation is not in the answer; what it supports does not count.",
    "span_not_in_page": "A quotation is not on its page; what it supports does not count.",
    "span_not_in_reference": "A quotation is not in the reference; the item does not count.",
    "text_not_listed": "The judge omitted a text of the context; it does not count.",
}
"""Each kind in one sentence."""

SUSPICION_KINDS: Final[tuple[SuspicionKind, ...]] = get_args(SuspicionKind)
"""The kinds of suspicions."""


class CoverageVerdict(Message):
    """How much of a reference an answer covers."""

    model_config = ConfigDict(extra="forbid", strict=True)

    score: int = Field(ge=0, le=5)
    rationale: Annotated[list[str], Field(min_length=5, max_length=5)] = Field(
        description="Facts, conclusions, terminology, organization, and the score with its formula."
    )


class RelevanceVerdict(Message):
    """How well an answer's claims are supported by the pages they cite."""

    model_config = ConfigDict(extra="forbid", strict=True)

    score: int = Field(ge=1, le=5)
    justification: str
