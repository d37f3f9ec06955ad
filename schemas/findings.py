"""Kinds of what code found in a verdict, one sentence each."""

from __future__ import annotations

from typing import Final, Literal, get_args

ContradictionKind = Literal[
    "numbers_differ", "units_differ", "dates_differ", "polarity_differs", "answers_differ"
]
"""Contradictions between an answer and its source that code can show."""

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
"""What looks wrong and cannot be shown to be; under `verification: strict` these lower the score."""

CorrectionKind = (
    ContradictionKind
    | SuspicionKind
    | Literal[
        "claim_not_listed",
        "duplicate_claim",
        "duplicate_item",
        "input_cut",
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
"""What is shown to be wrong, or was changed; under `strict` a suspicion becomes a correction of its kind."""

MEANINGS: Final[dict[CorrectionKind, str]] = {
    "answers_differ": "One text says yes where the other says no.",
    "dates_differ": "The two sentences say the same of different dates.",
    "numbers_differ": "The two sentences say the same with different numbers.",
    "polarity_differs": "The two sentences are the same but for a negation or a word's opposite.",
    "units_differ": "The same number stands in another unit of the same kind (500 mg, 500 g).",
    "both_fact_and_conclusion": "One statement is listed as a fact and as a conclusion; it counts once.",
    "citation_not_understood": "The answer has what looks like a citation in a form that is not understood.",
    "conclusions_without_facts": (
        "Conclusions are listed with hardly a fact to draw them from; under `strict` they count as facts."
    ),
    "match_not_borne_out": "The answer's quoted words share hardly a word with the item.",
    "no_citation": "Nothing in the answer is understood as a citation.",
    "not_a_term": "What is listed as a term is no technical term.",
    "not_about_question": "Claims are listed as relevant, but hardly a word of the question is in them.",
    "reference_not_accounted": "No item accounts for a sentence of the reference.",
    "span_says_nothing": "A quotation has no word that says anything by itself.",
    "support_not_borne_out": "The page's quoted words share hardly a word with the claim.",
    "term_not_in_answer": "A term is said to be in the answer, which has none of its words.",
    "claim_not_listed": "The judge left out a claim of the answer; it counts as unsupported.",
    "duplicate_claim": "The judge listed a claim twice; it counts once.",
    "duplicate_item": "The judge listed an item twice; it counts once.",
    "input_cut": "A text was too long for the endpoint's context and was cut before it was sent.",
    "no_page_cited": "A claim is said to be supported, but the answer cites no page for it.",
    "page_missing": "A claim rests on a page that is not in the context.",
    "page_not_cited": "A claim rests on a page that the answer does not cite for it.",
    "pages_corrected": "The judge named other pages than the answer cites; those of the answer count.",
    "score_lowered": "The judge's score is higher than what is shown to be wrong allows.",
    "score_recomputed": "The judge's score does not follow from its counts; the metric's formula decides.",
    "span_not_in_answer": "A quotation stands nowhere in the answer; what rests on it does not count.",
    "span_not_in_page": "A quotation stands nowhere on its page; what rests on it does not count.",
    "span_not_in_reference": "A quotation stands nowhere in the reference; the item does not count.",
    "text_not_listed": "The judge left out a text of the context; it does not count.",
}
"""Each kind in one sentence."""

SUSPICION_KINDS: Final[tuple[SuspicionKind, ...]] = get_args(SuspicionKind)
"""The kinds of suspicions."""
