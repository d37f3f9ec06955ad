"""Inputs and results of tools, without the envelopes of clients, callbacks and protocols. Pure."""

from __future__ import annotations

from typing import Any, Final

from streams.intake.reading.otlp.content.json_text import as_text, loaded
from streams.intake.reading.otlp.content.shown import shown_message

_MAX_UNPACKED: Final = 5
_NOTES: Final = ("metadata", "tags")
_Form = tuple[tuple[str, ...], frozenset[str], frozenset[str] | None]
_FORMS: Final[tuple[_Form, ...]] = (
    (("kwargs", "content"), frozenset({"lc", "kwargs"}), None),  # LangChain
    (
        ("data", "content"),
        frozenset({"type", "data"}),
        frozenset({"type", "data"}),
    ),  # the same, OpenInference
    (("content",), frozenset({"content", "tool_call_id"}), None),
    (("raw_output",), frozenset({"raw_output", "tool_name"}), None),  # LlamaIndex
    *(
        ((name,), frozenset({name, note}), None)
        for name in ("inputs", "output", "outputs")
        for note in _NOTES
    ),
    (("output",), frozenset({"output"}), frozenset({"output", "kwargs"})),
    (
        ("content",),  # MCP
        frozenset({"content"}),
        frozenset({"content", "isError", "is_error", "structuredContent", "_meta", "meta"}),
    ),
    (("value",), frozenset({"value"}), frozenset({"type", "value"})),  # Vercel
    (("result",), frozenset({"result"}), frozenset({"result"})),  # Gemini
    (("text",), frozenset({"text"}), frozenset({"type", "text"})),
)
"""Path of the content, required keys and allowed keys of an envelope; None allows any."""


def unpacked(value: Any, depth: int = 0) -> Any:
    """Remove the envelopes of a tool's input or result."""
    opened = loaded(value)
    if isinstance(opened, str):
        opened = shown_message(opened) or opened
    if not isinstance(opened, dict) or depth > _MAX_UNPACKED:
        return opened
    for path, needed, allowed in _FORMS:
        if needed <= opened.keys() and (allowed is None or opened.keys() <= allowed):
            inner: Any = opened
            for name in path:
                inner = inner.get(name) if isinstance(inner, dict) else None
            return unpacked(inner, depth + 1)
    return opened


def result_text(value: Any) -> str:
    """Write a tool's result as text; its parts are joined."""
    opened = loaded(value)
    inner = unpacked(opened)
    if isinstance(inner, list) and any(isinstance(item, dict) for item in inner):
        parts = [unpacked(item) for item in inner]
        if all(isinstance(part, str) for part in parts):
            return "\n".join(parts)
    return as_text(value if inner is opened else inner)
