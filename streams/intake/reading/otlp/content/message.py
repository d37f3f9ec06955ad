"""One message in any of the known forms, and the parts of its content. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from streams.intake.reading.otlp.content.json_text import as_text, listed, loaded
from streams.intake.reading.otlp.content.tool_result import result_text
from streams.intake.reading.otlp.content.turn import ToolCall, Turn

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
    "tool-response": "tool",
    "tool-call": "assistant",
    "functionmessage": "tool",
}
_KNOWN_ROLES: Final = frozenset({"system", "user", "assistant", "tool"})
_TEXT_PARTS: Final = frozenset({"text", "input_text", "output_text", "refusal"})
_CALL_PARTS: Final = frozenset({"tool_call", "tool-call", "tool_use", "function_call", "server_tool_call"})
_REPLY_PARTS: Final = frozenset(
    {"tool_call_response", "tool-result", "tool_result", "function_call_output", "server_tool_call_response"}
)
_DOCUMENT_PART: Final = "document"
_SILENT_PARTS: Final = frozenset({"reasoning", "thinking", "redacted_thinking", "compaction"})
_PART_WRAPPERS: Final = {
    "message_content": None,
    "functionCall": "tool_call",
    "function_call": "tool_call",
    "toolUse": "tool_call",
    "toolRequest": "tool_call",
    "tool_call": "tool_call",
    "functionResponse": "tool_result",
    "function_response": "tool_result",
    "toolResult": "tool_result",
    "toolResponse": "tool_result",
    "tool_call_result": "tool_result",
}
_PARTS_ALONE: Final = _CALL_PARTS | _REPLY_PARTS | _SILENT_PARTS
"""Parts that some lists contain in place of messages."""
_PART_FORMS: Final = frozenset({dict, str})
_PART_TYPES: Final = _TEXT_PARTS | _PARTS_ALONE | {_DOCUMENT_PART}
_MARKS: Final = ("gen_ai.", ".message")
_BLOB: Final = frozenset({"mime_type", "modality"})
"""Keys of a picture or sound, whose type may be cut off."""
_TITLE: Final = re.compile(r"[^<>\"\n]{1,100}")
_MAX_DEPTH: Final = 4


def read_message(message: Mapping[str, Any], role: str) -> list[Turn]:
    """Read one message: its text and calls as one turn, each tool result in it as another.

    Args:
        message: The message.
        role: The role of a message without one.
    """
    if "role" not in message and _type_of(message) in _PARTS_ALONE:
        message = {"content": [message]}
        role = "assistant"
    own = _role_of(message, role)
    if own in _SILENT_PARTS:  # Traceloop
        return []
    if own == "user" and message.get("tool_call_id"):  # Anthropic in OpenInference
        own = "tool"
    content = message.get("parts") or message.get("content") or message.get("contents")
    content = content or message.get("blocks") or message.get("text") or None
    opened = loaded(content) if isinstance(content, str) and content.startswith("[") else content
    if own == "tool" and _is_structure(opened):
        return [Turn("tool", result_text(content), (), *_named(message))]
    if isinstance(opened, list) and set(map(type, opened)) <= _PART_FORMS:
        parts: Iterable[Any] = opened if not isinstance(content, str) or _are_parts(opened) else [content]
    else:
        parts = [content]
    texts: list[str] = []
    asked = message.get("tool_calls")
    calls = [call for item in listed(asked) if (call := _call(item)) is not None] if asked else []
    replies: list[Turn] = []
    for part in parts:
        _sort_part(part, texts, calls, replies)
    text = "\n".join(texts)
    if own == "tool" and texts and not replies:
        return [Turn("tool", result_text(text), (), *_named(message))]
    if calls or text.strip():
        replies.append(Turn(own, text, tuple(calls)))
    return replies


def _is_structure(value: Any) -> bool:
    """Whether a value is a structure of the tool's own, not the parts of a message."""
    if isinstance(value, list):
        return bool(value) and all(isinstance(item, dict) for item in value) and not _are_parts(value)
    return isinstance(value, dict)


def is_part(item: Any) -> bool:
    """Whether an item is a part of a message, not a message."""
    if not isinstance(item, dict) or "role" in item:
        return False
    # Parts of Bedrock and Gemini have no type.
    untyped = "type" not in item and isinstance(item.get("text"), str) and len(item) == 1
    return untyped or _type_of(item) in _PART_TYPES or any(name in item for name in _PART_WRAPPERS)


def _are_parts(items: Sequence[Any]) -> bool:
    """Whether a list in JSON holds the parts of a message, pictures included."""
    return any(map(is_part, items)) and all(
        is_part(item) or (isinstance(item, dict) and "role" not in item and isinstance(item.get("type"), str))
        for item in items
    )


def _type_of(part: Mapping[str, Any]) -> str | None:
    """The type of a part; empty for a type that is not text."""
    kind = part.get("type")
    return kind if isinstance(kind, str) or kind is None else ""


def _role_of(message: Mapping[str, Any], role: str) -> str:
    named = message.get("role")
    if isinstance(named, str) and named in _KNOWN_ROLES:
        return named
    named = named or message.get("event.name") or message.get("type") or role
    if not isinstance(named, str):
        return role
    start, end = _MARKS
    lowered = named.lower().removeprefix(start).removesuffix(end)
    lowered = _ROLES.get(lowered, lowered)
    if lowered == "unknown":  # Traceloop, for streamed replies
        return role
    return lowered if "role" in message or lowered in _KNOWN_ROLES else role


def _opened_part(part: Mapping[str, Any]) -> Mapping[str, Any]:
    """Unwrap a part whose wrapper names its type (Gemini, Bedrock, OpenInference)."""
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
    if not part.keys().isdisjoint(_PART_WRAPPERS):
        part = _opened_part(part)
    kind = _type_of(part)
    if kind in _TEXT_PARTS or (kind is None and _BLOB.isdisjoint(part)):
        text = part.get("text") or part.get("content") or part.get("refusal") or None
        text = text.get("value") if isinstance(text, dict) else text
        texts += [text] if isinstance(text, str) else []
        if part.keys() == {"data"}:  # structured output of Genkit
            texts.append(as_text(part["data"]))
    elif kind in _CALL_PARTS:
        call = _call(part)
        calls += [] if call is None else [call]
    elif kind in _REPLY_PARTS:
        name, call_id = _named(part)
        result = next((part[key] for key in ("result", "response", "output", "content") if key in part), None)
        replies.append(Turn("tool", result_text(result), (), name, call_id))
    elif kind == _DOCUMENT_PART:
        texts += _document_text(part)


def _document_text(part: Mapping[str, Any]) -> list[str]:
    """Write a document part (Anthropic) as a tagged page."""
    source, title = part.get("source"), part.get("title")
    if not isinstance(source, dict):  # OpenInference: the whole part as JSON
        inner = loaded(part.get("text"))
        return _document_text(inner) if isinstance(inner, dict) and "source" in inner else []
    body = source.get("data") if source.get("type") == "text" else result_text(source.get("content"))
    named = f' name="{title}"' if isinstance(title, str) and _TITLE.fullmatch(title) else ""
    return [f"<document{named}>\n{body}\n</document>"] if isinstance(body, str) and body else []


def is_stripped(value: Any, depth: int = 0) -> bool:
    """Whether a message has a text part without its text, as Pydantic AI writes without content."""
    opened = loaded(value)
    if isinstance(opened, list) and depth <= _MAX_DEPTH:
        return any(is_stripped(item, depth + 1) for item in opened)
    if not isinstance(opened, dict):
        return False
    bare = opened.keys() == {"type"} and _type_of(opened) in _TEXT_PARTS
    return bare or is_stripped(opened.get("parts"), depth + 1)


def _named(part: Mapping[str, Any]) -> tuple[str, str]:
    name = next((part[key] for key in ("name", "toolName", "tool_name") if part.get(key)), "")
    keys = ("id", "toolCallId", "tool_call_id", "tool_use_id", "call_id", "toolUseId", "ref")
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
