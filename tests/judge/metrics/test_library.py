"""The metric library: worked examples, scores derived by hand, and verified evidence."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

import pytest

from judge.chat import ChatRequest
from judge.endpoints.clients import ScriptedChat
from judge.errors import InvalidVerdictError, JudgeConfigurationError
from judge.evaluate.evaluator import Evaluator
from judge.metric import ScoredOutcome, UnscoredOutcome
from judge.metrics.library import library_prompt
from judge.metrics.prompting import parse_fenced
from judge.metrics.registry import BUILT_IN, build_metric, metric_names
from schemas import Failed, Scored, Unscored
from tests.judge.built_tasks import task_for

LIBRARY = metric_names()[len(BUILT_IN) :]
_EXAMPLE = re.compile(r"^## Example\n\n(?P<event>.*?)\n\n(?P<reply>\{.*?\})\n", re.MULTILINE | re.DOTALL)
_TEXT = re.compile(
    r"^(?P<name>question|answer|context|instructions): (?P<text>.*?)(?=\n(?:question|answer|context): |\Z)",
    re.MULTILINE | re.DOTALL,
)

EVENT: dict[str, Any] = {
    "question": "How long is Lake Orrin, and is it safe to swim in it?",
    "answer": "Lake Orrin is 28 kilometres long. Swimming in it is safe.",
    "context": {
        "guide": "Lake Orrin is 28 kilometres long. Swimming is safe at nine baths.",
        "boats": "Boats leave at nine.",
    },
    "messages": [{"role": "system", "content": "Answer in English. Never name prices."}],
}


@pytest.mark.parametrize(
    ("name", "score", "value"),
    [
        ("faithfulness", 3, None),  # one of two claims
        ("answer_relevance", 2, None),
        ("completeness", 3, None),  # one of two parts
        ("refusal", 0, "refused"),
        ("tone", 2, None),
        ("toxicity", 0, True),  # true is the bad one
        ("pii_leak", 0, True),
        ("instruction_following", 1, None),  # none of two rules
        ("context_relevance", 3, None),  # one of two texts
        ("hallucinated_citation", 0, True),
    ],
)
def test_the_worked_example_comes_out_as_it_says(name: str, score: int, value: object) -> None:
    """The reply of the prompt's worked example is published without a correction."""
    prompt = library_prompt(name)
    example = _EXAMPLE.search(prompt.instructions)
    assert example is not None
    texts = {match["name"]: match["text"] for match in _TEXT.finditer(example["event"])}
    metric = build_metric(name)
    context = json.loads(texts["context"]) if "context" in texts else None
    task = task_for(
        metric,
        question=texts.get("question", "q"),
        answer=texts.get("answer", "a"),
        context=context,
        messages=[{"role": "system", "content": texts.get("instructions", "")}],
    )
    outcome = metric.interpret(task, example["reply"])
    assert isinstance(outcome, ScoredOutcome)
    assert (outcome.score, outcome.value, outcome.corrections, outcome.objection) == (score, value, (), None)


@pytest.mark.parametrize("name", LIBRARY)
def test_fabricated_evidence_is_refused(name: str) -> None:
    """A fabricated quotation is sent back or does not count."""
    prompt = library_prompt(name)
    example = _EXAMPLE.search(prompt.instructions)
    assert example is not None
    reply = json.loads(example["reply"])
    items = reply[prompt.counts.list] if prompt.counts is not None else [reply]
    for item in items:
        # In a list, every item with a quotation.
        keys = [key for key in prompt.quotes if item[key] is not None]
        item.update(dict.fromkeys(keys, "Words that stand nowhere at all."))
    metric = build_metric(name)
    task = task_for(metric, **EVENT)
    if prompt.counts is None:
        with pytest.raises(InvalidVerdictError, match="copy each"):
            metric.interpret(task, json.dumps(reply))
        return
    outcome = metric.interpret(task, json.dumps(reply))
    assert len(outcome.corrections) >= len(items)
    assert getattr(outcome, "score", 1) == 1  # no item is upheld


@pytest.mark.parametrize("name", LIBRARY)
def test_a_library_metric_is_built_by_name(name: str) -> None:
    """A library metric fences its texts, sends a strict schema and fixes range and mode."""
    metric = build_metric(name)
    assert metric.name == name
    request = metric.prepare(task_for(metric, **EVENT))
    assert isinstance(request, ChatRequest)
    assert tuple(parse_fenced(request.messages[1].content)) == library_prompt(name).uses
    assert request.response_schema is not None
    assert request.response_schema.schema["additionalProperties"] is False
    prompt = " ".join(request.messages[0].content.split()).casefold()
    for words in ("judged and nothing else", "in english", "a program", "number", "den"):
        assert words in prompt
    with pytest.raises(JudgeConfigurationError, match="by definition"):
        build_metric(name, score_range=(0, 99))


@pytest.mark.parametrize("name", LIBRARY)
def test_a_missing_text_leaves_nothing_to_judge(name: str) -> None:
    """A blank text that the metric uses is `missing_input`."""
    metric = build_metric(name)
    for text in library_prompt(name).uses:
        blank: dict[str, Any] = {text: " "}
        if text == "context":
            blank = {"context": {"guide": " "}}
        if text == "instructions":
            blank = {"messages": [{"role": "user", "content": "Answer in English."}]}
        assert metric.prepare(task_for(metric, **(EVENT | blank))) == UnscoredOutcome("missing_input")


def judged(name: str, reply: object, **texts: Any) -> Scored | Unscored | Failed:
    metric = build_metric(name)
    written = reply if isinstance(reply, str) else json.dumps(reply)
    judge = Evaluator(metric, ScriptedChat(lambda _: written))
    return asyncio.run(judge.judge(task_for(metric, **{**EVENT, **texts})))


def claim(span: str, source: str | None, *, supported: bool = True) -> dict[str, Any]:
    return {"claim_span": span, "context_span": source, "justification": "So it is.", "supported": supported}


LONG = claim("Lake Orrin is 28 kilometres long.", "Lake Orrin is 28 kilometres long.")
SAFE = claim("Swimming in it is safe.", "Swimming is safe at nine baths.")


@pytest.mark.parametrize(
    ("claims", "answer", "score", "kinds"),
    [
        ([LONG, SAFE], None, 5, []),
        ([LONG, claim("Swimming in it is safe.", None, supported=False)], None, 3, []),  # one of two
        # An invented source supports nothing.
        ([LONG, claim("Swimming in it is safe.", "It is very safe to swim.")], None, 3, ["span_not_in_page"]),
        ([LONG, claim("Swimming in it is safe.", None)], None, 3, ["span_not_in_page"]),
        # An invented claim is not counted.
        ([LONG, claim("It is deep.", "Boats leave at nine.")], None, 5, ["span_not_in_answer"]),
        ([LONG, LONG], None, 5, ["duplicate_item"]),
        ([LONG, {**LONG, "supported": False}], None, 1, ["duplicate_item"]),
        # 82 contradicts 28.
        (
            [{**LONG, "claim_span": "Lake Orrin is 82 kilometres long."}],
            "Lake Orrin is 82 kilometres long.",
            1,
            ["numbers_differ"],
        ),
    ],
)
def test_faithfulness_by_hand(
    claims: list[dict[str, Any]], answer: str | None, score: int, kinds: list[str]
) -> None:
    """All claims supported: 5; more than 3 in 5: 4; 2 in 5: 3; any: 2; none: 1. Fabricated evidence supports
    nothing.
    """
    result = judged("faithfulness", {"claims": claims}, **({} if answer is None else {"answer": answer}))
    assert isinstance(result, Scored), result
    assert (result.score, [one.kind for one in result.corrections]) == (score, kinds)


def test_no_claims_are_no_score() -> None:
    """A reply without claims is unscored."""
    result = judged("faithfulness", {"claims": []})
    assert isinstance(result, Unscored)
    assert result.reason == "no_claims"


def rule(span: str, words: str | None, *, followed: bool) -> dict[str, Any]:
    return {
        "instruction_span": span,
        "answer_span": words,
        "justification": "So it is.",
        "followed": followed,
    }


ENGLISH = rule("Answer in English.", "Lake Orrin", followed=True)


@pytest.mark.parametrize(
    ("rules", "score", "kinds"),
    [
        ([ENGLISH, rule("Never name prices.", None, followed=True)], 5, []),  # followed by leaving it out
        ([ENGLISH, rule("Never name prices.", "28 kilometres", followed=False)], 3, []),  # one of two
        ([ENGLISH, rule("Never name prices.", None, followed=False)], 3, []),
        # A fabricated quotation shows neither a breach nor compliance.
        ([ENGLISH, rule("Never name prices.", "12 euros", followed=False)], 5, ["span_not_in_page"]),
        ([ENGLISH, rule("Never name prices.", "no 12 euros", followed=True)], 3, ["span_not_in_page"]),
        # A fabricated rule is not counted.
        ([ENGLISH, rule("Be brief.", None, followed=False)], 5, ["span_not_in_answer"]),
    ],
)
def test_instruction_following_by_hand(rules: list[dict[str, Any]], score: int, kinds: list[str]) -> None:
    """Rules are verified against the system message, their quotations against the answer."""
    result = judged("instruction_following", {"rules": rules})
    assert isinstance(result, Scored), result
    assert (result.score, [one.kind for one in result.corrections]) == (score, kinds)


def test_only_the_system_s_messages_travel() -> None:
    """Instruction following selects only system and developer messages."""
    task = task_for(
        build_metric("instruction_following"),
        messages=[{"role": "developer", "content": "Be brief."}, {"role": "user", "content": "Hello"}],
    )
    assert [one.content for one in task.messages or ()] == ["Be brief."]


def test_every_text_counts_for_context_relevance() -> None:
    """An omitted text counts as irrelevant (1 of 2 is about half); an unknown name is not counted."""
    guide = {
        "name": "guide",
        "context_span": "28 kilometres long",
        "justification": "The length.",
        "relevant": True,
    }
    result = judged("context_relevance", {"texts": [guide]})
    assert isinstance(result, Scored)
    assert (result.score, [one.kind for one in result.corrections]) == (3, ["text_not_listed"])
    # A quotation from another text does not count.
    boats = {**guide, "name": "boats"}
    result = judged("context_relevance", {"texts": [boats, {**guide, "name": "atlas"}]})
    assert isinstance(result, Scored)
    assert result.score == 1


@pytest.mark.parametrize(
    ("name", "reply", "score", "value"),
    [
        (
            "refusal",
            {"answer_span": "Lake Orrin is 28 kilometres long.", "justification": "x", "score": "answered"},
            3,
            "answered",
        ),
        ("refusal", {"answer_span": None, "justification": "x", "score": "deflected"}, 1, "deflected"),
        ("refusal", {"answer_span": "I cannot say.", "justification": "x", "score": "refused"}, None, None),
        ("refusal", {"answer_span": None, "justification": "x", "score": "silent"}, None, None),
        ("toxicity", {"answer_span": None, "justification": "x", "score": False}, 1, False),
        ("toxicity", {"answer_span": None, "justification": "x", "score": True}, None, None),
        ("toxicity", {"answer_span": "you fool", "justification": "x", "score": True}, None, None),
        ("pii_leak", {"answer_span": "28 kilometres", "justification": "x", "score": True}, 0, True),
        ("tone", {"answer_span": None, "justification": "x", "score": "4"}, 4, None),
        ("tone", {"answer_span": None, "justification": None, "score": 4}, None, None),
        ("answer_relevance", {"answer_span": "28 km", "justification": "x", "score": 6}, None, None),
        (
            "hallucinated_citation",
            {"answer_span": "[Page 9]", "justification": "x", "score": True},
            None,
            None,
        ),
    ],
)
def test_decisions_need_their_words(
    name: str, reply: dict[str, Any], score: int | None, value: object
) -> None:
    """A decision needs a quotation that is in the answer, or it is invalid."""
    result = judged(name, reply)
    if score is None:
        assert isinstance(result, Failed)
        assert result.error_type == "invalid_verdict"
    else:
        assert isinstance(result, Scored), result
        assert (result.score, result.value) == (score, value)


@pytest.mark.parametrize("name", LIBRARY)
@pytest.mark.parametrize(
    "reply",
    [
        "",
        "{}",
        '{"claims": 5}',
        '{"claims": [5], "parts": [{}], "texts": [{"relevant": 1}]}',
        '{"score": null}',
    ],
)
def test_a_malformed_reply_gives_no_score(name: str, reply: str) -> None:
    """Malformed replies fail."""
    assert isinstance(judged(name, reply), Failed)
