"""The input and output of a span as messages. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from streams.intake.reading.otlp.content.conversation import has_messages, read_turns
from streams.intake.reading.otlp.content.json_text import listed, loaded
from streams.intake.reading.otlp.content.said import QUESTION_NAMES, answer_in, question_in
from streams.intake.reading.otlp.content.turn import ToolCall, Turn
from streams.intake.reading.otlp.families.family import Kind
from streams.intake.reading.otlp.span import Span
from streams.intake.reading.otlp.steps.events import HEARD_EVENTS, event_replies, event_turns
from streams.intake.reading.otlp.steps.values import Values, turns_of

_OTHERS: Final = frozenset({"tool", "user", "system"})
"""Roles that do not answer."""
_REQUEST: Final = ("args", "instructions", "contents", "system")
"""Keys of a function call or of a request to a model, which a step's own input does not have."""
_CONVERSATIONS: Final = frozenset(
    {
        "messages",
        "contents",
        "role",
        "choices",
        "replies",
        "generations",
        "candidates",
        "parts",
        "lc",
        "output",
    }
)


def exchange(span: Span, values: Values, kind: Kind) -> tuple[tuple[Turn, ...], tuple[Turn, ...]]:
    """Read the messages of a span's input and output."""
    heard = values.turns("heard", "heard_flat", "user")
    said = values.turns("said", "said_flat", "assistant")
    in_events = False
    if span.events or span.is_log:
        in_events = not heard
        heard = heard or event_turns(span, HEARD_EVENTS, "user")
        said = said or event_replies(span)
    tells = kind in {"model", "agent"}
    if not tells:  # the input of an application's step is a structure, not a message
        heard = [turn for turn in heard if not turn.text.startswith("{")]
    else:
        heard = heard or _told(values.first("given"), "user", question_in)
    if not said and not in_events:  # the whole conversation in one attribute
        cut = len(heard)
        while cut and heard[cut - 1].role == "assistant":
            cut -= 1
        heard, said = heard[:cut], heard[cut:]
    if tells:
        said = said or _told(values.first("gave"), "assistant", answer_in)
    if len(said) > 1 and any(turn.role == "user" for turn in said):  # the output is the whole conversation
        last = max(at for at, turn in enumerate(said) if turn.role == "user") + 1
        heard, said = said[:last], said[last:]
    asked = values.first("called")
    if asked is not None and not any(turn.tool_calls for turn in said):
        called = tuple(call for item in listed(asked) if (call := _called(item)))
        said = [*said, Turn("assistant", "", called)] if called else said
    if len(said) > 1 and _choices(values) > 1:
        said = said[:1]
    if not any(turn.role == "system" for turn in heard):
        system = values.first("system") or (_system_of(values.first("given")) if kind == "model" else None)
        heard = heard if system is None else [*read_turns(system, "system"), *heard]
    return tuple(heard), tuple(said)


def _choices(values: Values) -> int:
    """How many choices were requested; messages do not show whether they are choices."""
    parameters = loaded(values.attributes.get("llm.invocation_parameters"))
    requested = parameters.get("n") if isinstance(parameters, dict) else None
    requested = requested or values.attributes.get("gen_ai.request.choice.count")
    return requested if isinstance(requested, int) else 1


def _system_of(request: Any) -> Any:
    """Find the system instruction in a whole request, where the messages beside it lack it."""
    if not isinstance(request, str) or '"system"' not in request:
        return None
    opened = loaded(request)
    return opened.get("system") if isinstance(opened, dict) else None


def _told(value: Any, role: str, words: Callable[[Any], str | None]) -> list[Turn]:
    """Read the input or output of a step as a conversation; other structures become one message."""
    opened = loaded(value)
    if isinstance(opened, dict) and not is_conversation(opened) and opened.keys().isdisjoint(_REQUEST):
        text = words(opened)
        if text is not None or role == "user":  # a structure of its own may be an answer, but no question
            return [] if text is None else [Turn(role, text)]
    return turns_of(value, role)


def spoken(turns: Sequence[Turn]) -> str | None:
    """The text of the last message of the assistant; None where it has none, or waits for tools."""
    if waits_for_tools(turns):
        return None
    texts = [turn.text for turn in turns if turn.role not in _OTHERS and turn.text.strip()]
    return texts[-1] if texts else None


def waits_for_tools(turns: Sequence[Turn]) -> bool:
    """Whether the last message calls tools that have not answered: its words announce the calls."""
    said = [turn for turn in turns if turn.role not in _OTHERS]
    answered = {turn.call_id for turn in turns if turn.role == "tool"}
    return bool(said) and any(call.call_id not in answered for call in said[-1].tool_calls)


def is_conversation(value: Any) -> bool:
    """Distinguish messages from other input or output of a step."""
    if isinstance(value, dict):
        return not _CONVERSATIONS.isdisjoint(value) or has_messages(value.get("input"))
    return (
        isinstance(value, list)
        and bool(value)
        and isinstance(value[0], dict | list)
        and not _has_words(value[0])
    )


def _has_words(value: Any) -> bool:
    return isinstance(value, dict) and any(name in value for name in QUESTION_NAMES[:7])


def _called(item: Any) -> ToolCall | None:
    turns = read_turns([{"role": "assistant", "tool_calls": [loaded(item)]}])
    return turns[0].tool_calls[0] if turns and turns[0].tool_calls else None
