from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

TRACE = "0af7651916cd43dd8448eb211c80319c"
START = 1_795_291_000_000_000_000
_KINDS: dict[type, str] = {bool: "boolValue", int: "intValue", float: "doubleValue", str: "stringValue"}


def any_value(value: Any) -> dict[str, Any]:
    if type(value) in _KINDS:
        return {_KINDS[type(value)]: str(value) if type(value) is int else value}
    if isinstance(value, Mapping):
        return {"kvlistValue": {"values": key_values(value)}}
    return {"arrayValue": {"values": [any_value(item) for item in value]}}


def key_values(attributes: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [{"key": name, "value": any_value(value)} for name, value in attributes.items()]


def span(
    number: int,
    name: str,
    attributes: Mapping[str, Any] | None = None,
    *,
    parent: int | None = None,
    events: Sequence[tuple[str, Mapping[str, Any]]] = (),
    trace_id: str = TRACE,
    tracestate: str = "",
) -> dict[str, Any]:
    """Return a span; spans start and end in the order of their numbers, a parent ends after its children."""
    return {
        "traceId": trace_id,
        "spanId": f"{number:016x}",
        **({} if parent is None else {"parentSpanId": f"{parent:016x}"}),
        **({"traceState": tracestate} if tracestate else {}),
        "name": name,
        "startTimeUnixNano": str(START + number),
        "endTimeUnixNano": str(START + (1000 - number if parent is None else 500 + number)),
        "attributes": key_values(attributes or {}),
        "events": [{"name": one, "attributes": key_values(of_event)} for one, of_event in events],
    }


def request(
    *spans: Mapping[str, Any], scope: str = "test", resource: Mapping[str, Any] | None = None
) -> bytes:
    scopes = [{"scope": {"name": scope}, "spans": list(spans)}]
    service = {"attributes": key_values(resource or {"service.name": "shop"})}
    return json.dumps({"resourceSpans": [{"resource": service, "scopeSpans": scopes}]}).encode()


def log_request(*records: Mapping[str, Any], scope: str = "test") -> bytes:
    scopes = [{"scope": {"name": scope}, "logRecords": list(records)}]
    return json.dumps({"resourceLogs": [{"resource": {"attributes": []}, "scopeLogs": scopes}]}).encode()


def log_record(
    name: str, attributes: Mapping[str, Any], body: Any = None, *, span_id: int = 1, trace_id: str = TRACE
) -> dict[str, Any]:
    return {
        "traceId": trace_id,
        "spanId": f"{span_id:016x}",
        "timeUnixNano": str(START),
        "eventName": name,
        "attributes": key_values(attributes),
        **({} if body is None else {"body": any_value(body)}),
    }
