"""OTLP requests in Protobuf and JSON, of spans and of log records, as one form of span. Pure."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import orjson
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError as ProtobufError
from opentelemetry.proto.common.v1 import common_pb2
from opentelemetry.proto.logs.v1 import logs_pb2
from opentelemetry.proto.resource.v1 import resource_pb2
from opentelemetry.proto.trace.v1 import trace_pb2

from streams.errors import undecodable
from streams.intake.reading.otlp.span import (
    ERROR,
    EVENT_PARTS,
    OBJECTS,
    PARTS,
    SPANS,
    Keep,
    ObjectBudget,
    ScopeRecords,
    Span,
    SpanEvent,
    log_span,
)
from streams.intake.sampling import Head

_TRACE_ID_BYTES: Final = 16


def heads(value: bytes) -> list[Head]:
    """Read the ids, tracestate and number of roots of each trace, for sampling."""
    if _is_json(value):
        return [Head(*head) for head in _by_trace(_json_heads(value))]
    # Most traces of a request are not sampled: their ids stay bytes until here.
    found = _by_trace(_protobuf_heads(value))
    return [Head(trace_id.hex(), state.decode("latin-1"), roots) for trace_id, state, roots in found]


def _by_trace(spans: Iterable[tuple[Any, Any, bool]]) -> list[tuple[Any, Any, int]]:
    found: dict[Any, tuple[Any, int]] = {}
    for trace_id, tracestate, is_root in spans:
        state, roots = found.get(trace_id, (tracestate, 0))
        found[trace_id] = state or tracestate, roots + is_root
    return [(trace_id, state, roots) for trace_id, (state, roots) in found.items()]


def spans(value: bytes, keep: Keep = lambda _: True) -> list[Span]:
    """Read a request's spans, or its log records as spans, in its order."""
    return list(_json_spans(value, keep) if _is_json(value) else _protobuf_spans(value, keep))


def _is_json(value: bytes) -> bool:
    if value[:1] == b"{":
        return True
    # A line feed is white space in JSON and the first tag in Protobuf, which a brace rarely follows.
    return value[:1] in b" \t\r\n" and value[:64].lstrip()[:1] == b"{" and _parsed(_TRACES, value) is None


# Protobuf


def _messages(**fields: Sequence[str]) -> tuple[Any, Any]:
    """Cut the library's messages to some fields, with texts as bytes: some are not UTF-8."""
    pool = descriptor_pool.DescriptorPool()
    for module in (common_pb2, resource_pb2, trace_pb2, logs_pb2):
        file = descriptor_pb2.FileDescriptorProto()
        module.DESCRIPTOR.CopyToProto(file)
        for message in file.message_type:
            kept = [
                one for one in message.field if message.name not in fields or one.name in fields[message.name]
            ]
            for field in [*kept, *(inner for nested in message.nested_type for inner in nested.field)]:
                if field.type == field.TYPE_STRING:
                    field.type = field.TYPE_BYTES
            kept = [descriptor_pb2.FieldDescriptorProto.FromString(one.SerializeToString()) for one in kept]
            del message.field[:]
            message.field.extend(kept)
        pool.Add(file)
    names = ("opentelemetry.proto.trace.v1.TracesData", "opentelemetry.proto.logs.v1.LogsData")
    traces, logs = (message_factory.GetMessageClass(pool.FindMessageTypeByName(name)) for name in names)
    return traces, logs


_TRACES, _LOGS = _messages()
# For sampling: without the other fields parsing takes a third of the time.
_TRACE_HEADS, _ = _messages(
    Span=("trace_id", "trace_state", "parent_span_id"), Resource=(), InstrumentationScope=()
)


def _parsed(message: Any, value: bytes) -> Any:
    try:
        return message.FromString(value)
    except ProtobufError:
        return None


def _protobuf_groups(value: bytes, message: Any) -> list[ScopeRecords]:
    # Both kinds have the same outer fields. Those of a log record have other types than a span's of the same
    # number, except that its trace id has the number of a span's attributes.
    heads = _parsed(_TRACE_HEADS, value)
    groups = [] if heads is None else _grouped(heads, [_OF_SPANS], getattr)
    is_of_spans = any(len(one.trace_id) == _TRACE_ID_BYTES for group in groups for one in group.records)
    if is_of_spans and message is _TRACE_HEADS:
        return groups
    request = _parsed(message if is_of_spans else _LOGS, value)
    if request is None:
        raise undecodable(
            f"value: is not an OTLP request in Protobuf (got {value[:16]!r}...); "
            "set the exporter's encoding to otlp_proto or otlp_json, or ingest.format to json"
        )
    return _grouped(request, [_OF_SPANS if is_of_spans else _OF_LOGS], getattr)


def _protobuf_heads(value: bytes) -> Iterator[tuple[bytes, bytes, bool]]:
    for group in _protobuf_groups(value, _TRACE_HEADS):
        for record in group.records:
            trace_id = record.trace_id
            if group.are_logs:
                yield trace_id, b"", False
            elif len(trace_id) == _TRACE_ID_BYTES:
                yield trace_id, record.trace_state, not record.parent_span_id


def _protobuf_spans(value: bytes, keep: Keep) -> Iterator[Span]:
    budget = ObjectBudget(*PARTS)
    for group in _protobuf_groups(value, _TRACES):
        resource, scope = _attributes(group.resource.attributes, budget), _text(group.scope.name)
        for record in group.records:
            trace_id = record.trace_id.hex()
            if (len(record.trace_id) != _TRACE_ID_BYTES and not group.are_logs) or not keep(trace_id):
                continue
            attributes = _attributes(record.attributes, budget)
            if group.are_logs:
                span = Span(trace_id, record.span_id.hex(), "", "", "", scope, resource, attributes)
                time = record.time_unix_nano or record.observed_time_unix_nano
                yield log_span(span, _text(record.event_name), _value(record.body, budget), time)
                continue
            budget.take(EVENT_PARTS * len(record.events))
            yield Span(
                trace_id,
                record.span_id.hex(),
                record.parent_span_id.hex(),
                record.trace_state.decode("latin-1"),
                _text(record.name),
                scope,
                resource,
                attributes,
                record.start_time_unix_nano,
                record.end_time_unix_nano,
                tuple(
                    [SpanEvent(_text(one.name), _attributes(one.attributes, budget)) for one in record.events]
                ),
                _text(record.status.message) or "error" if record.status.code in ERROR else None,
            )


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")


def _value(any_value: Any, budget: ObjectBudget) -> Any:
    kind = any_value.WhichOneof("value")
    if kind == "string_value":
        return _text(any_value.string_value)
    if kind == "array_value":
        values = any_value.array_value.values
        budget.take(len(values))
        return [_value(item, budget) for item in values]
    if kind == "kvlist_value":
        return _attributes(any_value.kvlist_value.values, budget)
    return getattr(any_value, kind) if kind in {"bool_value", "int_value", "double_value"} else None


def _attributes(pairs: Sequence[Any], budget: ObjectBudget) -> dict[str, Any]:
    budget.take(len(pairs))
    return {_text(pair.key): _value(pair.value, budget) for pair in pairs}


_OF_SPANS: Final = "resource_spans", "scope_spans", "spans"
_OF_LOGS: Final = "resource_logs", "scope_logs", "log_records"


def _grouped(
    request: Any, ways: Sequence[Sequence[str]], get: Callable[[Any, str], Any]
) -> list[ScopeRecords]:
    budget = ObjectBudget(*SPANS)

    def counted(message: Any, name: str) -> Sequence[Any]:
        messages: Sequence[Any] = get(message, name)
        budget.take(len(messages))
        return messages

    return [
        ScopeRecords(get(of_resource, "resource"), get(of_scope, "scope"), records, names is _OF_LOGS)
        for names in ways
        for of_resource in counted(request, names[0])
        for of_scope in counted(of_resource, names[1])
        for records in [counted(of_scope, names[2])]
    ]


# JSON: `json_format` would take ten times as long, and reads the hexadecimal ids as base64


def _json_groups(value: bytes) -> list[ScopeRecords]:
    ObjectBudget(*OBJECTS).take(value.count(b"{") + value.count(b"["))
    try:
        try:
            request = orjson.loads(value)
        except orjson.JSONDecodeError:  # one text that is not UTF-8 must not lose a request
            request = orjson.loads(value.decode("utf-8", "replace"))
        if request and request.keys().isdisjoint(("resourceSpans", "resourceLogs")):
            names = ", ".join(sorted(request)[:5])[:100]
            raise ValueError(f"has neither resourceSpans nor resourceLogs (got {names})")  # noqa: TRY301
        return _grouped(request, [_OF_SPANS, _OF_LOGS], _json_field)
    except (ValueError, AttributeError) as error:
        raise undecodable(
            f"value: is not an OTLP request in JSON, {error}; "
            "let the Kafka exporter of a current Collector write it"
        ) from None


_OF_JSON: Final = "resourceSpans", "scopeSpans", "spans", "resourceLogs", "scopeLogs", "logRecords"
_JSON_NAMES: Final = dict(zip((*_OF_SPANS, *_OF_LOGS), _OF_JSON, strict=True))


def _json_field(message: Mapping[str, Any], name: str) -> Any:
    """Read a resource, a scope, or a list of messages."""
    if name not in _JSON_NAMES:
        return message.get(name)
    if "instrumentationLibrarySpans" in message:
        raise ValueError("has instrumentationLibrarySpans, as OTLP before 0.15 does")
    messages = message.get(_JSON_NAMES[name]) or []
    if not isinstance(messages, list) or not all(isinstance(one, dict) for one in messages):
        raise ValueError(f"{_JSON_NAMES[name]} must be a list of objects")
    return messages


def _json_heads(value: bytes) -> Iterator[tuple[str, str, bool]]:
    for group in _json_groups(value):
        for record in group.records:
            is_root = not group.are_logs and not record.get("parentSpanId")
            yield _id(record, "traceId"), _json_text(record, "traceState"), is_root


def _json_spans(value: bytes, keep: Keep) -> Iterator[Span]:
    budget = ObjectBudget(*PARTS)
    for group in _json_groups(value):
        resource, scope = _json_attributes(group.resource, budget), _json_text(group.scope, "name")
        for record in group.records:
            trace_id = _id(record, "traceId")
            if not keep(trace_id):
                continue
            attributes = _json_attributes(record, budget)
            events = record.get("events")
            events = events if isinstance(events, list) else []
            budget.take(EVENT_PARTS * len(events))
            status = record.get("status")
            status = status if isinstance(status, dict) else {}
            span = Span(
                trace_id,
                _id(record, "spanId"),
                _id(record, "parentSpanId"),
                _json_text(record, "traceState"),
                _json_text(record, "name"),
                scope,
                resource,
                attributes,
                _number(record, "startTimeUnixNano"),
                _number(record, "endTimeUnixNano"),
                tuple(SpanEvent(_json_text(one, "name"), _json_attributes(one, budget)) for one in events),
                _json_text(status, "message") or "error" if status.get("code") in ERROR else None,
            )
            if group.are_logs:
                name, body = _json_text(record, "eventName"), _json_value(record.get("body"), budget)
                time = _number(record, "timeUnixNano") or _number(record, "observedTimeUnixNano")
                span = log_span(span, name, body, time)
            yield span


def _json_text(message: Any, name: str) -> str:
    value = message.get(name) if isinstance(message, dict) else None
    return value if isinstance(value, str) else ""


def _id(message: Mapping[str, Any], name: str) -> str:
    """Read an id: hexadecimal as OTLP/JSON says, or base64 as the plain JSON form of Protobuf writes it."""
    value = _json_text(message, name)
    if not value or len(value) in {16, 32}:
        return value.lower()
    try:
        return base64.b64decode(value, validate=True).hex()
    except (binascii.Error, ValueError):
        return value.lower()


def _number(message: Mapping[str, Any], name: str) -> int:
    try:
        return int(message.get(name) or 0)  # 64-bit numbers are texts
    except (OverflowError, TypeError, ValueError):
        return 0


def _json_value(any_value: Any, budget: ObjectBudget) -> Any:
    if not isinstance(any_value, dict) or not any_value:
        return None
    kind, value = next(iter(any_value.items()))
    if kind == "arrayValue":
        inner = value.get("values") if isinstance(value, dict) else None
        items = inner if isinstance(inner, list) else []
        budget.take(len(items))
        return [_json_value(item, budget) for item in items]
    if kind == "kvlistValue":
        return _json_attributes(value, budget, "values")
    if kind in {"intValue", "doubleValue"}:
        try:
            return int(value) if kind == "intValue" else float(value)
        except (TypeError, ValueError, OverflowError):
            return None
    return value if kind in {"stringValue", "boolValue"} else None


def _json_attributes(message: Any, budget: ObjectBudget, name: str = "attributes") -> dict[str, Any]:
    pairs = message.get(name) if isinstance(message, dict) else None
    if not isinstance(pairs, list):
        return {}
    budget.take(len(pairs))
    return {
        pair["key"]: _json_value(pair.get("value"), budget)
        for pair in pairs
        if isinstance(pair, dict) and isinstance(pair.get("key"), str)
    }
