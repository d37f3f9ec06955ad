"""The example packs of three metrics, end to end.

Each case has an event and a judge's reply; the expected score is derived by hand from the metric's
definition.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from judge.endpoints.clients import ScriptedChat
from judge.evaluate.evaluator import Evaluator
from judge.metrics.packs.pack import load_pack
from judge.metrics.registry import build_metric
from schemas import Failed, Scored, Unscored
from tests.judge.built_tasks import task_for

FOLDER = Path(__file__).parent / "worked"

MEDICATIONS = {
    "question": "List the patient's current diabetes medications with evidence.",
    "answer": (
        "Metformin 500 mg twice daily. Evidence: [Page 7]\nInsulin glargine 10 units at bedtime. "
        "Evidence: [Page 7]"
    ),
    "context": {
        "Page-7": "Current: Metformin 500 mg, twice daily.",
        "Page-8": "Insulin glargine, 10 units at bedtime.",
    },
}
ON_THEIR_PAGES = {
    **MEDICATIONS,
    "answer": str(MEDICATIONS["answer"]).replace(
        "bedtime. Evidence: [Page 7]", "bedtime. Evidence: [Page 8]"
    ),
}
WITHOUT_TAGS = {
    **MEDICATIONS,
    "answer": "Metformin 500 mg twice daily.\nInsulin glargine 10 units at bedtime.",
}
MISSING_PAGE = {
    **MEDICATIONS,
    "answer": str(MEDICATIONS["answer"]).replace(
        "bedtime. Evidence: [Page 7]", "bedtime. Evidence: [Page 9]"
    ),
}
REFUSAL = {**MEDICATIONS, "answer": "I cannot answer that."}


def relevance(score: object, justification: str = "So it is.") -> str:
    return json.dumps({"score": score, "justification": justification})


@pytest.mark.parametrize("pack", ["relevance.yaml", "relevance.md"])
@pytest.mark.parametrize(
    ("event", "reply", "score"),
    [
        (MEDICATIONS, relevance(2, "Only the first claim is on the page it cites."), 2),
        (ON_THEIR_PAGES, relevance(5, "All claims are supported."), 5),
        (ON_THEIR_PAGES, relevance("4"), 4),
        (ON_THEIR_PAGES, relevance(1), 1),  # a score is never raised
        (MISSING_PAGE, relevance(5), 3),  # 1 of 2 claims can be supported
        (WITHOUT_TAGS, relevance(4), 1),  # claims without a citation
        (REFUSAL, relevance(None), None),  # no claim
    ],
)
def test_relevance_packs(pack: str, event: dict[str, Any], reply: str, score: int | None) -> None:
    """A relevance pack needs one call, and its verdict has the two defined keys."""
    result, chat = judged(pack, event, reply)
    assert len(chat.requests) == 1
    if score is None:
        assert isinstance(result, Unscored)
        assert result.reason == "no_claims"
        return
    assert isinstance(result, Scored), result
    assert (result.score, set(result.verdict)) == (score, {"score", "justification"})


STARTED = {
    "question": "When was metformin started, and why?",
    "answer": "Metformin was started in 2021 because of diabetes.",
    "reference": "Metformin was started in 2021 because of diabetes. It suggests early treatment.",
}


def coverage(score: object, facts: str, conclusions: str, terms: str, organization: str = "matched") -> str:
    rationale = [
        f"Fact: {facts} facts correctly matched.",
        f"Conclusion: {conclusions} conclusions correctly matched.",
        f"Terminology: {terms} terms correctly matched.",
        f"Organization: {organization}",
        f"Score: {score}",
    ]
    return json.dumps({"score": score, "rationale": rationale})


@pytest.mark.parametrize("pack", ["coverage.md", "coverage.yaml"])
@pytest.mark.parametrize(
    ("reply", "score", "exact"),
    [
        (coverage(5, "1 of 1", "0 of 0", "1 of 1"), 5, "5"),  # 0.7 + 0.21 + 0.09 = 1
        (coverage(4, "3 of 4", "0 of 0", "2 of 2"), 4, "4.125"),  # 0.525 + 0.21 + 0.09 = 0.825
        (coverage(4, "2 of 2", "1 of 2", "1 of 2"), 4, "3.725"),  # 0.4 + 0.15 + 0.105 + 0.09 = 0.745
        (coverage(3, "1 of 2", "0 of 3", "1 of 1"), 3, "2.5"),  # 0.2 + 0 + 0.21 + 0.09 = 0.5, halves up
        (coverage(3, "1 of 2", "0 of 0", "0 of 0", "mismatched"), 3, "2.8"),  # 0.35 + 0.21, terms neutral
        (coverage(1, "0 of 2", "0 of 0", "1 of 1"), 1, "1.05"),  # no fact: 0.21, organization does not count
        (coverage(1, "0 of 2", "2 of 2", "1 of 1"), 1, "1.05"),  # no fact matched: conclusions do not count
        (coverage(0, "0 of 3", "0 of 0", "0 of 4"), 0, "0"),
        (coverage(2, "1 of 3", "0 of 0", "1 of 2"), 2, "257/120"),  # 7/30 + 0.105 + 0.09 = 257/600
        (coverage("5.0", "2/2", "0/0", "1 out of 1", "Matched."), 5, "5"),
    ],
)
def test_coverage_packs(pack: str, reply: str, score: int, exact: str) -> None:
    """A score that follows from its counts is published after one call, without a correction."""
    result, chat = judged(pack, STARTED, reply)
    assert isinstance(result, Scored), result
    assert (result.score, result.score_exact, result.corrections) == (score, exact, ())
    assert len(chat.requests) == 1
    assert [*result.verdict] == ["score", "rationale"]


@pytest.mark.parametrize("pack", ["coverage.md", "coverage.yaml"])
def test_a_judge_that_sees_missing_input_gives_no_score(pack: str) -> None:
    """A forced zero for missing input is unscored and keeps its verdict."""
    lines = ["Fact: Evaluation not possible due to missing input.", "Conclusion: N/A", "Terminology: N/A",
        "Organization: N/A",
             "Score: 0 = forced due to missing context"]  # fmt: skip
    result, _ = judged(pack, STARTED, json.dumps({"score": 0, "rationale": lines}))
    assert isinstance(result, Unscored)
    assert (result.reason, result.verdict) == ("missing_input", {"score": 0, "rationale": lines})


@pytest.mark.parametrize(
    ("pack", "reply", "score"),
    [
        ("tone.md", '{"score": 9, "why": "kind and clear"}', 9),
        ("tone.md", '{"score": "9", "why": "kind and clear"}', 9),
        ("tone.md", '{"score": 9}', None),  # the schema requires a reason
        ("tone.md", '{"score": 11, "why": "x"}', None),
        ("tone.yaml", 'I say {"score": 0}', 0),
        ("tone.yaml", '{"score": 2} or {"score": 3}', None),
    ],
)
def test_a_custom_packs_score_fits_its_range(pack: str, reply: str, score: int | None) -> None:
    result, _ = judged(pack, MEDICATIONS, reply)
    if score is None:
        assert isinstance(result, Failed)
        assert result.error_type == "invalid_verdict"
    else:
        assert isinstance(result, Scored), result
        assert result.score == score


def judged(pack: str, event: dict[str, Any], reply: str) -> tuple[Scored | Unscored | Failed, ScriptedChat]:
    """Load the pack and judge the event with a constant reply."""
    loaded = load_pack(FOLDER / pack)
    assert loaded.warnings == ()
    metric = build_metric(pack.partition(".")[0], pack=loaded)
    chat = ScriptedChat(lambda _: reply)
    return asyncio.run(Evaluator(metric, chat).judge(task_for(metric, **event))), chat
