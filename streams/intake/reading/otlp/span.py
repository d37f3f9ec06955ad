"""One span, read from a request in Protobuf or JSON, and the limits on a request's objects. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from streams.errors import DecodeError

SPANS: Final = 20_000, "spans, scopes and resources"
"""With log records. A Collector's batch has 8,192 by default."""
PARTS: Final = 100_000, "attributes and events"
"""With nested values. An empty one takes two bytes, its Python object a kilobyte."""
OBJECTS: Final = 250_000, "objects in JSON"
"""Opening brackets of a request in JSON; an attribute has two in at least 30 bytes."""
EVENT_PARTS: Final = 4
ERROR: Final = (2, "STATUS_CODE_ERROR")

Attributes = Mapping[str, Any]
"""Name to text, number, truth value, list or mapping; None for a value of another type."""
Keep = Callable[[str], bool]
"""Selects trace ids whose spans are read."""


class SpanEvent(NamedTuple):
    name: str
    attributes: Attributes


class Span(NamedTuple):
    """One span, or one log record of a model call read as a span."""

    trace_id: str  # 32 lower-case hexadecimal digits; empty where the record has none
    span_id: str  # 16 lower-case hexadecimal digits
    parent_id: str  # empty for a root
    tracestate: str
    name: str  # of a log record: its event's name
    scope: str  # the instrumentation
    resource: Attributes  # of the service
    attributes: Attributes
    start: int = 0  # nanoseconds since the epoch; 0 where unknown
    end: int = 0
    events: tuple[SpanEvent, ...] = ()
    error: str | None = None  # the message of a status that is an error
    is_log: bool = False


class ScopeRecords(NamedTuple):
    """The spans or log records of one instrumentation, not read yet."""

    resource: Any
    scope: Any
    records: Sequence[Any]
    are_logs: bool


class ObjectBudget:
    """Counts the objects of a request before they are made; refuses a request with more than `limit`."""

    def __init__(self, limit: int, of: str) -> None:
        self._left = self._limit = limit
        self._of = of

    def take(self, count: int) -> None:
        self._left -= count
        if self._left < 0:
            raise DecodeError(
                "oversized",
                f"value: must have at most {self._limit} {self._of}; "
                "lower send_batch_size and send_batch_max_size of the Collector's batch processor",
            )


def log_span(span: Span, event_name: str, body: Any, time: int) -> Span:
    """Complete the span that a log record becomes."""
    attributes = span.attributes
    name = event_name or attributes.get("event.name")  # of older instrumentations
    if isinstance(body, dict):  # AWS Distro for OpenTelemetry writes the messages into it
        content = {key: value for key, value in body.items() if key.startswith("gen_ai.")}
        for side in ("input", "output"):
            if isinstance(exchanged := body.get(side), dict) and "messages" in exchanged:
                content[f"gen_ai.{side}.messages"] = exchanged["messages"]
        attributes = {**content, **attributes, "body": body}
    elif isinstance(body, str) and isinstance(name, str) and name.startswith("gen_ai."):
        attributes = {**attributes, "body": body}
    threshold = attributes.get("sampling.threshold")  # of the Collector's sampler
    by_trace_id = isinstance(threshold, str) and "sampling.randomness" not in attributes
    return span._replace(
        name=name if isinstance(name, str) else "",
        tracestate=f"ot=th:{threshold}" if by_trace_id else "",
        attributes=attributes,
        start=time,
        end=time,
        is_log=True,
    )
