"""The kind of a span. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from streams.intake.reading.otlp.content.json_text import loaded
from streams.intake.reading.otlp.families.family import Kind
from streams.intake.reading.otlp.span import Span
from streams.intake.reading.otlp.steps.events import FOUND_EVENT, HEARD_EVENTS, SAID_EVENTS
from streams.intake.reading.otlp.steps.values import Values

_EVALUATION: Final = "gen_ai.evaluation.result"
_MARKS: Final[tuple[tuple[Kind, frozenset[str]], ...]] = (
    ("tool", frozenset({"gen_ai.tool.name", "tool_response"})),
    ("agent", frozenset({"haystack.agent.input", "final_result", "agent_name", "all_messages_events"})),
    (
        "model",
        frozenset(
            {
                "gen_ai.request.model",
                "gen_ai.response.model",
                "gen_ai.system",
                "gen_ai.output.messages",
                "gen_ai.completion.0.content",
            }
        ),
    ),
)


def kind_of(span: Span, values: Values) -> Kind:
    """Determine the kind of a span."""
    for name, kinds in values.shape.kinds:
        value = loaded(values.attributes[name])
        kind = _named(value.lower(), kinds) if isinstance(value, str) else None
        if kind is not None:
            return _refined(kind, span, values)
    return _guessed(span, values)


def _named(value: str, kinds: Mapping[str, Kind]) -> Kind | None:
    ends = (kind for end, kind in kinds.items() if end[0] == "*" and value.endswith(end[1:]))
    return kinds.get(value) or next(ends, None)


def _refined(kind: Kind, span: Span, values: Values) -> Kind:
    # Traceloop marks a retriever's span as a task; the operation's name is more specific.
    operation = values.attributes.get("gen_ai.operation.name")
    if kind == "chain" and operation in ("vector_db_retrieve", "retrieval"):
        return "retrieval"
    if kind == "chain" and "PromptTemplate" in span.name:
        return "prompt"
    return kind


def _is_other_operation(span: Span, values: Values) -> bool:
    """Whether the span names an operation that is not in the tables, and no reply of a model."""
    told = values.first("said") is not None or any(event.name in SAID_EVENTS for event in span.events)
    return "gen_ai.operation.name" in values.attributes and not told


def _guessed(span: Span, values: Values) -> Kind:
    """Determine the kind by attributes that only spans of that kind have."""
    names, own = values.attributes.keys(), span.name
    if own == _EVALUATION or any(name.startswith("gen_ai.evaluation.") for name in names):
        return "evaluation"
    for kind, marks in _MARKS:
        if not names.isdisjoint(marks):
            return "chain" if kind == "model" and _is_other_operation(span, values) else kind
    if own in SAID_EVENTS or own in HEARD_EVENTS:
        return "model"
    if any(event.name == FOUND_EVENT for event in span.events):
        return "retrieval"
    return "chain" if values.shape.families and values.first("gave") is not None else "other"
