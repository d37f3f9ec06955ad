from __future__ import annotations

from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge.metrics.coverage import COVERAGE_SCHEMA
from judge.metrics.coverage_checks import CoverageChecks, CoverageReply
from judge.offline.rules import MAX_TERMS, coverage_evidence

REFERENCE = "The Eiffel Tower is in Paris. It was completed in 1889."
PIECES = st.sampled_from(
    [
        "The tower",
        "is",
        "not",
        "in Paris",
        "1889",
        "1,000",
        ". ",
        "; ",
        ", and",
        "therefore",
        "\n",
        "[2]",
        "Ünïcode",
        "…",
        " ",
    ]
)


def matched(items: list[dict[str, Any]]) -> list[str]:
    return [item["item"] for item in items if item["matched"]]


def test_the_eiffel_tower() -> None:
    """One sentence of the answer matches both facts; content words are the terms."""
    evidence = coverage_evidence(
        reference=REFERENCE, answer="The Eiffel Tower, built in 1889, is located in Paris, France."
    )
    assert matched(evidence["facts"]) == ["The Eiffel Tower is in Paris.", "It was completed in 1889."]
    assert evidence["conclusions"] == []
    assert [item["item"] for item in evidence["terms"]] == ["completed", "Eiffel", "Tower", "Paris"]
    assert matched(evidence["terms"]) == ["Eiffel", "Tower", "Paris"]
    assert evidence["organization"]["similar"]


def test_a_wrong_number_is_not_matched() -> None:
    """A different number prevents a match even if all other words agree."""
    evidence = coverage_evidence(reference=REFERENCE, answer="It was completed in 1899.")
    assert matched(evidence["facts"]) == []
    assert "number" in evidence["facts"][1]["justification"]


@pytest.mark.parametrize(
    ("answer", "similar"),
    [
        ("Zinc is blue. Iron is red. Gold is yellow.", True),
        ("Gold is yellow. Iron is red. Zinc is blue.", False),
        ("Iron is red.", True),
        ("Nothing.", False),
    ],
)
def test_organization_is_the_order_of_matched_pairs(answer: str, similar: bool) -> None:
    evidence = coverage_evidence(reference="Zinc is blue. Iron is red. Gold is yellow.", answer=answer)
    assert evidence["organization"]["similar"] is similar


def test_terms_are_the_longest_words_in_any_inflection() -> None:
    evidence = coverage_evidence(
        reference="Wilhelm Conrad Röntgen made radiographs in 1901.", answer="A radiograph helped W. Röntgen."
    )
    assert [item["item"] for item in evidence["terms"]] == [
        "radiographs",
        "Wilhelm",
        "Röntgen",
        "Conrad",
        "made",
    ]
    spans = [item["answer_span"] for item in evidence["terms"]]
    assert spans == ["radiograph", None, "Röntgen", None, None]
    many = " ".join(f"about Name{letter}{other}" for letter in "abcde" for other in "abcde")
    assert len(coverage_evidence(reference=many, answer="x")["terms"]) == MAX_TERMS


@given(
    st.lists(PIECES, max_size=40, unique=True).map(lambda pieces: f"Tower {' '.join(pieces)}"),
    st.lists(PIECES, max_size=40).map(" ".join),
)
def test_the_offline_list_passes_verification(reference: str, answer: str) -> None:
    evidence = coverage_evidence(reference=reference, answer=answer)
    jsonschema.validate(evidence, dict(COVERAGE_SCHEMA.schema))
    listed = CoverageReply.model_validate(evidence)
    checks = CoverageChecks(reference=reference, answer=answer, question="")
    checks.verify(listed.facts, listed.conclusions, listed.terms)
    kinds = {correction.kind for correction in checks.findings.corrections}
    assert kinds <= {"polarity_differs"}
    assert not kinds or "not" in answer or "not" in reference
    own = coverage_evidence(reference=reference, answer=reference)
    # Words alone do not tell which clause of a sentence is negated.
    assert "not" in reference or all(item["matched"] for item in own["facts"] + own["conclusions"])
