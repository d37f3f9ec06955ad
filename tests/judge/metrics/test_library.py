"""The metric library: worked examples, scores derived by hand, and verified evidence."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from judge.chat import ChatRequest
from judge.errors import JudgeConfigurationError
from judge.metric import ScoredOutcome
from judge.metrics.library import library_prompt
from judge.metrics.prompting import parse_fenced
from judge.metrics.registry import BUILT_IN, build_metric, metric_names
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


def test_only_the_system_s_messages_travel() -> None:
    task = task_for(
        build_metric("instruction_following"),
        messages=[{"role": "developer", "content": "Be brief."}, {"role": "user", "content": "Hello"}],
    )
    assert [one.content for one in task.messages or ()] == ["Be brief."]
