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


def test_examples_change_the_hash_and_only_they() -> None:
    one = _pack([{"question": "q", "answer": "a", "reply": {"score": 1}}])
    other = _pack([{"question": "q", "answer": "a", "reply": {"score": 2}}])
    assert len({one.hash, other.hash, _pack([]).hash}) == 3
    assert _pack([]).hash == _pack(None).hash


def test_an_examples_reply_keeps_to_the_schema() -> None:
    schema = {
        "type": "object",
        "properties": {"score": {"type": "integer"}, "why": {"type": "string"}},
        "required": ["score", "why"],
    }
    with pytest.raises(PromptPackError, match="'why' is a required property"):
        _pack([{"question": "q", "answer": "a", "reply": {"score": 1}}], response_schema=schema)
