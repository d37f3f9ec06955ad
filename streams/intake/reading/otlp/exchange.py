"""Input and output of a span: messages, in attributes or events, and the question and answer in them. Pure.

A workflow's input and output have the form of its function: a text, a mapping with the text under a usual
name, the arguments of a call, or messages. Any other form has no text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from streams.intake.reading.otlp.conversation import RequestedCall, Turn, has_messages, read_turns
from streams.intake.reading.otlp.families import Field, Kind, shape_of
from streams.intake.reading.otlp.span import Attributes, Span, SpanEvent
from streams.intake.reading.otlp.text import (
    KEYS,
    as_text,
    is_shown_object,
    listed,
    loaded,
    unflatten,
)

_MAX_DEPTH: Final = 6

# Question and answer in a value


def question_in(value: Any) -> str | None:
    """Find the question in a step's input; None without one."""
    return _words(value, KEYS["question"], "user", 0)


def answer_in(value: Any) -> str | None:
    """Find the answer in a step's output; None without one."""
    return _words(value, KEYS["answer"], "assistant", 0)


def _words(value: Any, names: tuple[str, ...], role: str, depth: int) -> str | None:
    opened = loaded(value)
    if isinstance(opened, str) and opened is not value:
        opened = loaded(opened)  # JSON within JSON
    if isinstance(opened, str):
        return opened if opened.strip() and not is_shown_object(opened) else None
    if depth > _MAX_DEPTH:
        return None
    if isinstance(opened, dict):
        return _words_of_mapping(opened, names, role, depth + 1)
    if isinstance(opened, list) and len(opened) == 1 and isinstance(opened[0], str):
        return _words(opened[0], names, role, depth + 1)
    return _last(opened, role) if isinstance(opened, list) else None


def _words_of_mapping(value: Mapping[str, Any], names: tuple[str, ...], role: str, depth: int) -> str | None:
    if isinstance(value.get("args"), list) and value.keys() <= {"args", "kwargs"}:
        named = _words(value["kwargs"], names, role, depth) if value.get("kwargs") else None
        texts = [text for one in value["args"][:20] if (text := _words(one, names, role, depth)) is not None]
        # The first sentence among the arguments, else the first text: some are ids.
        return named or next(filter(_is_sentence, texts), texts[0] if texts else None)
    if any(name in value for name in KEYS["conversation"]) or ("type" in value and "data" in value):
        text = _last(value, role)
        if text is not None:
            return text
    for name in names:
        if value.get(name) and (text := _words(value[name], names, role, depth)) is not None:
            return text
    if "type" in value and "content" in value:
        return _last(value, role)
    only = next(iter(value.values())) if len(value) == 1 else None
    return only if isinstance(only, str) and _is_sentence(only) else None


def _is_sentence(text: str) -> bool:
    return len(text.split(maxsplit=1)) > 1


def _last(value: Any, role: str) -> str | None:
    texts = [turn.text for turn in read_turns(value, role) if turn.role == role and turn.text.strip()]
    return texts[-1] if texts else None


# Values by field

_REDACTED: Final = frozenset({"__REDACTED__", "[REDACTED]", "<redacted>", "[Scrubbed]"})
"""Placeholders that instrumentations write in place of redacted content."""


class Values:
    """The attributes of one span by field; the first of its families with a value has precedence."""

    def __init__(self, span: Span) -> None:
        self.span = span
        self.attributes: Attributes = _with_details(span)
        self.shape = shape_of(span.scope, tuple(self.attributes))
        self.family = self.shape.family

    def first(self, *fields: Field) -> Any:
        for name in self.shape.present(*fields):
            value = self.attributes[name]
            if value is not None and value != "" and not (isinstance(value, str) and value in _REDACTED):
                return value
        return None

    def text(self, field: Field) -> str | None:
        """Read the first value of a field as text; None for none or an empty text."""
        return as_text(loaded(self.first(field))).strip() or None

    def turns(self, whole: Field, flat: Field, role: str) -> list[Turn]:
        """Read the first conversation, in one attribute or over several."""
        for name in self.shape.present(whole, flat):
            turns = turns_of(self.attributes.get(name), role)
            turns = turns or turns_of(unflatten(self.attributes, name), role)
            if turns:
                return turns
        return []


def turns_of(value: Any, role: str) -> list[Turn]:
    """Read an attribute as a conversation; empty for one that is missing, redacted or no text."""
    if value is None or (isinstance(value, str) and value in _REDACTED):
        return []
    text = loaded(value) if isinstance(value, str) and value.startswith('"') else value
    return [] if isinstance(text, str) and is_shown_object(text) else read_turns(text, role)


# Events of a span, and log records as events

_DETAILS: Final = "gen_ai.client.inference.operation.details"
OUTPUT_EVENTS: Final = ("gen_ai.choice", "gen_ai.content.completion", "gen_ai.assistant.reply")
INPUT_EVENTS: Final = (
    *(f"gen_ai.{role}.message" for role in ("system", "developer", "user", "assistant", "tool")),
    "gen_ai.content.prompt",
)


def _with_details(span: Span) -> Attributes:
    """Add the attributes of a span's event with details to its own."""
    details = [event.attributes for event in span.events if event.name == _DETAILS]
    merged = {name: value for attributes in details for name, value in attributes.items()}
    return {**merged, **span.attributes} if merged else span.attributes


def _turns_in_events(span: Span, names: tuple[str, ...], role: str) -> list[Turn]:
    return [turn for content in _contents(span, names) for turn in read_turns(content, role)]


def _contents(span: Span, names: tuple[str, ...]) -> Iterator[Any]:
    """The messages in a span's events of these names; Azure and Semantic Kernel write them whole as JSON."""
    for event in (*((SpanEvent(span.name, span.attributes),) if span.is_log else ()), *span.events):
        if event.name not in names:
            continue
        body = loaded(event.attributes.get("body"))
        content = body if isinstance(body, dict) else event.attributes
        content = {"content": body} if isinstance(body, str) else content
        for key in ("gen_ai.prompt", "gen_ai.completion", "gen_ai.event.content"):
            content = event.attributes.get(key, content)
        content = loaded(content)
        if isinstance(content, dict):
            role = event.name.removeprefix("gen_ai.").removesuffix(".message")
            content = {**({"finish_reason": ""} if "message" in content else {"role": role}), **content}
        yield content


# Messages of a span

_NOT_ANSWERING: Final = frozenset({"tool", "user", "system"})
"""Roles that do not answer."""
_REQUEST: Final = ("args", "instructions", "contents", "system")
"""Keys of a function call or of a request to a model, which a step's own input does not have."""


def exchange(values: Values, kind: Kind) -> tuple[tuple[Turn, ...], tuple[Turn, ...]]:
    """Read the messages of a span's input and output."""
    span = values.span
    heard = values.turns("heard", "heard_flat", "user")
    said = values.turns("said", "said_flat", "assistant")
    in_events = bool(span.events or span.is_log) and not heard
    if span.events or span.is_log:
        heard = heard or _turns_in_events(span, INPUT_EVENTS, "user")
        said = said or _turns_in_events(span, OUTPUT_EVENTS, "assistant")
    is_model = kind in {"model", "agent"}
    if is_model:
        heard = heard or _as_turns(values.first("given"), "user", question_in)
    else:  # the input of an application's step is a structure, not a message
        heard = [turn for turn in heard if not turn.text.startswith("{")]
    if not said and not in_events:  # the whole conversation in one attribute
        heard, said = _split(heard, [turn.role != "assistant" for turn in heard])
    if is_model:
        said = said or _as_turns(values.first("gave"), "assistant", answer_in)
    if len(said) > 1 and any(turn.role == "user" for turn in said):  # the output is the whole conversation
        heard, said = _split(said, [turn.role == "user" for turn in said])
    requested = values.first("called")
    if requested is not None and not any(turn.tool_calls for turn in said):
        calls = tuple(call for item in listed(requested) if (call := _tool_call(item)))
        said = [*said, Turn("assistant", "", calls)] if calls else said
    if not any(turn.role == "system" for turn in heard):
        system = values.first("system")
        heard = heard if system is None else [*read_turns(system, "system"), *heard]
    return tuple(heard), tuple(said)


def _split(turns: list[Turn], before: Sequence[bool]) -> tuple[list[Turn], list[Turn]]:
    end = max((index + 1 for index, is_before in enumerate(before) if is_before), default=0)
    return turns[:end], turns[end:]


def _as_turns(value: Any, role: str, words: Callable[[Any], str | None]) -> list[Turn]:
    """Read the input or output of a step as a conversation; other structures become one message."""
    opened = loaded(value)
    if isinstance(opened, dict) and not is_conversation(opened) and opened.keys().isdisjoint(_REQUEST):
        text = words(opened)
        if text is not None or role == "user":  # a structure of its own may be an answer, but no question
            return [] if text is None else [Turn(role, text)]
    return turns_of(value, role)


def spoken(turns: Sequence[Turn]) -> str | None:
    """The text of the last message of the assistant; None where it has none, or waits for tools."""
    texts = [turn.text for turn in turns if turn.role not in _NOT_ANSWERING and turn.text.strip()]
    return texts[-1] if texts and not waits_for_tools(turns) else None


def waits_for_tools(turns: Sequence[Turn]) -> bool:
    """Whether the last message calls tools that have not answered: its words announce the calls."""
    said = [turn for turn in turns if turn.role not in _NOT_ANSWERING]
    answered = {turn.call_id for turn in turns if turn.role == "tool"}
    return bool(said) and any(call.call_id not in answered for call in said[-1].tool_calls)


def is_conversation(value: Any) -> bool:
    """Distinguish messages from other input or output of a step."""
    if isinstance(value, dict):
        keys = (*KEYS["conversation"], "contents", "replies", "output")
        return any(key in value for key in keys) or has_messages(value.get("input"))
    first = value[0] if isinstance(value, list) and value else None
    return isinstance(first, list) or (
        isinstance(first, dict) and first.keys().isdisjoint(KEYS["question"][:7])
    )


def _tool_call(item: Any) -> RequestedCall | None:
    turns = read_turns([{"role": "assistant", "tool_calls": [loaded(item)]}])
    return turns[0].tool_calls[0] if turns and turns[0].tool_calls else None
