from __future__ import annotations

import json
from typing import Any

import pytest

from judge.endpoint.completion import read_completion


def read(**message: Any) -> str:
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": "stop"}
    return read_completion(json.dumps({"choices": [choice], "model": "m"}).encode()).text


def call(arguments: object) -> dict[str, object]:
    return {"id": "1", "type": "function", "function": {"name": "verdict", "arguments": arguments}}


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ({"content": "said", "reasoning_content": "thought"}, "said"),
        ({"content": None, "reasoning_content": "thought"}, "thought"),
        ({"content": " ", "reasoning": "thought"}, "thought"),
        ({"content": None, "tool_calls": [call('{"score": 4}')]}, '{"score": 4}'),
        ({"content": "", "tool_calls": [call({"score": 4})], "reasoning_content": "2?"}, '{"score": 4}'),
        # Which of two calls is the verdict is not known.
        ({"content": "", "tool_calls": [call('{"score": 4}'), call('{"score": 1}')]}, ""),
        ({"content": "", "tool_calls": ["x"], "reasoning_content": 5}, ""),
        ({"content": None, "tool_calls": [{"function": None}]}, ""),
    ],
)
def test_a_reply_in_another_place_is_found(message: dict[str, Any], text: str) -> None:
    """Only where the content is empty."""
    assert read(**message) == text
