from __future__ import annotations

from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge.metrics.coverage import COVERAGE_SCHEMA
from judge.metrics.coverage_checks import CoverageChecks, CoverageReply
from judge.metrics.relevance import RELEVANCE_SCHEMA
from judge.metrics.relevance_checks import RelevanceChecks, RelevanceReply, is_upheld
from judge.offline.rules import MAX_CLAIMS, MAX_TERMS, coverage_evidence, judge_claims, relevance_evidence

REFERENCE = "The Eiffel Tower is in Paris. It was completed in 1889."
STATED = st.sampled_from(
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
    st.lists(STATED, max_size=40, unique=True).map(lambda pieces: f"Tower {' '.join(pieces)}"),
    st.lists(STATED, max_size=40).map(" ".join),
)
def test_the_items_of_the_offline_list_pass_verification(reference: str, answer: str) -> None:
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


QUESTION = "How tall is the Eiffel Tower, and where is it?"
PAGES = {
    7: "Facts. The tower is 330 metres tall, like an 81-storey building. It is grey.",
    2: "The Eiffel Tower stands on the Champ de Mars in Paris. It was not moved.",
}
CLAIMED = st.sampled_from(
    [
        "The tower is 330 metres tall.",
        "It stands in Paris",
        "not",
        "[Page 7]",
        "[Pages 2, 7]",
        "Evidence: [Page 2]",
        "[Page 9]",
        "\n",
        "I'm sorry",
        "?",
    ]
)


def supported(answer: str, pages: dict[int, str] | None = None) -> list[bool]:
    claims = judge_claims(question=QUESTION, answer=answer, pages=PAGES if pages is None else pages)
    return [claim.supported for claim in claims]


def test_only_a_cited_page_supports_a_claim() -> None:
    answer = "The tower is 330 metres tall. Evidence: [Page {}]"
    assert supported(answer.format(7)) == [True]
    assert supported(answer.format(2)) == [False]
    assert supported("The tower is 330 metres tall. [Page 2] [Page 7]") == [True]


@pytest.mark.parametrize(
    "claim",
    [
        "The tower is 300 metres tall. [Page 7]",
        "The tower is not 330 metres tall. [Page 7]",
        "The tower is 330 metres tall. [Page 9]",
        "The tower is 330 metres tall.",
        "Boats are cheap at weekends. [Page 7]",
    ],
)
def test_a_claim_that_differs_from_its_page_is_unsupported(claim: str) -> None:
    """Another number, a negation, a missing page, no citation and other words leave a claim unsupported, with
    a reason.
    """
    assert supported(claim) == [False]
    evidence = relevance_evidence(question=QUESTION, answer=claim, pages=PAGES, missing=False)
    assert evidence["claims"][0]["page_span"] is None
    assert evidence["claims"][0]["justification"]
    assert evidence["score"] == 1


def test_the_evidence_names_the_page_and_its_words() -> None:
    """The evidence quotes the page; the score follows the share of upheld claims: 1 of 2 is about half."""
    evidence = relevance_evidence(
        question=QUESTION,
        answer="The tower is 330 metres tall. [Page 7]\nIt was moved to Rome in 1950. [Page 2]",
        pages=PAGES,
        missing=False,
    )
    first, second = evidence["claims"]
    assert (first["page"], first["page_span"]) == (
        7,
        "The tower is 330 metres tall, like an 81-storey building.",
    )
    assert (second["page"], second["supported"]) == (None, False)
    assert evidence["score"] == 3


def test_a_relevant_claim_shares_a_word_with_the_question() -> None:
    answer = (
        "The Eiffel Tower stands in Paris. [Page 2]\n"
        "Paris has boats. [Page 2]\n"
        "Cheese comes from milk. [Page 2]"
    )
    claims = judge_claims(question=QUESTION, answer=answer, pages=PAGES)
    assert [claim.relevant for claim in claims] == [True, True, False]


@pytest.mark.parametrize(
    "answer",
    [
        "I'm sorry, I cannot answer that question.",
        "# Height",
        "Here is what I found:",
        "Which tower do you mean?",
        "",
        "Yes!",
    ],
)
def test_courtesies_headings_and_refusals_claim_nothing(answer: str) -> None:
    assert relevance_evidence(question=QUESTION, answer=answer, pages=PAGES, missing=False)["claims"] == []


def test_the_list_is_bounded() -> None:
    """At most MAX_CLAIMS claims are listed."""
    answer = "\n".join(f"Widget {number} weighs 5 grams. [Page 7]" for number in range(2000))
    assert len(judge_claims(question=QUESTION, answer=answer, pages=PAGES)) == MAX_CLAIMS


@given(st.lists(CLAIMED, max_size=12, unique=True).map(" ".join))
def test_the_claims_of_the_offline_list_pass_verification(answer: str) -> None:
    evidence = relevance_evidence(question=QUESTION, answer=answer, pages=PAGES, missing=False)
    jsonschema.validate(evidence, dict(RELEVANCE_SCHEMA.schema))
    listed = RelevanceReply.model_validate(evidence)
    checks = RelevanceChecks(answer, PAGES)
    claims = checks.verify(listed.claims)
    assert {correction.kind for correction in checks.findings.corrections} <= {"claim_not_listed"}
    assert [is_upheld(claim) for claim in claims if "added" not in claim] == [
        one.supported and one.relevant for one in listed.claims
    ]
