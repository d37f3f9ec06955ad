"""Conversations as instrumentations write them, read into one form. Pure.

The forms: messages with `parts` (OpenTelemetry, Gemini), with `content` as text or as a list of parts
(OpenAI, Anthropic, Vercel), LangChain's serialised messages, requests and replies of the chat and response
APIs, and any of these as JSON text. What is none of them is one message with that text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final

from streams.intake.reading.otlp.content.json_text import loaded
from streams.intake.reading.otlp.content.message import is_part, read_message
from streams.intake.reading.otlp.content.turn import Turn

MAX_TURNS: Final = 500
"""Messages of one conversation that are read."""
_PAIRED: Final = frozenset({"system", "developer", "user", "human", "assistant", "ai", "tool"})
_PLAIN: Final = frozenset({"role", "content", "parts", "finish_reason", "tool_calls", "tool_call_id", "name"})
"""Of a message with nothing around it."""
_ENDED: Final = frozenset({"stop", "length", "max_tokens", "end_turn", "content_filter"})
_SCRIPT: Final = re.compile(
    r"^(system|developer|user|human|assistant|ai|tool): ", re.IGNORECASE | re.MULTILINE
)
_MAX_DEPTH: Final = 8
"""Wrappers within wrappers that are opened."""


def read_turns(value: Any, role: str = "user") -> list[Turn]:
    """Read a conversation.

    Args:
        value: What the attribute holds: JSON as text, or a structure.
        role: Whose words they are where they do not say so.

    Returns:
        The messages in order, at most MAX_TURNS; empty for nothing that can be read.
    """
    opened = loaded(value)
    found = list(islice(_turns(opened, role, 0), MAX_TURNS))
    if not found and isinstance(value, str) and value.strip() and not _is_silent(opened):
        return [Turn(role, value)]
    return found


def _is_silent(value: Any, depth: int = 0) -> bool:
    """Whether it was read and says nothing: empty, or messages without text."""
    if isinstance(value, dict):
        return not value or "role" in value or "messages" in value
    if not isinstance(value, list) or depth > _MAX_DEPTH:
        return False
    return all(_is_silent(item, depth + 1) for item in value)


def _turns(value: Any, role: str, depth: int) -> Iterator[Turn]:
    if depth > _MAX_DEPTH or value is None:
        return
    if isinstance(value, str):
        if role == "user" and _SCRIPT.match(value):
            yield from _of_script(value)
        elif value.strip():
            yield Turn(role, value)
    elif isinstance(value, dict):
        yield from _of_mapping(value, role, depth)
    elif isinstance(value, list):
        yield from _of_list(value, role, depth)


def _of_script(text: str) -> Iterator[Turn]:
    """Read a conversation that was joined to one text, as LangChain and OpenLIT do: `user: How?`."""
    marks = list(islice(_SCRIPT.finditer(text), MAX_TURNS))
    if all(mark[1].lower() not in {"user", "human"} for mark in marks):
        yield Turn("user", text)  # whoever asks "AI: what is it?"
        return
    for one, end in zip(marks, [*(later.start() for later in marks[1:]), len(text)], strict=True):
        yield from read_message({"role": one[1], "content": text[one.end() : end].strip()}, "user")


def _of_list(items: Sequence[Any], role: str, depth: int) -> Iterator[Turn]:
    if items and all(_is_pair(item) for item in items):
        for named, text in items:
            yield from read_message({"role": named, "content": text}, role)
    elif len(items) > 1 and all(map(_is_choice, items)):
        yield from _first(items, role, depth + 1)
    elif items and isinstance(items[0], list):
        yield from _turns(items[0], role, depth + 1)  # a batch: the first of its conversations
    elif items and all(isinstance(item, str) for item in items):
        opened = [loaded(item) for item in items]
        if any(isinstance(item, dict) for item in opened):
            yield from _of_list(opened, role, depth + 1)
        elif any(item.strip() for item in items):
            yield Turn(role, "\n".join(items))
    elif items and all(is_part(item) for item in items):
        yield from read_message({"content": items}, role)
    else:
        for item in items:
            yield from _turns(loaded(item), role, depth + 1)


def _is_pair(item: Any) -> bool:
    """Tell a message as LangChain's users write it: its role and its text."""
    return (
        isinstance(item, list)
        and len(item) == 2
        and isinstance(item[0], str)
        and item[0] in _PAIRED
        and isinstance(item[1], str)
    )


def _is_choice(item: Any) -> bool:
    """Tell one of several answers to the same messages: each has an end, which is no call of a tool."""
    ended = item.get("finish_reason") if isinstance(item, dict) and "message" not in item else None
    return isinstance(ended, str) and ended in _ENDED and not item.get("tool_calls")


def _of_mapping(value: Mapping[str, Any], role: str, depth: int) -> Iterator[Turn]:  # noqa: C901, PLR0912 - one form a line
    deeper = depth + 1
    if value.keys() <= _PLAIN and not isinstance(value.get("content"), dict):  # most are
        yield from read_message(value, role)
    elif isinstance(value.get("args"), list) and value.keys() <= {"args", "kwargs"}:
        # The arguments of a decorated function: the first that is a conversation.
        kwargs = value.get("kwargs")
        given = [*value["args"], *(kwargs.values() if isinstance(kwargs, dict) else ())]
        spoken = [one for one in given if isinstance(one, list | dict)] or given
        yield from _first(spoken, role, deeper)
    elif isinstance(value.get("kwargs"), dict) and "lc" in value:
        name = str((value.get("id") or [""])[-1])
        yield from _of_mapping({"type": name.lower(), **value["kwargs"]}, role, deeper)
    elif isinstance(value.get("data"), dict) and "type" in value:
        yield from _of_mapping({"type": value["type"], **value["data"]}, role, deeper)
    elif isinstance(value.get("completion"), dict) and len(value) == 1:
        yield from _turns(value["completion"], "assistant", deeper)
    elif isinstance(value.get("message"), dict):
        yield from _turns(value["message"], role, deeper)
    elif isinstance(value.get("message"), str) and "finish_reason" in value:
        yield from _turns(loaded(value["message"]), role, deeper)
    elif isinstance(value.get("generations"), list):
        yield from _first(value["generations"], "assistant", deeper)
    elif isinstance(value.get("choices"), list):
        yield from _first(value["choices"], "assistant", deeper)
    elif isinstance(value.get("candidates"), list):
        yield from _first(value["candidates"], "assistant", deeper)
    elif "role" not in value and ("messages" in value or "contents" in value):
        yield from _system_of(value, deeper)
        yield from _turns(loaded(value.get("messages") or value.get("contents")), role, deeper)
    elif "prompt" in value and value.keys() <= {"prompt", "system", "messages", "instructions"}:
        yield from _system_of(value, deeper)
        yield from _turns(value["prompt"], "user", deeper)
    elif "input" in value and ("instructions" in value or "model" in value):
        yield from _system_of(value, deeper)
        yield from _turns(value["input"], "user", deeper)
    elif (isinstance(value.get("output"), list) and ("status" in value or "model" in value)) or (
        isinstance(value.get("output"), dict) and "message" in value["output"]
    ):
        yield from _turns(value["output"], "assistant", deeper)
    elif isinstance(value.get("content"), dict) and "parts" in value["content"]:
        yield from read_message(value["content"], role)
    else:
        yield from read_message(value, role)


def _first(choices: Sequence[Any], role: str, depth: int) -> Iterator[Turn]:
    """Read the first of several answers that says something."""
    for choice in choices:
        found = list(_turns(choice, role, depth))
        if found:
            yield from found
            return


def _system_of(value: Mapping[str, Any], depth: int) -> Iterator[Turn]:
    config = value.get("config")  # Gemini
    for named in (value, config if isinstance(config, dict) else {}):
        for name in ("system", "instructions", "system_instruction", "systemInstruction"):
            if named.get(name):
                yield from _turns(named[name], "system", depth)
