"""Event text on a terminal, and the reason of a result in one line."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge.text.printable import printable, reason_of
from schemas import Scored
from tests.streams.results import failed, scored, unscored


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("two\nlines\tand  more ", "two lines and more"),
        ("\x1b[31mred\x1b[0m", r"\x1b[31mred\x1b[0m"),
        ("a\u202eb", r"a\u202eb"),  # a right-to-left override
        ("\ud800", r"\ud800"),  # a lone surrogate cannot be encoded
        ("bell\x07 nul\x00", r"bell\x07 nul\x00"),
        ("Zürich 東京", "Zürich 東京"),
        ("[bold]not markup[/bold]", "[bold]not markup[/bold]"),
    ],
)
def test_text_is_printed_without_control_sequences(text: str, shown: str) -> None:
    """White space becomes single spaces; unprintable characters become escapes."""
    assert printable(text) == shown


@pytest.mark.parametrize(
    ("limit", "shown"), [(11, "hello world"), (10, "hello wor…"), (7, "hello…"), (1, "…")]
)
def test_cuts_to_its_limit(limit: int, shown: str) -> None:
    """The limit includes the ellipsis, and no space precedes it."""
    assert printable("hello world", limit) == shown


@given(st.text(), st.integers(min_value=1, max_value=50))
def test_is_always_one_printable_line_within_its_limit(text: str, limit: int) -> None:
    shown = printable(text, limit)
    assert shown.isprintable()
    assert len(shown) <= limit
    shown.encode()  # raises on a lone surrogate


def test_a_justification_is_shown_as_it_is() -> None:
    """The reason of a scored result is its justification, cut to the limit."""
    assert reason_of(scored(1, 4, justification="Two claims\nare not supported.")) == (
        "Two claims are not supported."
    )
    assert reason_of(scored(1, 4, justification="abcdef"), limit=4) == "abc…"


def test_a_rationale_is_cut_to_its_counts() -> None:
    """The reason of a coverage result is its counts without the formula."""
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


@pytest.mark.parametrize(
    ("evidence", "verdict", "reason"),
    [
        (
            {
                "facts": [
                    {"item": "It has\n330 m.", "matched": False},
                    {"item": "It stands in Paris.", "matched": True},
                ],
                "conclusions": [{"item": "So it is tall.", "matched": False}],
                "terms": [{"item": "iron", "matched": False}],
            },
            {"rationale": ["Fact: 1 of 2 facts correctly matched.", "Score: 2"]},
            "missing: It has 330 m; So it is tall",
        ),
        (
            {"facts": [{"item": "a", "matched": True}], "terms": [{"item": "iron", "matched": False}]},
            {"rationale": ["Fact: 1 of 1 facts correctly matched.", "Score: 4"]},
            "missing terms: iron",
        ),
        (
            {"claims": [{"claim_span": f"Claim {n}.", "supported": n == 0} for n in range(6)]},
            {"justification": "Five of six are not supported."},
            "not supported: Claim 1; Claim 2; Claim 3 and 2 more | Five of six are not supported.",
        ),
        (
            {"claims": [{"claim_span": "It rains.", "supported": True, "relevant": False}]},
            {"justification": "Off topic."},
            "beside the question: It rains | Off topic.",
        ),
        ({"claims": "none"}, {"justification": "Fine."}, "Fine."),
    ],
)
def test_what_lowered_a_score_comes_first(evidence: Any, verdict: dict[str, Any], reason: str) -> None:
    """Missing facts and conclusions, else terms, and unsupported claims precede counts and justification."""
    values = scored(1, 3).model_dump() | {"verdict": {"score": 3, **verdict}, "evidence": evidence}
    assert reason_of(Scored.model_validate(values)) == reason


def test_other_results_say_their_reason() -> None:
    """Unscored results show their reason, failed ones also the detail."""
    assert reason_of(unscored(1)) == "no_claims"
    assert reason_of(failed(1)) == "content_refused: the filter said no"


def test_a_verdict_without_a_justification_has_an_empty_reason() -> None:
    values = scored(1, 3).model_dump() | {"verdict": {"score": 3}}
    assert reason_of(Scored.model_validate(values)) == ""
