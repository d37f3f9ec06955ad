"""OTLP requests in Protobuf and JSON, of spans and of log records, as one form of span. Pure.

A Protobuf request begins with the tag of its first field (0x0a), a JSON request with a brace.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError as ProtobufError
from opentelemetry.proto.common.v1 import common_pb2
from opentelemetry.proto.logs.v1 import logs_pb2
from opentelemetry.proto.resource.v1 import resource_pb2
from opentelemetry.proto.trace.v1 import trace_pb2

from streams.errors import undecodable
from streams.intake.reading.otlp.json_request import json_heads, json_spans
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
from streams.intake.sampling import Head

_TRACE_ID_BYTES: Final = 16


def heads(value: bytes) -> list[Head]:
    """Read the ids, tracestate and number of roots of each trace, for sampling."""
    if _is_json(value):
        return [Head(*head) for head in _by_trace(json_heads(value))]
    # Most traces of a request are not sampled: their ids stay bytes until here.
    found = _by_trace(_protobuf_heads(value))
    return [Head(trace_id.hex(), state.decode("latin-1"), roots) for trace_id, state, roots in found]


def _by_trace(spans: Iterable[tuple[Any, Any, bool]]) -> list[tuple[Any, Any, int]]:
    """Give each trace's id, its first tracestate and its number of roots."""
    found: dict[Any, tuple[Any, int]] = {}
    for trace_id, tracestate, is_root in spans:
        state, roots = found.get(trace_id, (tracestate, 0))
        found[trace_id] = state or tracestate, roots + is_root
    return [(trace_id, state, roots) for trace_id, (state, roots) in found.items()]


def spans(value: bytes, keep: Keep = lambda _: True) -> list[Span]:
    """Read a request's spans, or its log records as spans, in its order."""
    return list(json_spans(value, keep) if _is_json(value) else _protobuf_spans(value, keep))


def _is_json(value: bytes) -> bool:
    if value[:1] == b"{":
        return True
    # A line feed is white space in JSON and the first tag in Protobuf, which a brace rarely follows.
    return value[:1] in b" \t\r\n" and value[:64].lstrip()[:1] == b"{" and _parsed(_TRACES, value) is None


# Protobuf


_HEAD_FIELDS: Final[Mapping[str, frozenset[str]]] = {
    "Span": frozenset({"trace_id", "trace_state", "parent_span_id"}),
    "Resource": frozenset(),
    "InstrumentationScope": frozenset(),
}
"""What is parsed for sampling: without the other fields parsing takes a third of the time."""


def _messages(fields: Mapping[str, frozenset[str]]) -> tuple[Any, Any]:
    """The library's messages, some with a part of their fields, and with texts as bytes.

    One text that is not UTF-8 must not lose a request.
    """
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


_TRACES, _LOGS = _messages({})
_TRACE_HEADS, _ = _messages(_HEAD_FIELDS)


def _parsed(message: Any, value: bytes) -> Any:
    try:
        return message.FromString(value)
    except ProtobufError:
        return None


def _protobuf_groups(value: bytes, message: Any) -> list[ScopeRecords]:
    """Parse a request of spans or of log records.

    Both kinds have the same outer fields. Those of a log record have other types than a span's of the same
    number, except that its trace id has the number of a span's attributes.
    """
    heads = _parsed(_TRACE_HEADS, value)
    groups = [] if heads is None else _grouped(heads.resource_spans, "scope_spans", "spans")
    is_of_spans = _have_trace_ids(groups)
    if is_of_spans and message is _TRACE_HEADS:
        return groups
    request = _parsed(message if is_of_spans else _LOGS, value)
    if request is None:
        raise undecodable(
            f"value: is not an OTLP request in Protobuf (got {value[:16]!r}...); "
            "set the exporter's encoding to otlp_proto or otlp_json, or ingest.format to json"
        )
    if is_of_spans:
        return _grouped(request.resource_spans, "scope_spans", "spans")
    return _grouped(request.resource_logs, "scope_logs", "log_records")


def _have_trace_ids(groups: Iterable[ScopeRecords]) -> bool:
    return any(len(record.trace_id) == _TRACE_ID_BYTES for group in groups for record in group.records)


def _grouped(resources: Any, scopes: str, records: str) -> list[ScopeRecords]:
    budget = ObjectBudget.of_spans()
    budget.take(len(resources))
    groups = []
    for of_resource in resources:
        of_scopes = getattr(of_resource, scopes)
        budget.take(len(of_scopes))
        for of_scope in of_scopes:
            held = getattr(of_scope, records)
            budget.take(len(held))
            groups.append(ScopeRecords(of_resource.resource, of_scope.scope, held, records == "log_records"))
    return groups


def _protobuf_heads(value: bytes) -> Iterator[tuple[bytes, bytes, bool]]:
    for group in _protobuf_groups(value, _TRACE_HEADS):
        for record in group.records:
            trace_id = record.trace_id
            if group.are_logs:
                yield trace_id, b"", False
            elif len(trace_id) == _TRACE_ID_BYTES:
                yield trace_id, record.trace_state, not record.parent_span_id


def _protobuf_spans(value: bytes, keep: Keep) -> Iterator[Span]:
    budget = ObjectBudget.of_parts()
    for group in _protobuf_groups(value, _TRACES):
        resource, scope = _attributes(group.resource.attributes, budget), _text(group.scope.name)
        for record in group.records:
            trace_id = record.trace_id.hex()
            if (len(record.trace_id) != _TRACE_ID_BYTES and not group.are_logs) or not keep(trace_id):
                continue
            attributes = _attributes(record.attributes, budget)
            if group.are_logs:
                yield log_span(
                    Span(trace_id, record.span_id.hex(), "", "", "", scope, resource, attributes),
                    _text(record.event_name),
                    attributes,
                    _value(record.body, budget),
                    record.time_unix_nano or record.observed_time_unix_nano,
                )
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
