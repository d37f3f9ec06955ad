"""OTLP requests in JSON. Pure.

`json_format` would take ten times as long, and reads the hexadecimal ids of OTLP/JSON as base64.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Mapping
from typing import Any, Final

import orjson

from streams.errors import undecodable
from streams.intake.reading.otlp.span import (
    ERROR,
    EVENT_PARTS,
    Keep,
    ObjectBudget,
    ScopeRecords,
    Span,
    SpanEvent,
    log_span,
)

MAX_OBJECTS: Final = 250_000
"""Opening brackets of a request in JSON; an attribute has two in at least 30 bytes."""


def _groups(value: bytes) -> list[ScopeRecords]:
    ObjectBudget(MAX_OBJECTS, "objects in JSON").take(value.count(b"{") + value.count(b"["))
    try:
        request = _loaded(value)
        if request and request.keys().isdisjoint(("resourceSpans", "resourceLogs")):
            names = ", ".join(sorted(request)[:5])[:100]
            raise ValueError(f"has neither resourceSpans nor resourceLogs (got {names})")  # noqa: TRY301
        budget = ObjectBudget.of_spans()
        traces = _grouped(request, ("resourceSpans", "scopeSpans", "spans"), budget)
        return traces + _grouped(request, ("resourceLogs", "scopeLogs", "logRecords"), budget)
    except (ValueError, AttributeError) as error:
        raise undecodable(
            f"value: is not an OTLP request in JSON, {error}; "
            "let the Kafka exporter of a current Collector write it"
        ) from None


def _loaded(value: bytes) -> Any:
    try:
        return orjson.loads(value)
    except orjson.JSONDecodeError:  # one text that is not UTF-8 must not lose a request
        return orjson.loads(value.decode("utf-8", "replace"))


def _grouped(request: Any, names: tuple[str, str, str], budget: ObjectBudget) -> list[ScopeRecords]:
    groups = []
    for of_resource in _list(request, names[0]):
        if "instrumentationLibrarySpans" in of_resource:
            raise ValueError("has instrumentationLibrarySpans, as OTLP before 0.15 does")
        for of_scope in _list(of_resource, names[1]):
            records = _list(of_scope, names[2])
            budget.take(1 + len(records))
            are_logs = names[2] == "logRecords"
            groups.append(ScopeRecords(of_resource.get("resource"), of_scope.get("scope"), records, are_logs))
    return groups


def _list(message: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    messages = message.get(name) or []
    if not isinstance(messages, list) or not all(isinstance(one, dict) for one in messages):
        raise ValueError(f"{name} must be a list of objects")
    return messages


def json_heads(value: bytes) -> Iterator[tuple[str, str, bool]]:
    """Yield the trace id and tracestate of each span or log record, and whether it is a root."""
    for group in _groups(value):
        for record in group.records:
            is_root = not group.are_logs and not record.get("parentSpanId")
            yield _id(record, "traceId"), _text(record, "traceState"), is_root


def json_spans(value: bytes, keep: Keep) -> Iterator[Span]:
    """Yield the spans and log records of the traces to keep."""
    budget = ObjectBudget.of_parts()
    for group in _groups(value):
        resource, scope = _attributes(group.resource, budget), _text(group.scope, "name")
        for record in group.records:
            trace_id = _id(record, "traceId")
            if not keep(trace_id):
                continue
            attributes = _attributes(record, budget)
            events = record.get("events")
            events = events if isinstance(events, list) else []
            budget.take(EVENT_PARTS * len(events))
            status = record.get("status")
            status = status if isinstance(status, dict) else {}
            span = Span(
                trace_id,
                _id(record, "spanId"),
                _id(record, "parentSpanId"),
                _text(record, "traceState"),
                _text(record, "name"),
                scope,
                resource,
                attributes,
                _number(record, "startTimeUnixNano"),
                _number(record, "endTimeUnixNano"),
                tuple(SpanEvent(_text(one, "name"), _attributes(one, budget)) for one in events),
                _text(status, "message") or "error" if status.get("code") in ERROR else None,
            )
            if group.are_logs:
                name, body = _text(record, "eventName"), _value(record.get("body"), budget)
                time = _number(record, "timeUnixNano") or _number(record, "observedTimeUnixNano")
                span = log_span(span, name, attributes, body, time)
            yield span


def _text(message: Any, name: str) -> str:
    value = message.get(name) if isinstance(message, dict) else None
    return value if isinstance(value, str) else ""


def _id(message: Mapping[str, Any], name: str) -> str:
    """Read an id: hexadecimal as OTLP/JSON says, or base64 as the plain JSON form of Protobuf writes it."""
    value = _text(message, name)
    if not value or len(value) in {16, 32}:
        return value.lower()
    try:
        return base64.b64decode(value, validate=True).hex()
    except (binascii.Error, ValueError):
        return value.lower()


def _number(message: Mapping[str, Any], name: str) -> int:
    """Read a 64-bit number, which the JSON form of Protobuf writes as text."""
    try:
        return int(message.get(name) or 0)
    except (OverflowError, TypeError, ValueError):
        return 0


def _value(any_value: Any, budget: ObjectBudget) -> Any:
    if not isinstance(any_value, dict) or not any_value:
        return None
    kind, value = next(iter(any_value.items()))
    if kind == "arrayValue":
        inner = value.get("values") if isinstance(value, dict) else None
        items = inner if isinstance(inner, list) else []
        budget.take(len(items))
        return [_value(item, budget) for item in items]
    if kind == "kvlistValue":
        return _attributes(value, budget, "values")
    if kind in {"intValue", "doubleValue"}:  # 64-bit numbers are texts
        try:
            return int(value) if kind == "intValue" else float(value)
        except (TypeError, ValueError, OverflowError):
            return None
    return value if kind in {"stringValue", "boolValue"} else None


def _attributes(message: Any, budget: ObjectBudget, name: str = "attributes") -> dict[str, Any]:
    pairs = message.get(name) if isinstance(message, dict) else None
    if not isinstance(pairs, list):
        return {}
    budget.take(len(pairs))
    return {
        pair["key"]: _value(pair.get("value"), budget)
        for pair in pairs
        if isinstance(pair, dict) and isinstance(pair.get("key"), str)
    }
