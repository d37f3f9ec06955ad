from __future__ import annotations

import json
from typing import Any

import pytest

from judge.errors import InvalidVerdictError
from judge.metric import ScoredOutcome, UnscoredOutcome
from judge.metrics.coverage import Coverage
from judge.metrics.scoring import FORCED_VERDICT
from schemas import CoverageVerdict
from tests.judge.metrics.coverage.test_metric import ANSWER, PACK, REFERENCE, _kinds
from tests.judge.tasks import make_task


def _own(score: Any, *, facts: str = "2 of 2", organization: str = "matched") -> str:
    return json.dumps(
        {
            "score": score,
            "rationale": [
                f"Fact: {facts} facts correctly matched.",
                "Conclusion: 0 of 0 conclusions correctly matched.",
                "Terminology: 1 of 1 terms correctly matched.",
                f"Organization: {organization}",
                f"Score: {score}",
            ],
        }
    )


def _verbatim(reply: str, *, answer: str = ANSWER) -> ScoredOutcome:
    task = make_task("coverage", question="Where is it?", reference=REFERENCE, answer=answer)
    outcome = Coverage(PACK).interpret(task, reply)
    assert isinstance(outcome, ScoredOutcome)
    CoverageVerdict.model_validate(dict(outcome.verdict))
    return outcome


@pytest.mark.parametrize(
    ("facts", "organization", "score_exact"),
    [
        ("2 of 2", "matched", "5"),
        ("2 out of 2", "Matched.", "5"),
        ("2/2", "matched", "5"),
        ("2/2 (2 of 2)", "matched", "5"),
        ("1 of 2", "matched", "3.25"),  # 0.35 + 0.21 + 0.09
        ("2 of 2", "mismatched", "4.55"),  # 0.7 + 0.21
        ("2 of 2", "not matched", "4.55"),
        ("0 of 2", "matched", "1.05"),  # 0.21
    ],
)
def test_the_judges_own_counts_are_recomputed(facts: str, organization: str, score_exact: str) -> None:
    """A score that does not follow from its counts is objected to and corrected; a consistent one is kept."""
    outcome = _verbatim(_own(2, facts=facts, organization=organization))
    assert outcome.score_exact == score_exact
    assert _kinds(outcome) == ["score_recomputed"]
    assert outcome.objection is not None
    assert f"rounded {outcome.score}" in outcome.objection
    right = _verbatim(_own(outcome.score, facts=facts, organization=organization))
    assert (right.corrections, right.objection) == ((), None)
    assert right.verdict == outcome.verdict


@pytest.mark.parametrize(
    ("line", "instead"),
    [
        (0, "Fact: all facts correctly matched."),
        (0, "Fact: 3 of 2 facts correctly matched."),
        (0, "Fact: two of two facts correctly matched."),
        (0, "Fact: 2 facts correctly matched."),
        (0, "Fact: 2 of 2, or 1 of 2, facts correctly matched."),
        (0, "Fact: 1.5 of 2 facts correctly matched."),
        (0, "Fact: 2 of 2.5 facts correctly matched."),
        (0, "Fact: -2 of 2 facts correctly matched."),
        (0, "Fact: 1-2 of 2 facts correctly matched."),
        (1, "Conclusion: N/A"),
        (1, "Fact: 1 of 2 facts correctly matched."),
        (2, ""),
        (3, "Organization: matched / mismatched"),
        (3, "Organization: mismatched or matched"),
        (3, "Organization: matched, or is it?"),
        (3, "Organization: matched (not mismatched)"),
        (3, "Organization: not mismatched"),
        (3, "Organization: partly matched"),
        (3, "Organization: N/A"),
        (4, "Organization: mismatched"),
    ],
)
def test_ambiguous_or_missing_counts_are_invalid(line: int, instead: str) -> None:
    """Ambiguous or missing counts are invalid; the error shows the expected form."""
    reply = json.loads(_own(5))
    reply["rationale"][line] = instead
    with pytest.raises(InvalidVerdictError, match=r"the rationale has .*Fact: 2 of 3"):
        _verbatim(json.dumps(reply))


def test_a_forced_zero_of_the_judges_own_is_no_score() -> None:
    """The forced zero that the metric prescribes for missing input is unscored."""
    task = make_task("coverage", question="Where is it?", reference=REFERENCE, answer=ANSWER)
    outcome = Coverage(PACK).interpret(task, json.dumps(dict(FORCED_VERDICT)))
    assert outcome == UnscoredOutcome("missing_input", verdict=dict(FORCED_VERDICT))
    told = json.dumps({"score": 0, "rationale": "Score: 0 = forced due to missing context"})
    assert Coverage(PACK).interpret(task, told) == outcome


def test_counts_are_read_from_one_text_too() -> None:
    """A rationale in one string with five lines is read."""
    reply = json.loads(_own(5))
    reply["rationale"] = "\n".join(reply["rationale"])
    assert _verbatim(json.dumps(reply)).corrections == ()


@pytest.mark.parametrize(
    ("reply", "told"),
    [
        ('{"score": 4, "rationale": ["good", "very good"]}', "five strings"),
        ('{"score": 4}', "five strings"),
        ('{"score": 7, "rationale": ["", "", "", "", ""]}', "whole number from 0 to 5, got 7"),
        ('{"score": 4.5, "rationale": ["", "", "", "", ""]}', "whole number from 0 to 5, got 4.5"),
        ('{"score": false, "rationale": ["", "", "", "", ""]}', "whole number from 0 to 5, got false"),
        ("Four out of five.", "no JSON object"),
    ],
)
def test_a_verdict_without_its_parts_is_invalid(reply: str, told: str) -> None:
    """The error names the missing or invalid part."""
    with pytest.raises(InvalidVerdictError, match=told):
        _verbatim(reply)
