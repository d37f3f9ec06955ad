"""Checks of a pack's worked examples by the metric that uses it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from judge.metrics.packs.metric import example_warnings
from judge.metrics.packs.pack import PromptPack, parse_pack
from judge.metrics.registry import build_metric

MEDICATIONS = {
    "question": "List the patient's current diabetes medications with evidence.",
    "answer": (
        "Metformin 500 mg twice daily. Evidence: [Page 7]\nInsulin glargine at bedtime. Evidence: [Page 7]"
    ),
    "context": {"Page-7": "Metformin 500 mg twice daily.", "Page-8": "Insulin glargine at bedtime."},
}
ON_THEIR_PAGES = {
    **MEDICATIONS,
    "answer": (
        "Metformin 500 mg twice daily. Evidence: [Page 7]\nInsulin glargine at bedtime. Evidence: [Page 8]"
    ),
}
STARTED = {
    "question": "When was metformin started?",
    "answer": "In 2021.",
    "reference": "Metformin was started in 2021.",
}
COUNTS = ["Fact: 1 of 1", "Conclusion: 0 of 0", "Terminology: 1 of 1", "Organization: matched", "Score: 5"]


def pack(user: str, *examples: dict[str, Any], **options: Any) -> PromptPack:
    given = {"messages": [{"role": "user", "content": user}], "examples": list(examples), **options}
    return parse_pack(json.dumps(given).encode(), dialect="yaml", origin="p.json")  # JSON is YAML


def relevance(score: object) -> dict[str, object]:
    return {"score": score, "justification": "So it is."}


@pytest.mark.parametrize(
    ("texts", "score", "told"),
    [
        (MEDICATIONS, 2, ()),  # 1 of 2 claims is on its page
        (ON_THEIR_PAGES, 5, ()),
        (ON_THEIR_PAGES, "5.0", ()),
        ({**MEDICATIONS, "answer": "I cannot answer that."}, None, ()),  # no claim
        ({**MEDICATIONS, "answer": "Metformin."}, 4, ("says 4 and would be published as 1", "cites")),
        (MEDICATIONS, 7, ("would have to repair", "from 1 to 5")),
    ],
)
def test_examples_of_relevance(texts: dict[str, Any], score: object, told: tuple[str, ...]) -> None:
    """An example with another published score gives a warning with its number, both scores and the reason."""
    given = pack(
        "{question} {answer} {context}",
        {**ON_THEIR_PAGES, "reply": relevance(5)},
        {**texts, "reply": relevance(score)},
    )
    warnings = list(example_warnings(build_metric("relevance", pack=given), given))
    assert len(warnings) == bool(told)
    assert all(part in warnings[0] for part in ("example 2 ", *told)) if told else True


@pytest.mark.parametrize(
    ("score", "counts", "told"),
    [
        (5, COUNTS, None),  # 0.7 + 0.21 + 0.09 = 1
        (3, COUNTS, "the counts of the rationale give 5"),
        (5, ["Fact: many", *COUNTS[1:]], "have to repair"),
    ],
)
def test_examples_of_coverage(score: int, counts: list[str], told: str | None) -> None:
    """An example whose counts contradict its score gives a warning."""
    given = pack(
        "{question} {answer} {reference}", {**STARTED, "reply": {"score": score, "rationale": counts}}
    )
    warnings = list(example_warnings(build_metric("coverage", pack=given), given))
    assert len(warnings) == (told is not None)
    assert told is None or told in warnings[0]


@pytest.mark.parametrize(("quote", "fine"), [("In 2021", True), ("In 1999", False)])
def test_a_quotation_of_an_example_must_be_in_its_texts(quote: str, fine: bool) -> None:
    example = {"question": "When?", "answer": "In 2021.", "reply": {"score": True, "words": quote}}
    given = pack("{question} {answer}", example, result="boolean", quotes={"words": "answer"})
    warnings = list(example_warnings(build_metric("dated", pack=given), given))
    assert (not warnings) == fine
