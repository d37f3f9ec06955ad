from __future__ import annotations

import asyncio
import json
from typing import Any

import jsonschema
import pytest
import yaml

from judge.endpoints.clients import ScriptedChat
from judge.errors import InvalidVerdictError, JudgeConfigurationError, PromptPackError
from judge.evaluate.evaluator import Evaluator
from judge.metrics.packs.metric import MAX_VERDICT_BYTES, PackMetric
from judge.metrics.packs.pack import PromptPack, parse_pack
from judge.metrics.registry import build_metric
from schemas import RESULT, Failed, Scored, Unscored
from tests.judge.built_tasks import task_for
from tests.places import ROOT


def pack(**options: Any) -> PromptPack:
    raw = yaml.safe_dump({"messages": [{"role": "user", "content": "Rate {answer}."}], **options})
    return parse_pack(raw.encode(), dialect="yaml", origin="p")


def judged(reply: str, answer: str = "Go away, you fool.", **options: Any) -> Scored | Unscored | Failed:
    metric = build_metric("own", pack=pack(**options))
    return asyncio.run(
        Evaluator(metric, ScriptedChat(lambda _: reply)).judge(task_for(metric, answer=answer))
    )


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"result": "numbers"}, "result must be number, boolean"),
        ({"result": "number", "score_range": [-1, 1]}, "within 0.."),
        ({"score_range": [-1, 1]}, "within 0.."),
        ({"result": "number", "score_range": [1, 1]}, "from a lower to a higher"),
        ({"result": "number", "score_range": [0, 1e10]}, "within 0..1e"),
        ({"result": "number", "score_range": [False, True]}, "from a lower to a higher"),
        ({"result": "number", "score_range": [0, 1], "good": True}, "good"),
        ({"result": ["one"]}, "2 to 20"),
        ({"result": ["one", "one"]}, "different labels"),
        ({"result": ["one", 2]}, "different labels"),
        ({"result": {"one": 1, "two": 1}}, "two different numbers"),
        ({"result": {"one": 1, "two": 2.5}}, "must be whole"),
        ({"result": {"one": 1, "two": -1}}, "from 0 to 100"),
        ({"result": {"one": 1, " ": 2}}, "a label must be"),
        ({"result": [True, False]}, 'put it in quotes \\("yes", "no"\\)'),
        ({"result": {"maybe": 1, False: 0}}, "YAML reads as true or false"),
        ({"result": "boolean", "good": "no"}, "good must be true or false"),
        ({"result": ["one", "two"], "good": True}, "good is for"),
        ({"good": True, "score_range": [1, 5]}, "good needs"),
        ({"result": "boolean", "score_range": [0, 1]}, "exclude each other"),
        ({"result": "boolean", "examples": [{"answer": "a", "reply": {"score": 1}}]}, "one of true, false"),
        ({"quotes": ["span"]}, "quotes: input should be a valid dictionary"),
        ({"quotes": {"span": "page"}}, "question, answer, reference, context"),
    ],
)
def test_options_that_cannot_be_used_are_errors(options: dict[str, Any], told: str) -> None:
    with pytest.raises(PromptPackError, match=told):
        pack(**options)


def test_a_built_in_metric_has_no_choice() -> None:
    """A pack for coverage or relevance cannot set `result`."""
    with pytest.raises(JudgeConfigurationError, match="result"):
        build_metric("coverage", pack=pack(result="boolean"))


def test_readers_of_version_1_read_them() -> None:
    """Results of every kind conform to the released schema, with an integer `score`."""
    released = json.loads((ROOT / "schemas" / "released" / "result.v1.schema.json").read_text("utf-8"))
    cases: list[tuple[dict[str, Any], object]] = [
        ({"result": "boolean"}, True),
        ({"result": ["good", "bad"]}, "bad"),
        ({"score_range": [1, 5]}, 3),
    ]
    for options, said in cases:
        result = judged(json.dumps({"score": said}), **options)
        written = json.loads(RESULT.dump_json(result, by_alias=True))
        jsonschema.Draft202012Validator(released).validate(written)
        assert type(written["score"]) is int
        assert RESULT.validate_python(written) == result


def test_a_verdict_has_a_bounded_size() -> None:
    metric = PackMetric("tone", pack(), score_range=(1, 5))
    with pytest.raises(InvalidVerdictError, match="at most 65536 bytes"):
        metric.interpret(task_for(metric), json.dumps({"score": 1, "more": "x" * MAX_VERDICT_BYTES}))
