"""The form of spans for both encodings; log records of model calls are read as spans, too."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

Attributes = Mapping[str, Any]
"""Name to text, number, truth value, list or mapping; None for a value of another type."""


class SpanEvent(NamedTuple):
    """An event within a span."""

    name: str
    attributes: Attributes


class Span(NamedTuple):
    """One span.

    Args:
        trace_id: 32 lower-case hexadecimal digits; empty where the record has none.
        span_id: 16 lower-case hexadecimal digits.
        parent_id: The parent's span id; empty for a root.
        tracestate: As W3C writes it; empty for none.
        name: The span's name, or the event's name of a log record.
        scope: Name of the instrumentation.
        resource: Attributes of the service.
        attributes: Attributes of the span.
        start: Nanoseconds since the epoch; 0 where unknown.
        end: As `start`.
        events: Events of the span.
        error: The message of a status that is an error; None for another status.
        is_log: Whether a log record was read.
    """

    trace_id: str
    span_id: str
    parent_id: str
    tracestate: str
    name: str
    scope: str
    resource: Attributes
    attributes: Attributes
    start: int = 0
    end: int = 0
    events: tuple[SpanEvent, ...] = ()
    error: str | None = None
    is_log: bool = False


class Head(NamedTuple):
    """The part that sampling reads of a record's spans of one trace.

    Args:
        trace_id: 32 lower-case hexadecimal digits; empty where the record has none.
        tracestate: The first tracestate of the spans, as W3C writes it; empty for none.
        roots: Spans without a parent.
    """

    trace_id: str
    tracestate: str = ""
    roots: int = 0


def has_root(spans: Iterable[Span]) -> bool:
    """Whether the root span is among them; a log record is not a root."""
    return any(not span.parent_id and not span.is_log for span in spans)
