"""Why a result is what it is, in one line."""

from __future__ import annotations

from schemas import Scored
from streams.text.reasons import reason_of
from tests.streams.results import failed, scored, unscored


def test_a_justification_is_shown_as_it_is() -> None:
    """Within its limit."""
    assert reason_of(scored(1, 4, justification="Two claims\nare not supported.")) == (
        "Two claims are not supported."
    )
    assert reason_of(scored(1, 4, justification="abcdef"), limit=4) == "abc…"


def test_a_rationale_is_cut_to_its_counts() -> None:
    """The formula at its end is left out."""
    rationale = [
        "Fact: 1 of 2 facts correctly matched.",
        "Conclusion: 0 of 0 conclusions correctly matched.",
        "Terminology: 1 of 1 terms correctly matched.",
        "Organization: mismatched",
        "Score: 3 ≈ 2.8 = ...",
    ]
    values = scored(1, 3, metric="coverage").model_dump() | {"verdict": {"score": 3, "rationale": rationale}}
    assert reason_of(Scored.model_validate(values)) == (
        "fact 1 of 2, conclusion 0 of 0, terminology 1 of 1, organization mismatched"
    )


def test_other_results_say_their_reason() -> None:
    """A failure with its detail."""
    assert reason_of(unscored(1)) == "no_claims"
    assert reason_of(failed(1)) == "content_refused: the filter said no"


def test_a_verdict_of_another_form_has_none() -> None:
    """Such as that of a prompt pack."""
    values = scored(1, 3).model_dump() | {"verdict": {"score": 3}}
    assert reason_of(Scored.model_validate(values)) == ""
