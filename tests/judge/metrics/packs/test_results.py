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
    raw = yaml.safe_dump({"messages": [{"role": "user", "content": "Rate {answer}."}], **options})
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


STRAIGHT, SWAPPED = "e-2", "e-1"
"""Ids whose SHA-256 starts with an even and with an odd byte."""


def pairwise(content: str = "First: {answer}\nSecond: {other_answer}", **options: Any) -> PromptPack:
    given = {"result": "pairwise", "messages": [{"role": "user", "content": content}]} | options
    return parse_pack(yaml.safe_dump(given).encode(), dialect="yaml", origin="p")


def compared(event_id: str, say: Any, *, other: str = "Lyon.", **options: Any) -> Scored | Unscored | Failed:
    metric = build_metric("better", pack=pairwise(**options))
    task = task_for(metric, event_id=event_id, answer="Paris.", other_answer=other)
    chat = ScriptedChat(lambda request: json.dumps(say(request.messages[-1].content)))
    return asyncio.run(Evaluator(metric, chat).judge(task))


def likes_paris(prompt: str) -> dict[str, Any]:
    return {"score": "first" if prompt.startswith("First: Paris.") else "second", "why": "It is in Paris."}


@pytest.mark.parametrize(("event_id", "first"), [(STRAIGHT, "answer"), (SWAPPED, "other")])
def test_the_better_answer_is_named_in_either_order(event_id: str, first: str) -> None:
    result = compared(event_id, likes_paris)
    assert isinstance(result, Scored), result
    assert (result.kind, result.value, result.score) == ("label", "answer", 2)
    assert result.verdict == {"score": "answer", "why": "It is in Paris.", "first": first}
    other = compared(event_id, lambda prompt: {"score": "second" if "First: P" in prompt else "first"})
    assert isinstance(other, Scored)
    assert (other.value, other.score) == ("other", 0)
    tie = compared(event_id, lambda _: {"score": "tie"})
    assert isinstance(tie, Scored)
    assert (tie.value, tie.score) == ("tie", 1)


def test_equal_answers_are_a_tie_without_a_call() -> None:

    def asked(_: str) -> dict[str, Any]:
        raise AssertionError("the judge is asked")

    result = compared(STRAIGHT, asked, other=" Paris.\n")
    assert isinstance(result, Scored)
    assert (result.value, result.score, result.judge) == ("tie", 1, None)


def test_position_bias_prefers_no_answer() -> None:
    """A judge that always says "first" prefers each answer in about half of 400 events: 200 within 5 standard
    errors of 10.
    """
    metric = build_metric("better", pack=pairwise())
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


@pytest.mark.parametrize("said", ["answer", "First", 1, True, None])
def test_a_score_that_is_no_place_is_refused(said: object) -> None:
    result = compared(STRAIGHT, lambda _: {"score": said})
    assert isinstance(result, Failed)
    assert 'one of "first", "tie", "second"' in result.detail


def test_without_another_answer_there_is_nothing_to_compare() -> None:
    result = compared(STRAIGHT, likes_paris, other=" ")
    assert isinstance(result, Unscored)
    assert result.reason == "missing_input"


@pytest.mark.parametrize("event_id", [STRAIGHT, SWAPPED])
def test_quotations_are_looked_up_in_the_order_shown(event_id: str) -> None:
    """In `quotes`, `answer` is the text that was shown in the place of the answer."""

    def quoting(prompt: str) -> dict[str, Any]:
        return {"score": "first", "span": prompt.splitlines()[0].removeprefix("First: ")}

    assert isinstance(compared(event_id, quoting, quotes={"span": "answer"}), Scored)
    assert isinstance(compared(event_id, quoting, quotes={"span": "other_answer"}), Failed)
