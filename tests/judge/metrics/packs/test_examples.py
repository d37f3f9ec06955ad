from __future__ import annotations

import json
import re
from typing import Any

import pytest
import yaml

from judge.errors import PromptPackError
from judge.metric import Inputs
from judge.metrics.packs.pack import PromptPack, parse_pack
from tests.places import ROOT

MANUAL = ROOT / "docs" / "prompt-packs.md"
INPUTS = Inputs("why?", "because", "reason", {"Page-1": "one"})


def _manual(dialect: str) -> PromptPack:
    text = MANUAL.read_text("utf-8")
    found = re.search(rf"<!-- example: {dialect} -->\n```{dialect}\n(.*?)```\n", text, re.DOTALL)
    assert found is not None
    return parse_pack(found[1].encode(), dialect=dialect, origin="manual")  # type: ignore[arg-type] # one of the two


def _pack(examples: Any, *, user: str = "Q: {question} A: {answer}", **options: Any) -> PromptPack:
    messages = [{"role": "system", "content": "Judge."}, {"role": "user", "content": user}]
    raw = yaml.safe_dump({"messages": messages, "examples": examples, **options})
    return parse_pack(raw.encode(), dialect="yaml", origin="p.yaml")


@pytest.mark.parametrize(("dialect", "turns"), [("markdown", 6), ("yaml", 4)])
def test_the_examples_of_the_manual_are_packs(dialect: str, turns: int) -> None:
    pack = _manual(dialect)
    assert pack.warnings == ()
    assert pack.score_range is not None
    assert pack.response_schema is not None
    messages = pack.render(INPUTS)
    assert len(messages) == turns  # system, two for each example, event
    assert '{"' in messages[0].content
    assert all(json.loads(message.content)["score"] for message in messages if message.role == "assistant")


def test_examples_go_between_instructions_and_event() -> None:
    """Each example becomes a user turn from the template and an assistant turn with its reply."""
    pack = _pack(
        [
            {"input": "x?", "output_text": "y", "reply": {"score": 2}},
            {"question": "u?", "answer": "v", "reply": '{"score": 3}'},
        ]
    )
    assert [(message.role, message.content) for message in pack.render(INPUTS)] == [
        ("system", "Judge."),
        ("user", "Q: x? A: y"),
        ("assistant", '{"score": 2}'),
        ("user", "Q: u? A: v"),
        ("assistant", '{"score": 3}'),
        ("user", "Q: why? A: because"),
    ]


def test_an_example_fills_in_nothing_else() -> None:
    pack = _pack([{"question": "{answer}", "answer": "{question}", "reply": {"score": 1}}])
    assert pack.render(INPUTS)[1].content == "Q: {answer} A: {question}"


def test_examples_change_the_hash_and_only_they() -> None:
    one = _pack([{"question": "q", "answer": "a", "reply": {"score": 1}}])
    other = _pack([{"question": "q", "answer": "a", "reply": {"score": 2}}])
    assert len({one.hash, other.hash, _pack([]).hash}) == 3
    assert _pack([]).hash == _pack(None).hash


def test_an_example_has_pages() -> None:
    pack = _pack(
        [
            {"answer": "a", "context": {"Page-7": "seven"}, "reply": {"score": 1}},
            {"answer": "a", "context": "one", "reply": {"score": 1}},
        ],
        user="{answer} {context}",
    )
    assert [message.content for message in pack.render(INPUTS)[1:4:2]] == [
        'a {\n "Page-7": "seven"\n}',
        'a {\n "Page-1": "one"\n}',
    ]
    with pytest.raises(PromptPackError, match="context: input should be a valid dictionary"):
        _pack([{"answer": "a", "context": [1], "reply": {"score": 1}}], user="{answer} {context}")


def test_an_examples_reply_keeps_to_the_schema() -> None:
    schema = {
        "type": "object",
        "properties": {"score": {"type": "integer"}, "why": {"type": "string"}},
        "required": ["score", "why"],
    }
    with pytest.raises(PromptPackError, match="'why' is a required property"):
        _pack([{"question": "q", "answer": "a", "reply": {"score": 1}}], response_schema=schema)
