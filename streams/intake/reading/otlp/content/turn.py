"""One message of a conversation, and the calls in it. Pure."""

from __future__ import annotations

from typing import NamedTuple


class ToolCall(NamedTuple):
    """A call that a model asked for."""

    name: str
    arguments: str = ""
    call_id: str = ""


class Turn(NamedTuple):
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
