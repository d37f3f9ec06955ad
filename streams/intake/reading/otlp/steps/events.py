"""Events of a span, and log records as events, with content. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from streams.intake.reading.otlp.content.conversation import read_turns
from streams.intake.reading.otlp.content.json_text import loaded
from streams.intake.reading.otlp.content.pages import Document
from streams.intake.reading.otlp.content.turn import Turn
from streams.intake.reading.otlp.span import Span, SpanEvent

_DETAILS: Final = "gen_ai.client.inference.operation.details"
SAID_EVENTS: Final = ("gen_ai.choice", "gen_ai.content.completion", "gen_ai.assistant.reply")
HEARD_EVENTS: Final = (
    "gen_ai.system.message",
    "gen_ai.developer.message",
    "gen_ai.user.message",
    "gen_ai.assistant.message",
    "gen_ai.tool.message",
    "gen_ai.content.prompt",
)
_EVENT_CONTENT: Final = "gen_ai.event.content"
"""The whole message as JSON, as Azure's libraries and Semantic Kernel write it."""
FOUND_EVENT: Final = "db.query.result"
_FOUND_TEXT: Final = "db.query.result.document"


def with_details(span: Span) -> Mapping[str, Any]:
    """Add the attributes of a span's event with details to its own."""
    merged: dict[str, Any] = {}
    for event in span.events:
        if event.name == _DETAILS:
            merged |= event.attributes
    return {**merged, **span.attributes} if merged else span.attributes


def event_turns(span: Span, names: tuple[str, ...], role: str) -> list[Turn]:
    """Read the messages in a span's events of these names."""
    return [turn for content in _contents(span, names) for turn in read_turns(content, role)]


def event_replies(span: Span) -> list[Turn]:
    """Read the replies in a span's events.

    Events with different indexes are choices, of which the first counts, or the chunks of a stream, of which
    only the last has a finish reason.
    """
    contents = list(_contents(span, SAID_EVENTS))
    replies = [read_turns(content, "assistant") for content in contents]
    choices = [one for one in contents if isinstance(one, dict) and isinstance(one.get("index"), int)]
    turns = [turn for reply in replies for turn in reply]
    if len({choice["index"] for choice in choices}) < 2:
        return turns
    if any(choice.get("finish_reason") for choice in choices[:-1]):
        return replies[0]
    calls = tuple(call for turn in turns for call in turn.tool_calls)
    return [Turn("assistant", "".join(turn.text for turn in turns), calls)]


def _contents(span: Span, names: tuple[str, ...]) -> Iterator[Any]:
    own = [SpanEvent(span.name, span.attributes)] if span.is_log and span.name in names else []
    for event in (*own, *span.events):
        if event.name not in names:
            continue
        body = loaded(event.attributes.get("body"))
        content: Any = body if isinstance(body, dict) else event.attributes
        if isinstance(body, str):
            content = {"content": body}
        for key in ("gen_ai.prompt", "gen_ai.completion", _EVENT_CONTENT):
            content = event.attributes.get(key, content)
        content = loaded(content)
        if isinstance(content, dict):
            if "message" in content:
                content = {"finish_reason": "", **content}
            elif "role" not in content:
                content = {**content, "role": event.name.removeprefix("gen_ai.").removesuffix(".message")}
        yield content


def tool_events(span: Span) -> tuple[Any, Any]:
    """Read a tool's input and output from its span's events, as Strands writes them."""
    found: dict[str, Any] = {}
    for event in span.events:
        name = {"gen_ai.tool.message": "content", "gen_ai.choice": "message"}.get(event.name)
        if name is not None:
            turns = [turn.text for turn in read_turns(event.attributes.get(name), "tool")]
            found.setdefault(event.name, "\n".join(turns) or event.attributes.get(name))
    return found.get("gen_ai.tool.message"), found.get("gen_ai.choice")


def found_documents(span: Span) -> tuple[Document, ...]:
    """Read the documents in a span's events."""
    return tuple(
        Document(text, str(event.attributes.get("db.query.result.id", "")))
        for event in span.events
        if event.name == FOUND_EVENT and isinstance(text := event.attributes.get(_FOUND_TEXT), str)
    )
