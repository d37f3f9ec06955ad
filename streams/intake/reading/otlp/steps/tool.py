"""A tool call, and the wrappers of callbacks around its input and output. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from streams.intake.reading.otlp.content.json_text import loaded

_MAX_UNPACKED: Final = 5


@dataclass(frozen=True, slots=True)
class ToolUse:
    """A tool that ran."""

    name: str
    arguments: str
    result: str


def unpacked(value: Any, depth: int = 0) -> Any:
    """Remove the wrappers of LangChain's callbacks and messages from a tool's input or output."""
    opened = loaded(value)
    if not isinstance(opened, dict) or depth > _MAX_UNPACKED:
        return opened
    if "lc" in opened and isinstance(opened.get("kwargs"), dict):
        return unpacked(opened["kwargs"].get("content"), depth + 1)
    if "metadata" in opened or "tags" in opened or opened.keys() <= {"output", "kwargs"}:
        for name in ("inputs", "output", "outputs"):
            if name in opened:
                return unpacked(opened[name], depth + 1)
    return opened
