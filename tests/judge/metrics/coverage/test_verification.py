"""Proven errors of a coverage verdict lower the score; suspicions only mark it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from judge.metric import ScoredOutcome
from judge.metrics.coverage import Coverage
from judge.metrics.packs.pack import parse_pack
from tests.judge.replies import coverage_reply, listed_item
from tests.judge.tasks import make_task

PACK = parse_pack(b'[{role: user, content: "{event}"}]', dialect="yaml", origin="p")
REFERENCE = "The Eiffel Tower is in Paris. It was completed in 1889."


def _judge(
    facts: list[dict[str, Any]],
    *,
    answer: str,
    reference: str = REFERENCE,
    conclusions: list[dict[str, Any]] | None = None,
) -> ScoredOutcome:
    reply = coverage_reply(facts, conclusions or ())
    task = make_task("coverage", question="Where and when?", reference=reference, answer=answer)
    outcome = Coverage().interpret(task, json.dumps(reply))
    assert isinstance(outcome, ScoredOutcome)
    return outcome


def _kinds(found: Any) -> list[str]:
    return [one.kind for one in found]


def test_few_shared_words_are_a_suspicion() -> None:
    """Code cannot prove "America" for "United States" wrong."""
    outcome = _judge([listed_item("United States", "America")], reference="United States", answer="America")
    assert outcome.score == 5
    assert _kinds(outcome.corrections) == []
    assert _kinds(outcome.suspicions) == ["match_not_borne_out"]


def test_a_contradiction_is_shown() -> None:
    """A contradicted date is a correction with both quotations; 1 of 2 facts: 5 * (0.35 + 0.21 + 0.09) =
    3.25.
    """
    answer = "It is in Paris. It was completed in 1898."
    facts = [
        listed_item("The Eiffel Tower is in Paris.", "It is in Paris."),
        listed_item("It was completed in 1889.", "It was completed in 1898."),
    ]
    outcome = _judge(facts, answer=answer)
    assert outcome.score_exact == "3.25"
    assert _kinds(outcome.corrections) == ["dates_differ"]
    detail = outcome.corrections[0].detail
    assert '"It was completed in 1898."' in detail
    assert '"It was completed in 1889."' in detail


def test_an_invented_quotation_is_shown() -> None:
    """An invented quotation is corrected, and the objection names it for the repair turn."""
    facts = [listed_item("The Eiffel Tower is in Paris.", "Paris is where it stands, they say")]
    outcome = _judge(facts, answer="It is somewhere in France.")
    assert outcome.score == 1
    assert "span_not_in_answer" in _kinds(outcome.corrections)
    assert outcome.objection is not None
    assert "facts[0].answer_span" in outcome.objection


def test_an_invented_reference_span_is_unmatched() -> None:
    """An item with an invented reference span counts as unmatched instead of being dropped."""
    facts = [
        listed_item("The Eiffel Tower is in Paris.", "in Paris"),
        listed_item("It was painted by forty people.", "It was painted by forty people."),
    ]
    outcome = _judge(facts, answer="It is in Paris. It was painted by forty people.")
    assert "span_not_in_reference" in _kinds(outcome.corrections)
    assert outcome.verdict["rationale"][0].startswith("Fact: 1 of ")


def test_an_inexact_quotation_is_published_verbatim_and_marked() -> None:
    """An inexact quotation is published as the answer has it and marked `inexact`."""
    answer = "It was **completed** in [1889](https://example.org)."
    outcome = _judge([listed_item("It was completed in 1889.", "It was completed in 1889.")], answer=answer)
    assert outcome.score == 5
    assert outcome.corrections == ()
    fact = outcome.evidence["facts"][0]
    assert fact["answer_span"] == "It was **completed** in [1889"
    assert answer[fact["answer_start"] : fact["answer_end"]] == fact["answer_span"]
    assert fact["inexact"] is True


def test_an_exact_quotation_has_no_mark() -> None:
    """An exact quotation has no `inexact` mark."""
    outcome = _judge(
        [listed_item("It was completed in 1889.", "completed in 1889")], answer="Yes, completed in 1889."
    )
    assert "inexact" not in outcome.evidence["facts"][0]


def test_an_omitted_sentence_is_a_suspicion() -> None:
    """An omitted sentence is a suspicion and adds no item."""
    outcome = _judge([listed_item("The Eiffel Tower is in Paris.", "in Paris")], answer="It is in Paris.")
    assert outcome.score == 5
    assert _kinds(outcome.suspicions) == ["reference_not_accounted"]
    assert len(outcome.evidence["facts"]) == 1


def test_few_facts_and_many_conclusions_are_scored_by_the_formula() -> None:
    """1 of 1 facts, 1 of 3 conclusions: 5 * (0.4 + 0.1 + 0.21 + 0.09) = 4."""
    reference = "It rained. So the match was off. So the fans went home. So the shops were full."
    conclusions = [
        listed_item("So the match was off.", "The match was off"),
        listed_item("So the fans went home.", None),
        listed_item("So the shops were full.", None),
    ]
    outcome = _judge(
        [listed_item("It rained.", "It rained")], conclusions=conclusions, reference=reference,
        answer="It rained. The match was off.",
    )  # fmt: skip
    assert outcome.score_exact == "4"
    assert outcome.corrections == ()


def test_conclusions_without_facts_have_the_neutral_ratio() -> None:
    """No facts count 1: 5 * (0.4 + 0.15 + 0.21 + 0.09) = 4.25; a suspicion is recorded."""
    reference = "So the match was off. So the fans went home."
    conclusions = [
        listed_item("So the match was off.", "The match was off"),
        listed_item("So the fans went home.", None),
    ]
    outcome = _judge([], conclusions=conclusions, reference=reference, answer="The match was off.")
    assert outcome.score_exact == "4.25"
    assert outcome.corrections == ()
    assert "conclusions_without_facts" in _kinds(outcome.suspicions)


@pytest.mark.parametrize(("answer", "matched"), [("It has two lifts.", 2), ("It was completed in 1898.", 1)])
def test_contradicted_sentences_lower_the_judges_own_counts(answer: str, matched: int) -> None:
    """With a pack each contradicted sentence of the reference lowers the matched facts by one."""
    lines = ["Fact: 2 of 2", "Conclusion: 0 of 0", "Terminology: 0 of 0", "Organization: matched", "Score: 5"]
    task = make_task("coverage", reference=REFERENCE, answer=f"It is in Paris. {answer}")
    metric = Coverage(PACK)
    outcome = metric.interpret(task, json.dumps({"score": 5, "rationale": lines}))
    assert isinstance(outcome, ScoredOutcome)
    assert outcome.verdict["rationale"][0] == f"Fact: {matched} of 2 facts correctly matched."


def test_a_judge_that_lists_nothing_is_asked_again() -> None:
    """An empty list would score 5 by the neutral ratio, so it is objected to."""
    outcome = _judge([], answer="Something.")
    assert outcome.objection is not None
    assert _kinds(outcome.suspicions) == ["reference_not_accounted"] * 2
