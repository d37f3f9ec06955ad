"""The offline lists pass verification, whatever the texts; what they hold is in `tests/judge/cases.jsonl`."""

from __future__ import annotations

import jsonschema
from hypothesis import given
from hypothesis import strategies as st

from judge.metrics.coverage import COVERAGE_SCHEMA
from judge.metrics.coverage_checks import CoverageChecks, CoverageReply
from judge.metrics.relevance import RELEVANCE_SCHEMA
from judge.metrics.relevance_checks import RelevanceChecks, RelevanceReply, is_upheld
from judge.offline.rules import MAX_CLAIMS, MAX_TERMS, coverage_evidence, judge_claims, relevance_evidence
from judge.text.citations import Cited, page_key, read_sources

STATED = st.sampled_from(
    ["The tower", "is", "not", "in Paris", "1889", "1,000", ". ", "; ", ", and", "therefore", "\n", "[2]",
        "Ünïcode", "…", " "]
)  # fmt: skip


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
    ["The tower is 330 metres tall.", "It stands in Paris", "not", "[Page 7]", "[Pages 2, 7]",
        "Evidence: [Page 2]", "[Page 9]", "\n", "I'm sorry", "?"]
)  # fmt: skip


def test_the_lists_are_bounded() -> None:
    many = " ".join(f"about Name{letter}{other}" for letter in "bcfgh" for other in "bcfgh")
    assert len(coverage_evidence(reference=many, answer="x")["terms"]) == MAX_TERMS
    answer = "\n".join(f"Widget {number} weighs 5 grams. [Page 7]" for number in range(2000))
    assert len(judge_claims(question=QUESTION, answer=answer, pages=PAGES)) == MAX_CLAIMS


@given(st.lists(CLAIMED, max_size=12, unique=True).map(" ".join))
def test_the_claims_of_the_offline_list_pass_verification(answer: str) -> None:
    evidence = relevance_evidence(question=QUESTION, answer=answer, pages=PAGES, missing=False)
    jsonschema.validate(evidence, dict(RELEVANCE_SCHEMA.schema))
    listed = RelevanceReply.model_validate(evidence)
    sources = read_sources({page_key(page): text for page, text in PAGES.items()})
    checks = RelevanceChecks(Cited(answer, sources), question="")
    claims = checks.verify(listed.claims)
    assert {correction.kind for correction in checks.findings.corrections} <= {"claim_not_listed"}
    assert [is_upheld(claim) for claim in claims if "added" not in claim] == [
        one.supported and one.relevant for one in listed.claims
    ]
