"""Packs whose result is a label, a number or the better of two answers."""

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
from tests.judge.tasks import task_for
from tests.places import ROOT


def pack(**options: Any) -> PromptPack:
    shown = "{answer} {other_answer}" if options.get("result") == "pairwise" else "{answer}"
    raw = yaml.safe_dump({"messages": [{"role": "user", "content": f"Rate {shown}."}], **options})
    return parse_pack(raw.encode(), dialect="yaml", origin="p")


def judged(reply: str, answer: str = "Go away, you fool.", **options: Any) -> Scored | Unscored | Failed:
    metric = build_metric("own", pack=pack(**options))
    return asyncio.run(
        Evaluator(metric, ScriptedChat(lambda _: reply)).judge(task_for(metric, answer=answer))
    )


def test_a_built_in_metric_has_no_choice() -> None:
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


def test_position_bias_prefers_no_answer() -> None:
    """A judge that always says "first" prefers each answer in about half of 400 events: 200 within 5 standard
    errors of 10.
    """
    metric = build_metric("better", pack=pack(result="pairwise"))
    values = []
    for number in range(400):
        outcome = metric.interpret(
            task_for(metric, event_id=f"e-{number}", other_answer="o"), '{"score": "first"}'
        )
        values.append(getattr(outcome, "value", None))
    assert abs(values.count("answer") - 200) <= 50
    assert values.count("answer") + values.count("other") == 400


def test_the_documented_pack_can_be_used() -> None:
    text = (ROOT / "docs" / "prompt-packs.md").read_text(encoding="utf-8")
    found = text.partition("<!-- example: pairs -->\n```markdown\n")[2].partition("```\n")[0]
    documented = parse_pack(found.encode(), dialect="markdown", origin="docs")
    assert documented.options.is_pair
    assert documented.uses == {"question", "answer", "other_answer"}
