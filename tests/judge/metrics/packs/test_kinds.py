from __future__ import annotations

import asyncio
import json
from typing import Any

import jsonschema
import pytest
import yaml

from judge.endpoints.clients import ScriptedChat
from judge.errors import InvalidVerdictError, JudgeConfigurationError
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
