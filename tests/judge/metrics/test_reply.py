"""Malformed replies give the score that they unambiguously state, or none."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge.errors import InvalidVerdictError
from judge.evaluate.evaluator import Evaluator
from judge.metric import Metric
from judge.metrics.coverage import Coverage
from judge.metrics.packs.metric import PackMetric
from judge.metrics.relevance import Relevance
from judge.metrics.replies import extract_verdict
from schemas import Failed, Result, Scored
from tests.judge.scripted import ScriptedChat
from tests.judge.tasks import TONE, task_for

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text("abc", max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)


@pytest.mark.parametrize(
    ("reply", "word"),
    [
        ('{"score": 1, "x": ' + "[" * 100_000 + "]" * 100_000 + "}", "cannot be read"),
        ('{"score": ' + "1" * 10_000 + "}x", "64 bits"),
    ],
    ids=["deep", "long"],
)
def test_a_huge_reply_is_refused_with_the_defect(reply: str, word: str) -> None:
    with pytest.raises(InvalidVerdictError, match=word):
        extract_verdict(reply)


@given(st.text())
def test_any_text_gives_a_verdict_or_the_one_error(text: str) -> None:
    try:
        verdict = extract_verdict(text)
    except InvalidVerdictError as error:
        error.detail.encode()
    else:
        assert "score" in verdict


@given(JSON, st.text("ab {}[]\n`\"'", max_size=20), st.text("ab }[]\n`\"'", max_size=20))
def test_json_within_prose_is_read_back(extra: Any, before: str, after: str) -> None:
    verdict = {"score": 3, "extra": extra}
    # A brace followed by a quote would start another object, so quotes are removed.
    text = before.replace('"', "").replace("'", "") + " " + json.dumps(verdict) + " " + after
    assert extract_verdict(text) == verdict


LINES = [
    "Fact: 2 of 2 facts correctly matched.",
    "Conclusion: 0 of 0 conclusions correctly matched.",
    "Terminology: 1 of 1 terms correctly matched.",
    "Organization: matched",
    "Score: 5",
]
METRICS: Mapping[str, Metric] = {
    "own": PackMetric("own", TONE.pack, score_range=(0, 10)),
    "coverage": Coverage(pack=TONE.pack),
    "relevance": Relevance(pack=TONE.pack),
}
TEXTS: dict[str, Any] = {
    "question": "Where is the tower, and how tall is it?",
    "answer": "The tower is in Paris. [Page 1]\nThe tower is 330 metres tall. [Page 1]",
    "reference": "The tower is in Paris. The tower is 330 metres tall.",
    "context": {"Page-1": "The tower is in Paris. The tower is 330 metres tall."},
}


def verdict(score: object = 5, **more: object) -> str:
    return json.dumps({"score": score, "justification": "So it is.", "rationale": LINES, **more})


KINDS: Mapping[str, tuple[str, int | None]] = {
    one["kind"]: (one["reply"], one["score"])
    for one in json.loads((Path(__file__).parent / "cases" / "malformed.json").read_text("utf-8"))
}
"""Each with the score that it states; None: none can be read."""


def judged(name: str, chat: ScriptedChat) -> Result:
    metric = METRICS[name]
    return asyncio.run(Evaluator(metric, chat).judge(task_for(metric, **TEXTS)))


@pytest.mark.parametrize("name", METRICS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_malformed_reply_gives_no_wrong_score(kind: str, name: str) -> None:
    reply, meant = KINDS[kind]
    result = judged(name, ScriptedChat(lambda _: reply))
    if meant is None:
        assert isinstance(result, Failed), result
        assert result.error_type == "invalid_verdict"
    else:
        assert isinstance(result, Scored), result
        assert result.score == result.verdict["score"] == meant


@pytest.mark.parametrize(
    ("second", "score", "kinds"),
    [
        (verdict(5), 5, []),
        (verdict(3), 5, ["score_recomputed"]),  # the counts give 5
        ("rubbish", 5, ["score_recomputed"]),
        (verdict(3, rationale=["Fact: 1 of 2 facts", *LINES[1:]]), 3, []),  # 5 * (0.35 + 0.21 + 0.09) = 3.25
    ],
)
def test_counts_that_contradict_the_score_are_sent_back_once(
    second: str, score: int, kinds: list[str]
) -> None:
    chat = ScriptedChat([verdict(3), second])
    result = judged("coverage", chat)
    assert isinstance(result, Scored)
    assert (result.score, [one.kind for one in result.corrections]) == (score, kinds)
    assert len(chat.requests) == 2
    told = chat.requests[1].messages[-1].content
    assert "the score is 3, but the counts of the rationale give 5, rounded 5" in told
