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
from judge.metrics.base import score_on
from judge.metrics.packs.pack import PromptPack, parse_pack
from judge.metrics.registry import build_metric
from judge.metrics.scale import read_scale
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
    ("options", "said", "score", "kind", "score_range"),
    [
        ({"result": "boolean"}, True, 1, "boolean", (0, 1)),
        ({"result": "boolean"}, False, 0, "boolean", (0, 1)),
        ({"result": "boolean", "good": False}, True, 0, "boolean", (0, 1)),
        ({"result": "boolean", "good": False}, False, 1, "boolean", (0, 1)),
        ({"result": ["answered", "partly", "refused"]}, "answered", 2, "label", (0, 2)),
        ({"result": ["answered", "partly", "refused"]}, "refused", 0, "label", (0, 2)),
        ({"result": {"answered": 5, "deflected": 1, "refused": 1}}, "deflected", 1, "label", (1, 5)),
    ],
)
def test_a_choice_has_a_number(
    options: dict[str, Any], said: object, score: int, kind: str, score_range: tuple[int, int]
) -> None:
    """The score of a choice grows with its quality; the choice itself is `value`."""
    result = judged(json.dumps({"score": said}), **options)
    assert isinstance(result, Scored), result
    assert (result.score, result.kind, result.value, result.verdict) == (score, kind, said, {"score": said})
    assert build_metric("own", pack=pack(**options)).score_range == score_range


@pytest.mark.parametrize(
    ("said", "number", "score", "exact"),
    [
        (0.73, 0.73, 1, "0.73"),
        ("0.25", 0.25, 0, "0.25"),
        (1, 1.0, 1, "1.0"),
        (0.00001, 0.00001, 0, "0.00001"),
        (0.1234567, 0.123457, 0, "0.123457"),  # rounded to six decimals
    ],
)
def test_a_number_has_a_rounded_score(said: object, number: float, score: int, exact: str) -> None:
    """`value` is the number to six decimals, `score` the nearest integer."""
    result = judged(json.dumps({"score": said}), result="number", score_range=[0, 1])
    assert isinstance(result, Scored), result
    assert (result.kind, result.value, result.score, result.score_exact) == ("number", number, score, exact)
    assert (result.amount, result.shown) == (number, f"{number:.6g}")


@pytest.mark.parametrize("said", [1.01, -0.1, True, "much", None, "1e400", [0.5]])
def test_a_number_outside_the_scale_is_refused(said: object) -> None:
    """The error names the scale."""
    result = judged(json.dumps({"score": said}), result="number", score_range=[0, 1])
    assert isinstance(result, Failed)
    assert '"score" must be a number from 0 to 1' in result.detail


@pytest.mark.parametrize("said", [1, 0, "true", "yes", None, "Answered", 1.0, ["answered"]])
def test_an_unknown_choice_is_refused(said: object) -> None:
    """The error names the choices; 1 is not accepted as true."""
    boolean, labels = read_scale("boolean", (0, 1)), read_scale(["answered", "refused"], (0, 1))
    with pytest.raises(InvalidVerdictError, match="one of true, false"):
        score_on(boolean, said)
    with pytest.raises(InvalidVerdictError, match='one of "answered", "refused"'):
        score_on(labels, said)


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
    """The error names the invalid option or its valid values."""
    with pytest.raises(PromptPackError, match=told):
        pack(**options)


TOXIC: dict[str, Any] = {"result": "boolean", "good": False, "quotes": {"answer_span": "answer"}}


@pytest.mark.parametrize(
    ("verdict", "score"),
    [
        ({"score": True, "answer_span": "you fool"}, 0),
        ({"score": True, "findings": [{"answer_span": "YOU  FOOL."}]}, 0),
        ({"score": False, "answer_span": None}, 1),
        ({"score": False}, 1),
        ({"score": True, "answer_span": "you idiot"}, None),  # not in the answer
        ({"score": True, "answer_span": None}, None),  # a bad verdict needs a quotation
        ({"score": True, "answer_span": 5}, None),
        ({"score": False, "findings": [{"answer_span": "fool"}, {"answer_span": "idiot"}]}, None),
    ],
)
def test_quotations_must_stand_in_their_text(verdict: dict[str, Any], score: int | None) -> None:
    """A quotation at any depth must occur in its text, or the verdict is invalid."""
    result = judged(json.dumps(verdict), **TOXIC)
    if score is None:
        assert isinstance(result, Failed)
        assert result.error_type == "invalid_verdict"
    else:
        assert isinstance(result, Scored), result
        assert result.score == score


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
