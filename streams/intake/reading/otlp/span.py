"""A span as it was read, whatever the encoding; a log record of a model call is read as a span, too."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

Attributes = Mapping[str, Any]
"""Name to text, number, truth value, list or mapping; None for what is no such thing."""


class SpanEvent(NamedTuple):
    """An event within a span."""

    name: str
    attributes: Attributes


class Span(NamedTuple):
    """One span.

    Args:
        trace_id: 32 lower-case hexadecimal digits; empty where the record has none.
        span_id: 16 of them.
        parent_id: The parent's; empty for a root.
        tracestate: As W3C writes it; empty for none.
        name: The span's name, or the event's name of a log record.
        scope: Name of the instrumentation.
        resource: Attributes of the service.
        attributes: Its own.
        start: Nanoseconds since the epoch; 0 where unknown.
        end: As `start`.
        events: Its events.
        error: What its status says of an error; None without one.
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
    """What sampling looks at of the spans that a record holds of one trace.

    Args:
        trace_id: 32 lower-case hexadecimal digits; empty where the record has none.
        tracestate: As W3C writes it, of the first span that has one; empty for none.
        roots: Spans without a parent.
    """

    trace_id: str
    tracestate: str = ""
    roots: int = 0


def has_root(spans: Iterable[Span]) -> bool:
    """Whether the span that the others stem from is among them; a log's record is none."""
    return any(not span.parent_id and not span.is_log for span in spans)
