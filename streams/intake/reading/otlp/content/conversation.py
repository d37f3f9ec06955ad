"""Conversations in the forms of all instrumentations, read into one form. Pure.

Forms: messages with `parts` (OpenTelemetry, Gemini), with `content` as text or as a list of parts
(OpenAI, Anthropic, Vercel), LangChain's serialised messages, requests and replies of the chat and response
APIs, and each of these as JSON text. Any other text is one message.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, Final

from streams.intake.reading.otlp.content.json_text import loaded
from streams.intake.reading.otlp.content.message import is_part, read_message
from streams.intake.reading.otlp.content.shown import is_shown_object, shown_message
from streams.intake.reading.otlp.content.turn import Turn

MAX_TURNS: Final = 500
"""Limit of messages per conversation."""
_PAIRED: Final = frozenset({"system", "developer", "user", "human", "assistant", "ai", "tool"})
_PLAIN: Final = frozenset({"role", "content", "parts", "finish_reason", "tool_calls", "tool_call_id", "name"})
"""Keys of a message without a wrapper."""
_ENDED: Final = frozenset({"stop", "length", "max_tokens", "end_turn", "content_filter"})
_SILENT: Final = frozenset({"role", "messages", "choices", "generations", "candidates"})
_SCRIPT: Final = re.compile(
    r"^(system|developer|user|human|assistant|ai|tool): ", re.IGNORECASE | re.MULTILINE
)
_MAX_DEPTH: Final = 8
"""Limit of nested wrappers."""


def read_turns(value: Any, role: str = "user") -> list[Turn]:
    """Read a conversation.

    Args:
        value: The attribute's value: JSON as text, or a structure.
        role: The role of messages without one.

    Returns:
        The messages in order, at most MAX_TURNS; empty if none can be read.
    """
    opened = loaded(value)
    found: list[Turn] = []
    _add(opened, role, 0, found)
    if not found and isinstance(value, str) and value.strip() and not _is_silent(opened):
        return [Turn(role, value)]
    return found[:MAX_TURNS]


def _is_silent(value: Any, depth: int = 0) -> bool:
    """Whether a value is readable and without text: empty, or messages and replies without text."""
    if isinstance(value, dict):
        return not _SILENT.isdisjoint(value) or all(one is None for one in value.values())
    if not isinstance(value, list) or depth > _MAX_DEPTH:
        return False
    return all(_is_silent(item, depth + 1) for item in value)


def _add(value: Any, role: str, depth: int, found: list[Turn]) -> None:
    """Append the messages of a value."""
    if depth > _MAX_DEPTH:
        return
    if isinstance(value, dict):
        _add_mapping(value, role, depth, found)
    elif isinstance(value, list):
        _add_list(value, role, depth, found)
    elif isinstance(value, str):
        if role == "user" and _SCRIPT.match(value):
            _add_script(value, found)
        elif value.strip():
            found.append(Turn(role, value))


def _add_script(text: str, found: list[Turn]) -> None:
    """Read a conversation that LangChain or OpenLIT joined into one text: `user: How?`."""
    marks = list(islice(_SCRIPT.finditer(text), MAX_TURNS))
    if all(mark[1].lower() not in {"user", "human"} for mark in marks):
        found.append(Turn("user", text))  # a question such as "AI: what is it?"
        return
    for one, end in zip(marks, [*(later.start() for later in marks[1:]), len(text)], strict=True):
        said = text[one.end() : end].strip().removeprefix("text: ")
        whole = loaded(said)
        if has_messages(whole):  # OpenLIT, after calls of tools
            found.clear()
            _add(whole, "user", 0, found)
        else:
            found += read_message({"role": one[1], "content": said}, "user")


def _add_list(items: Sequence[Any], role: str, depth: int, found: list[Turn]) -> None:
    first = items[0] if items else None
    messages: Iterable[Any] = items
    if isinstance(first, dict):
        if len(items) > 1 and all(map(_is_choice, items)):
            _add_first(items, role, depth + 1, found)
            return
        if all(map(is_part, items)):
            found += read_message({"content": items}, role)
            return
    elif isinstance(first, list):
        if all(map(_is_pair, items)):
            messages = ({"role": named, "content": text} for named, text in items)
        else:
            messages = items[:1]  # a batch: the first of its conversations
    elif isinstance(first, str) and all(isinstance(item, str) for item in items):
        _add_texts(items, role, depth, found)
        return
    for item in messages:
        if len(found) >= MAX_TURNS:
            return
        _add(loaded(item), role, depth + 1, found)


def _add_texts(items: Sequence[str], role: str, depth: int, found: list[Turn]) -> None:
    opened = [shown_message(item) or loaded(item) for item in items]
    if any(isinstance(item, dict) for item in opened):
        _add_list(opened, role, depth + 1, found)
    elif texts := [item for item in items if item.strip() and not is_shown_object(item)]:
        found.append(Turn(role, "\n".join(texts)))


def _is_pair(item: Any) -> bool:
    """Whether an item is a message as a pair of role and text (LangChain)."""
    return (
        isinstance(item, list)
        and len(item) == 2
        and isinstance(item[0], str)
        and item[0] in _PAIRED
        and isinstance(item[1], str)
    )


def _is_choice(item: Any) -> bool:
    """Whether an item is one of several choices: it has a finish reason other than tool calls."""
    ended = item.get("finish_reason") if isinstance(item, dict) and "message" not in item else None
    return isinstance(ended, str) and ended in _ENDED and not item.get("tool_calls")


def _add_mapping(value: Mapping[str, Any], role: str, depth: int, found: list[Turn]) -> None:  # noqa: C901, PLR0912 - one form a line
    deeper = depth + 1
    if value.keys() <= _PLAIN and not isinstance(value.get("content"), dict):  # most are
        found += read_message(value, role)
    elif isinstance(value.get("args"), list) and value.keys() <= {"args", "kwargs"}:
        # The arguments of a decorated function: the first that is a conversation.
        kwargs = value.get("kwargs")
        given = [*value["args"], *(kwargs.values() if isinstance(kwargs, dict) else ())]
        spoken = [one for one in given if isinstance(one, list | dict)] or given
        _add_first(spoken, role, deeper, found)
    elif isinstance(value.get("kwargs"), dict) and "lc" in value:
        path = value.get("id")
        name = str(path[-1]) if isinstance(path, list) and path else ""
        _add_mapping({"type": name.lower(), **value["kwargs"]}, role, deeper, found)
    elif isinstance(value.get("data"), dict) and "type" in value:
        _add_mapping({"type": value["type"], **value["data"]}, role, deeper, found)
    elif isinstance(value.get("completion"), dict) and len(value) == 1:
        _add(value["completion"], "assistant", deeper, found)
    elif isinstance(value.get("message"), dict):
        _add(value["message"], role, deeper, found)
    elif isinstance(value.get("message"), str) and "finish_reason" in value:
        _add(loaded(value["message"]), role, deeper, found)
    elif isinstance(value.get("generations"), list):
        _add_first(value["generations"], "assistant", deeper, found)
    elif isinstance(value.get("replies"), list):
        _add(value["replies"], "assistant", deeper, found)
    elif isinstance(value.get("choices"), list):
        _add_first(value["choices"], "assistant", deeper, found)
    elif isinstance(value.get("candidates"), list):
        _add_first(value["candidates"], "assistant", deeper, found)
    elif "role" not in value and ("messages" in value or "contents" in value):
        _add_system(value, deeper, found)
        _add(loaded(value.get("messages") or value.get("contents")), role, deeper, found)
    elif "prompt" in value and value.keys() <= {"prompt", "system", "messages", "instructions"}:
        _add_system(value, deeper, found)
        _add(value["prompt"], "user", deeper, found)
    elif "input" in value and ("instructions" in value or "model" in value or has_messages(value["input"])):
        _add_system(value, deeper, found)
        _add(value["input"], "user", deeper, found)
    elif (isinstance(value.get("output"), list) and ("status" in value or "model" in value)) or (
        isinstance(value.get("output"), dict) and "message" in value["output"]
    ):
        _add(value["output"], "assistant", deeper, found)
    elif isinstance(value.get("content"), dict) and "parts" in value["content"]:
        found += read_message(value["content"], role)
    else:
        found += read_message(value, role)


def has_messages(value: Any) -> bool:
    """Whether a value is a list of messages."""
    return isinstance(value, list) and bool(value) and isinstance(value[0], dict) and "role" in value[0]


def _add_first(choices: Sequence[Any], role: str, depth: int, found: list[Turn]) -> None:
    """Append the first of several choices that has text or calls."""
    before = len(found)
    for choice in choices:
        _add(choice, role, depth, found)
        if len(found) > before:
            return


def _add_system(value: Mapping[str, Any], depth: int, found: list[Turn]) -> None:
    config = value.get("config")  # Gemini
    for named in (value, config if isinstance(config, dict) else {}):
        for name in ("system", "instructions", "system_instruction", "systemInstruction"):
            if named.get(name):
                _add(named[name], "system", depth, found)
