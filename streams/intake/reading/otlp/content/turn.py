"""One message of a conversation, and its tool calls. Pure."""

from __future__ import annotations

from typing import NamedTuple


class ToolCall(NamedTuple):
    """A tool call that a model requested."""

    name: str
    arguments: str = ""
    call_id: str = ""


class Turn(NamedTuple):
    """One message.

    Args:
        role: system, user, assistant or tool, or another role that the producer names.
        text: Its text; empty if it only calls tools.
        tool_calls: The calls that it requests.
        name: The tool, for role tool.
        call_id: The call whose result it has, for role tool.
    """

    role: str
    text: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    name: str = ""
    call_id: str = ""
