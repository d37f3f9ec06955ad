"""The built-in prompts: their worked examples and the rules that each must state."""

from __future__ import annotations

import re

import pytest

from judge.metric import ScoredOutcome
from judge.metrics.packs.pack import parse_pack
from judge.metrics.prompting import load_prompt
from judge.metrics.registry import build_metric
from tests.judge.built_tasks import task_for

_EXAMPLE = re.compile(r"^## Example\n\n(?P<event>.*?)\n\n(?P<reply>\{.*?\})\n", re.MULTILINE | re.DOTALL)
_TEXT = re.compile(
    r"^(?P<name>question|reference|answer|Page-\d+): (?P<text>.*?)(?=\n(?:answer|reference|Page-\d+): |\Z)",
    re.MULTILINE | re.DOTALL,
)


@pytest.mark.parametrize("kind", ["evidence", "pack"])
@pytest.mark.parametrize(
    ("name", "score"),
    [
        # 1 of 3 facts, 1 of 2 terms, organization: 5 * (1/3 * 0.7 + 0.105 + 0.09) = 2.14...
        ("coverage", 2),
        ("relevance", 3),  # 1 of 2 claims
    ],
)
def test_the_worked_example_comes_out_as_it_says(name: str, score: int, kind: str) -> None:
    """The reply of the prompt's worked example is published without a correction."""
    example = _EXAMPLE.search(load_prompt(f"{name}.{kind}"))
    assert example is not None
    texts = {match["name"]: match["text"] for match in _TEXT.finditer(example["event"])}
    shipped = parse_pack(load_prompt(f"{name}.pack").encode(), dialect="markdown", origin="shipped")
    assert shipped.warnings == ()
    metric = build_metric(name, pack=shipped if kind == "pack" else None)
    task = task_for(
        metric,
        question=texts["question"],
        answer=texts["answer"],
        reference=texts.get("reference"),
        context={page: text for page, text in texts.items() if page.startswith("Page-")} or None,
    )
    outcome = metric.interpret(task, example["reply"])
    assert isinstance(outcome, ScoredOutcome)
    assert outcome.score == score
    assert (outcome.corrections, outcome.objection) == ((), None)


@pytest.mark.parametrize("kind", ["evidence", "pack"])
@pytest.mark.parametrize("name", ["coverage", "relevance"])
def test_a_prompt_states_its_rules_and_one_example(name: str, kind: str) -> None:
    prompt = load_prompt(f"{name}.{kind}")
    for words in ("judged and nothing else", "units", "denied", "in English", "A program", "one JSON object"):
        assert words in prompt
    reply = _EXAMPLE.findall(prompt)
    assert len(reply) == 1
    assert reply[0][1].index(
        "justification" if name == "relevance" or kind == "evidence" else "rationale"
    ) < reply[0][1].index('matched": ' if (name, kind) == ("coverage", "evidence") else '"score"')
    if kind == "evidence":
        assert "at most" in prompt
