"""Conversations as instrumentations write them, read into one form. Pure.

The forms: messages with `parts` (OpenTelemetry, Gemini), with `content` as text or as a list of parts (OpenAI, Anthropic,
Vercel), LangChain's serialised messages, requests and replies of the chat and response APIs, and any of these as JSON text.
What is none of them is one message with that text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

import orjson

MAX_TURNS: Final = 500
"""Messages of one conversation that are read."""
_MAX_DEPTH: Final = 8
"""Wrappers within wrappers that are opened."""

_ROLES: Final = {
    "human": "user",
    "humanmessage": "user",
    "ai": "assistant",
    "aimessage": "assistant",
    "aimessagechunk": "assistant",
    "model": "assistant",
    "choice": "assistant",
    "systemmessage": "system",
    "developer": "system",
    "function": "tool",
    "toolmessage": "tool",
    "functionmessage": "tool",
}
_KNOWN_ROLES: Final = frozenset({"system", "user", "assistant", "tool"})
_TEXT_PARTS: Final = frozenset({"text", "input_text", "output_text", "refusal"})
_CALL_PARTS: Final = frozenset({"tool_call", "tool-call", "tool_use", "function_call", "server_tool_call"})
_REPLY_PARTS: Final = frozenset(
    {"tool_call_response", "tool-result", "tool_result", "function_call_output", "server_tool_call_response"}
)
_SILENT_PARTS: Final = frozenset({"reasoning", "thinking", "redacted_thinking", "compaction"})
_PART_WRAPPERS: Final = {
    "message_content": None,
    "functionCall": "tool_call",
    "function_call": "tool_call",
    "toolUse": "tool_call",
    "functionResponse": "tool_result",
    "toolResult": "tool_result",
}
_PART_TYPES: Final = _TEXT_PARTS | _CALL_PARTS | _REPLY_PARTS | _SILENT_PARTS
_MARKS: Final = ("gen_ai.", ".message")


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call that a model asked for."""

    name: str
    arguments: str = ""
    call_id: str = ""


@dataclass(frozen=True, slots=True)
class Turn:
    """One message.

    Args:
        role: system, user, assistant or tool, or what else a producer calls it.
        text: Its text; empty where it only calls tools.
        tool_calls: The calls it asks for.
        name: The tool that answers, for role tool.
        call_id: The call that it answers, for role tool.
    """

    role: str
    text: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    name: str = ""
    call_id: str = ""


def loaded(value: Any) -> Any:
    """Open JSON that travels as text; anything else comes back as it is."""
    if not isinstance(value, str):
        return value
    start = value.lstrip()[:1]
    if start not in {"{", "[", '"'}:
        return value
    try:
        return orjson.loads(value)
    except (orjson.JSONDecodeError, ValueError):
        return value


def as_text(value: Any) -> str:
    """Write what is not text as JSON."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    try:
        return orjson.dumps(value).decode()
    except (orjson.JSONEncodeError, TypeError, ValueError):
        return ""


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
        if value.strip():
            yield Turn(role, value)
    elif isinstance(value, dict):
        yield from _of_mapping(value, role, depth)
    elif isinstance(value, list):
        yield from _of_list(value, role, depth)


def _of_list(items: Sequence[Any], role: str, depth: int) -> Iterator[Turn]:
    if items and isinstance(items[0], list):
        yield from _turns(items[0], role, depth + 1)  # a batch: the first of its conversations
    elif items and all(isinstance(item, str) for item in items):
        opened = [loaded(item) for item in items]
        if any(isinstance(item, dict) for item in opened):
            yield from _of_list(opened, role, depth + 1)
        elif any(item.strip() for item in items):
            yield Turn(role, "\n".join(items))
    elif items and all(_is_part(item) for item in items):
        yield from _message({"content": items}, role)
    else:
        for item in items:
            yield from _turns(loaded(item), role, depth + 1)


def _is_part(item: Any) -> bool:
    return isinstance(item, dict) and "role" not in item and _type_of(item) in _PART_TYPES


def _type_of(part: Mapping[str, Any]) -> str | None:
    """The kind that a part names; empty for one that is no text, which is no kind of ours."""
    kind = part.get("type")
    return kind if isinstance(kind, str) or kind is None else ""


def _of_mapping(value: Mapping[str, Any], role: str, depth: int) -> Iterator[Turn]:  # noqa: C901, PLR0912 - one form a line
    deeper = depth + 1
    if isinstance(value.get("args"), list) and value.keys() <= {"args", "kwargs"}:
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
    elif isinstance(value.get("output"), list) and ("status" in value or "model" in value):
        yield from _turns(value["output"], "assistant", deeper)
    elif isinstance(value.get("content"), dict) and "parts" in value["content"]:
        yield from _message(value["content"], role)
    else:
        yield from _message(value, role)


def _first(choices: Sequence[Any], role: str, depth: int) -> Iterator[Turn]:
    """Read the first of several answers that says something."""
    for choice in choices:
        found = list(_turns(choice, role, depth))
        if found:
            yield from found
            return


def _system_of(value: Mapping[str, Any], depth: int) -> Iterator[Turn]:
    for name in ("system", "instructions", "system_instruction"):
        if value.get(name):
            yield from _turns(value[name], "system", depth)


def _role_of(message: Mapping[str, Any], role: str) -> str:
    named = message.get("role") or message.get("event.name") or message.get("type") or role
    if not isinstance(named, str):
        return role
    start, end = _MARKS
    lowered = named.lower().removeprefix(start).removesuffix(end)
    lowered = _ROLES.get(lowered, lowered)
    return lowered if "role" in message or lowered in _KNOWN_ROLES else role


def _message(message: Mapping[str, Any], role: str) -> Iterator[Turn]:
    """Read one message: its text and calls as one turn, each tool's answer in it as another."""
    if _type_of(message) in _CALL_PARTS | _REPLY_PARTS | _SILENT_PARTS and "role" not in message:
        message = {"content": [message]}
        role = "assistant"
    own = _role_of(message, role)
    content = next(
        (message[name] for name in ("parts", "content", "contents", "text") if message.get(name)), None
    )
    opened = loaded(content) if isinstance(content, str) and content.startswith("[") else content
    if isinstance(opened, list) and all(isinstance(item, dict | str) for item in opened):
        parts: Iterable[Any] = (
            opened if not isinstance(content, str) or all(map(_is_part, opened)) else [content]
        )
    else:
        parts = [content]
    texts: list[str] = []
    calls = [call for item in _listed(message.get("tool_calls")) if (call := _call(item)) is not None]
    replies: list[Turn] = []
    for part in parts:
        _sort_part(part, texts, calls, replies)
    if own == "tool" and texts and not replies:
        name, call_id = _named(message)
        yield Turn("tool", "\n".join(texts), (), name, call_id)
        return
    yield from replies
    text = "\n".join(texts)
    if text.strip() or calls:
        yield Turn(own, text, tuple(calls))


def _listed(value: Any) -> list[Any]:
    opened = loaded(value)
    return opened if isinstance(opened, list) else []


def _opened_part(part: Mapping[str, Any]) -> Mapping[str, Any]:
    """Take a part out of what names its kind by wrapping it (Gemini, Bedrock, OpenInference)."""
    for wrapper, kind in _PART_WRAPPERS.items():
        if isinstance(part.get(wrapper), dict):
            return {**part[wrapper], "type": kind} if kind else part[wrapper]
    return part


def _sort_part(part: Any, texts: list[str], calls: list[ToolCall], replies: list[Turn]) -> None:
    if isinstance(part, str):
        texts.append(part)
        return
    if not isinstance(part, dict):
        return
    part = _opened_part(part)
    kind = _type_of(part)
    if kind in _CALL_PARTS:
        call = _call(part)
        calls += [] if call is None else [call]
    elif kind in _REPLY_PARTS:
        name, call_id = _named(part)
        result = next((part[key] for key in ("result", "response", "output", "content") if key in part), None)
        replies.append(Turn("tool", _reply_text(result), (), name, call_id))
    elif kind is None or kind in _TEXT_PARTS:
        text = next((part[key] for key in ("text", "content", "refusal") if part.get(key)), None)
        text = text.get("value") if isinstance(text, dict) else text
        texts += [text] if isinstance(text, str) else []


def _reply_text(result: Any) -> str:
    """The words of a tool's answer; a list of text parts is joined."""
    if isinstance(result, dict) and "value" in result and result.keys() <= {"type", "value"}:
        result = result["value"]  # Vercel: {"type": "text", "value": ...}
    if isinstance(result, list) and result and all(_is_part(item) for item in result):
        return "\n".join(str(item.get("text") or item.get("content") or "") for item in result)
    return as_text(result)


def _named(part: Mapping[str, Any]) -> tuple[str, str]:
    name = next((part[key] for key in ("name", "toolName", "tool_name") if part.get(key)), "")
    keys = ("id", "toolCallId", "tool_call_id", "tool_use_id", "call_id", "toolUseId")
    call_id = next((part[key] for key in keys[1:] if part.get(key)), part.get("id") or "")
    return str(name), str(call_id)


def _call(item: Any) -> ToolCall | None:
    if isinstance(item, dict) and isinstance(item.get("tool_call"), dict):
        item = item["tool_call"]
    if not isinstance(item, dict):
        return None
    function = item.get("function")
    named = {**function, "id": item.get("id")} if isinstance(function, dict) else item
    name = next((named[key] for key in ("name", "toolName", "tool_name") if named.get(key)), None)
    if not isinstance(name, str):
        return None
    arguments = next(
        (named[key] for key in ("arguments", "args", "input") if named.get(key) is not None), None
    )
    return ToolCall(name, as_text(arguments), _named(named)[1])


def unflatten(attributes: Mapping[str, Any], prefix: str) -> list[Any]:
    """Gather `prefix.0.role`, `prefix.0.content`, ... into a list of mappings, by index.

    Args:
        attributes: The attributes of a span.
        prefix: Without the full stop at its end.
    """
    start = f"{prefix}."
    tree: dict[str, Any] = {}
    for name, value in attributes.items():
        if not name.startswith(start):
            continue
        *path, last = name[len(start) :].split(".")
        if len(path) > 2 * _MAX_DEPTH:
            continue
        node = tree
        for step in path:
            below = node.get(step)
            if not isinstance(below, dict):
                below = node[step] = {}
            node = below
        node.setdefault(last, value)
    grown = _with_lists(tree)
    return grown if isinstance(grown, list) else []


def _with_lists(node: Any) -> Any:
    if not isinstance(node, dict):
        return node
    grown = {name: _with_lists(value) for name, value in node.items()}
    if grown and all(name.isascii() and name.isdigit() and len(name) < 10 for name in grown):
        return [grown[name] for name in sorted(grown, key=int)]
    return grown
