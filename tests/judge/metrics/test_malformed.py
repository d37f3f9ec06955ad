"""Malformed replies give the score that they unambiguously state, or none."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping

import pytest

from judge.endpoints.clients import ScriptedChat
from judge.evaluate.evaluator import Evaluator
from judge.metric import Metric
from judge.metrics.coverage import Coverage
from judge.metrics.packs.metric import PackMetric
from judge.metrics.packs.pack import parse_pack
from judge.metrics.relevance import Relevance
from schemas import Failed, Scored, Unscored
from tests.judge.built_tasks import task_for

PACK = parse_pack(b"messages:\n- {role: user, content: 'Rate {answer}'}\n", dialect="yaml", origin="p")
LINES = [
    "Fact: 2 of 2 facts correctly matched.",
    "Conclusion: 0 of 0 conclusions correctly matched.",
    "Terminology: 1 of 1 terms correctly matched.",
    "Organization: matched",
    "Score: 5",
]
METRICS: Mapping[str, Metric] = {
    "own": PackMetric("own", PACK, score_range=(0, 10)),
    "coverage": Coverage(pack=PACK),
    "relevance": Relevance(pack=PACK),
}
TEXTS = {
    "question": "Where is the tower, and how tall is it?",
    "answer": "The tower is in Paris. [Page 1]\nThe tower is 330 metres tall. [Page 1]",
    "reference": "The tower is in Paris. The tower is 330 metres tall.",
    "context": {"Page-1": "The tower is in Paris. The tower is 330 metres tall."},
}


def verdict(score: object = 5, **more: object) -> str:
    return json.dumps({"score": score, "justification": "So it is.", "rationale": LINES, **more})


GOOD = verdict()
# Each with the score that it states; None: none can be read.
KINDS: Mapping[str, tuple[str, int | None]] = {
    "empty": ("", None),
    "white space": (" \n\t", None),
    "a number alone": ("5", None),
    "prose": ("I give it five out of five.", None),
    "null": ("null", None),
    "a list of numbers": ("[5]", None),
    "an object without a score": ('{"points": 5}', None),
    "the score under another key's object": ('{"verdict": {"score": 5}}', None),
    "a capital key": ('{"Score": 5}', None),
    "cut in the middle": (GOOD[: len(GOOD) // 2], None),
    "cut before the last brace": (GOOD[:-1], None),
    "cut, with an inner object": ('{"inner": {"score": 2}, "score": 5', None),
    "broken, with an inner object": ('{"score": 5, "inner": {"score": 2}, broken}', None),
    "two that differ": (f"{verdict(4)} or rather {GOOD}", None),
    "the answer's own verdict is quoted first": (f'It says {{"score": 9}}. {GOOD}', None),
    "and last": (f'{GOOD} although it says {{"score": 9}}', None),
    "two lists that differ": (f"[{verdict(4)}, {GOOD}]", None),
    "a key twice": (GOOD[:-1] + ', "score": 1}', None),
    "thoughts without an end that differ": (f"<think>{verdict(2)} hm, {GOOD}", None),
    "a fraction": (verdict("5/5"), None),
    "a word": (verdict("five"), None),
    "half a point": (verdict(4.5), None),
    "a truth value": (verdict(score=True), None),
    "nothing": (verdict(None), None),
    "a list": (verdict([5]), None),
    "an object as the score": (verdict({"value": 5}), None),
    "below the range": (verdict(-1), None),
    "above the range": (verdict(11), None),
    "percent": (verdict("100%"), None),
    "NaN": (GOOD.replace('"score": 5', '"score": NaN'), None),
    "infinite": (GOOD.replace('"score": 5', '"score": 1e999'), None),
    "a number of 5,000 digits": (GOOD.replace('"score": 5', f'"score": {"5" * 5000}'), None),
    "out of": (GOOD.replace('"score": 5', '"score": 5 out of 5'), None),
    "a comma for the point": (GOOD.replace('"score": 5', '"score": 4,5'), None),
    "a placeholder": (GOOD.replace('"score": 5', '"score": <1-5>'), None),
    "a leading zero": (GOOD.replace('"score": 5', '"score": 05'), None),
    "quotes within quotes": (GOOD.replace("So it is.", 'So "it" is.'), None),
    "nested too deeply": (GOOD[:-1] + ', "x": ' + "[" * 100 + "]" * 100 + "}", None),
    "a line break in a key": ('{"sco\nre": 5}', None),
    "one good": (GOOD, 5),
    "a code fence": (f"```json\n{GOOD}\n```", 5),
    "prose around it": (f"Thinking {{about braces}}, I say: {GOOD} That is all.", 5),
    "the same twice": (f"{GOOD}\n{GOOD}", 5),
    "a list of one": (f"[{GOOD}]", 5),
    "thoughts with another": (f"<think>{verdict(2)}</think>{GOOD}", 5),
    "a byte order mark": ("\ufeff" + GOOD, 5),
    "a trailing comma": (GOOD[:-1] + ",}", 5),
    "a Python dict": (str({"score": 5, "justification": "it's", "rationale": LINES, "x": None}), None),
    "names without quotes": (GOOD.replace('"score"', "score"), None),
    "a line break in a text": (GOOD.replace("So it is.", "So it\nis."), 5),
    "doubled braces": ("{" + GOOD + "}", 5),
    "a decimal": (verdict(5.0), 5),
    "a quoted number": (verdict("5"), 5),
    "a quoted decimal": (verdict(" 5.0 "), 5),
    "an exponent": (GOOD.replace('"score": 5', '"score": 5e0'), 5),
    "a lone surrogate": (GOOD.replace("So it is.", "So \\ud800 is."), 5),
    "a tool call": ('{"name": "submit", "arguments": ' + GOOD + "}", 5),
    "further keys": (verdict(confidence=0.9, details=[{"score": 2}]), 5),
}  # fmt: skip


@pytest.mark.parametrize("name", METRICS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_malformed_reply_gives_no_wrong_score(kind: str, name: str) -> None:
    """An unambiguous reply is read; any other fails, also after a repair turn."""
    metric = METRICS[name]
    reply, meant = KINDS[kind]
    result = asyncio.run(Evaluator(metric, ScriptedChat(lambda _: reply)).judge(task_for(metric, **TEXTS)))  # type: ignore[arg-type]  # texts as named
    if meant is None:
        assert isinstance(result, Failed), result
        assert result.error_type == "invalid_verdict"
    else:
        assert isinstance(result, Scored), result
        assert result.score == result.verdict["score"] == meant


def test_there_are_enough_kinds() -> None:
    """At least 38 kinds give no score."""
    assert sum(meant is None for _, meant in KINDS.values()) >= 38


def _coverage(*replies: str) -> tuple[Scored | Unscored | Failed, ScriptedChat]:
    chat = ScriptedChat(replies)
    metric = METRICS["coverage"]
    return asyncio.run(Evaluator(metric, chat).judge(task_for(metric, **TEXTS))), chat  # type: ignore[arg-type]  # texts as named


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
    """The repair turn states the score of the counts; if that fails, the formula decides."""
    result, chat = _coverage(verdict(3), second)
    assert isinstance(result, Scored)
    assert (result.score, [one.kind for one in result.corrections]) == (score, kinds)
    assert len(chat.requests) == 2
    assert (
        "the score is 3, but the counts of the rationale give 5, rounded 5"
        in chat.requests[1].messages[-1].content
    )
