"""The spans of an OTLP request in JSON. Pure."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec
import orjson

from streams.intake.reading.otlp.requests.bounds import EVENT_PARTS, Budget, spans_budget
from streams.intake.reading.otlp.requests.json_request import NOTHING, JsonSpan, Request
from streams.intake.reading.otlp.requests.log_record import log_span
from streams.intake.reading.otlp.span import Attributes, Span, SpanEvent

ERROR: Final = 2
"""Status code of a span that failed."""
Keep = Callable[[str], bool]
"""Selects trace ids whose spans are read."""


def _json_value(raw: Any, budget: Budget) -> Any:
    """The value of an AnyValue as JSON writes it: 64-bit numbers are texts, and bytes are base64."""
    if not isinstance(raw, dict) or not raw:
        return None
    kind, value = next(iter(raw.items()))
    if kind in {"intValue", "doubleValue"}:
        try:
            return int(value) if kind == "intValue" else float(value)
        except (TypeError, ValueError, OverflowError):
            return None
    if kind in {"arrayValue", "kvlistValue"}:
        inner = value.get("values") if isinstance(value, dict) else None
        if kind == "kvlistValue":
            return _json_attributes(inner, budget)
        inner = inner if isinstance(inner, list) else []
        budget.take(len(inner))
        return [_json_value(item, budget) for item in inner]
    return value if kind in {"stringValue", "boolValue"} else None


def _read(written: msgspec.Raw) -> Any:
    try:
        return orjson.loads(bytes(written))
    except orjson.JSONDecodeError:
        return None  # a number out of the range of a float


def _own_attributes(written: msgspec.Raw, budget: Budget) -> dict[str, Any]:
    return {} if written is NOTHING else _json_attributes(_read(written), budget)


def _json_attributes(pairs: Any, budget: Budget) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if not isinstance(pairs, list):
        return found
    budget.take(len(pairs))
    for pair in pairs:
        if isinstance(pair, dict) and isinstance(pair.get("key"), str):
            found[pair["key"]] = _json_value(pair.get("value"), budget)
    return found


def identifier(value: str | None) -> str:
    """Read an id: hexadecimal as OTLP/JSON says, or base64 as the plain JSON form of Protobuf writes it."""
    if not value:
        return ""
    if len(value) in {16, 32}:
        return value.lower()
    try:
        return base64.b64decode(value, validate=True).hex()
    except (binascii.Error, ValueError):
        return value.lower()


def json_spans(request: Request, keep: Keep, budget: Budget) -> Iterator[Span]:
    """Read the spans of a request, and its log records as spans, in order.

    Args:
        request: The request.
        keep: Selects trace ids.
        budget: Counts attributes and events.

    Raises:
        DecodeError: There are too many spans, attributes or events.
    """
    count = spans_budget()
    for of_resource in request.resource_spans or ():
        resource = _own_attributes(
            of_resource.resource.attributes if of_resource.resource else NOTHING, budget
        )
        for of_scope in of_resource.scope_spans or ():
            scope = (of_scope.scope.name if of_scope.scope else None) or ""
            count.take(1 + len(of_scope.spans or ()))
            for span in of_scope.spans or ():
                trace_id = identifier(span.trace_id)
                if keep(trace_id):
                    yield _json_span(span, trace_id, scope, resource, budget)
    for of_logs in request.resource_logs or ():
        resource = _own_attributes(of_logs.resource.attributes if of_logs.resource else NOTHING, budget)
        for of_log_scope in of_logs.scope_logs or ():
            scope = (of_log_scope.scope.name if of_log_scope.scope else None) or ""
            count.take(1 + len(of_log_scope.log_records or ()))
            for record in of_log_scope.log_records or ():
                trace_id = identifier(record.trace_id)
                if keep(trace_id):
                    yield log_span(
                        trace_id,
                        identifier(record.span_id),
                        record.event_name or "",
                        scope,
                        resource,
                        _own_attributes(record.attributes, budget),
                        _json_value(_read(record.body), budget),
                        _whole(record.time_unix_nano) or _whole(record.observed_time_unix_nano),
                    )


def _json_span(span: JsonSpan, trace_id: str, scope: str, resource: Attributes, budget: Budget) -> Span:
    status = span.status
    budget.take(EVENT_PARTS * len(span.events or ()))
    failed = status is not None and status.code in {ERROR, "STATUS_CODE_ERROR"}
    return Span(
        trace_id=trace_id,
        span_id=identifier(span.span_id),
        parent_id=identifier(span.parent_span_id),
        tracestate=span.trace_state or "",
        name=span.name or "",
        scope=scope,
        resource=resource,
        attributes=_own_attributes(span.attributes, budget),
        start=_whole(span.start_time_unix_nano),
        end=_whole(span.end_time_unix_nano),
        events=tuple(
            SpanEvent(event.name or "", _own_attributes(event.attributes, budget))
            for event in span.events or ()
        ),
        error=(status.message if status is not None and status.message else "error") if failed else None,
    )


def _whole(written: msgspec.Raw) -> int:
    """A 64-bit number: digits as text, a number, or its halves as old JavaScript libraries write it."""
    value = None if written is NOTHING else _read(written)
    try:
        if isinstance(value, dict):
            return (int(value["high"]) << 32) + (int(value["low"]) & 0xFFFFFFFF)
        return int(value or 0)
    except (KeyError, OverflowError, TypeError, ValueError):
        return 0
