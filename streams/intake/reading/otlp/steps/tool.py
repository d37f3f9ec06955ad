"""A tool call. Pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ToolUse:
    """A tool that ran."""

    name: str
    arguments: str
    result: str
