"""The Protobuf messages of OTLP, with the fields that are read.

Declared here in place of the generated package: the parser in C skips the fields that are not declared, most
of a trace. Field numbers are those of opentelemetry-proto 1.x, which are stable:
`trace/v1/trace.proto`, `logs/v1/logs.proto`, `common/v1/common.proto`, `resource/v1/resource.proto`.
"""

from __future__ import annotations

from typing import Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_PACKAGE: Final = "judgestream.otlp"
_FIELD: Final = descriptor_pb2.FieldDescriptorProto
_SCALARS: Final[dict[str, int]] = {
    "bytes": _FIELD.TYPE_BYTES,
    "string": _FIELD.TYPE_STRING,
    "bool": _FIELD.TYPE_BOOL,
    "int64": _FIELD.TYPE_INT64,
    "double": _FIELD.TYPE_DOUBLE,
    "uint32": _FIELD.TYPE_UINT32,
    "enum": _FIELD.TYPE_INT32,
    "fixed64": _FIELD.TYPE_FIXED64,
}

# Message: field name -> (number, type); `*` marks a repeated field, a capital letter another message of this
# table. Text is declared as bytes, so that one text that is not UTF-8 does not make the record unreadable.
_MESSAGES: Final[dict[str, dict[str, tuple[int, str]]]] = {
    "AnyValue": {
        "string_value": (1, "bytes"),
        "bool_value": (2, "bool"),
        "int_value": (3, "int64"),
        "double_value": (4, "double"),
        "array_value": (5, "ArrayValue"),
        "kvlist_value": (6, "KeyValueList"),
        "bytes_value": (7, "bytes"),
    },
    "ArrayValue": {"values": (1, "*AnyValue")},
    "KeyValueList": {"values": (1, "*KeyValue")},
    "KeyValue": {"key": (1, "bytes"), "value": (2, "AnyValue")},
    "Scope": {"name": (1, "bytes"), "version": (2, "bytes")},
    "Resource": {"attributes": (1, "*KeyValue")},
    "Status": {"message": (2, "bytes"), "code": (3, "enum")},
    "SpanEvent": {"name": (2, "bytes"), "attributes": (3, "*KeyValue")},
    "Span": {
        "trace_id": (1, "bytes"),
        "span_id": (2, "bytes"),
        "trace_state": (3, "bytes"),
        "parent_span_id": (4, "bytes"),
        "name": (5, "bytes"),
        "start_time_unix_nano": (7, "fixed64"),
        "end_time_unix_nano": (8, "fixed64"),
        "attributes": (9, "*KeyValue"),
        "events": (11, "*SpanEvent"),
        "status": (15, "Status"),
    },
    "ScopeSpans": {"scope": (1, "Scope"), "spans": (2, "*Span")},
    "ResourceSpans": {"resource": (1, "Resource"), "scope_spans": (2, "*ScopeSpans")},
    "Traces": {"resource_spans": (1, "*ResourceSpans")},
    "LogRecord": {
        "time_unix_nano": (1, "fixed64"),
        "severity_number": (2, "enum"),
        "body": (5, "AnyValue"),
        "attributes": (6, "*KeyValue"),
        "trace_id": (9, "bytes"),
        "span_id": (10, "bytes"),
        "observed_time_unix_nano": (11, "fixed64"),
        "event_name": (12, "bytes"),
    },
    "ScopeLogs": {"scope": (1, "Scope"), "log_records": (2, "*LogRecord")},
    "ResourceLogs": {"resource": (1, "Resource"), "scope_logs": (2, "*ScopeLogs")},
    "Logs": {"resource_logs": (1, "*ResourceLogs")},
    # The fields that sampling needs. Both kinds of request have the same outer fields; a log record has
    # other types under a span's numbers, which the parser treats as unknown fields.
    "Head": {"trace_id": (1, "bytes"), "trace_state": (3, "bytes"), "parent_span_id": (4, "bytes")},
    "ScopeHeads": {"heads": (2, "*Head")},
    "ResourceHeads": {"scopes": (2, "*ScopeHeads")},
    "Heads": {"resources": (1, "*ResourceHeads")},
    "LogHead": {"trace_id": (9, "bytes")},
    "ScopeLogHeads": {"heads": (2, "*LogHead")},
    "ResourceLogHeads": {"scopes": (2, "*ScopeLogHeads")},
    "LogHeads": {"resources": (1, "*ResourceLogHeads")},
    # Spans as they are written: reading goes without these fields.
    "Link": {"trace_id": (1, "bytes"), "span_id": (2, "bytes")},
    "OwnSpan": {
        "trace_id": (1, "bytes"),
        "span_id": (2, "bytes"),
        "parent_span_id": (4, "bytes"),
        "name": (5, "bytes"),
        "kind": (6, "enum"),
        "start_time_unix_nano": (7, "fixed64"),
        "end_time_unix_nano": (8, "fixed64"),
        "attributes": (9, "*KeyValue"),
        "links": (13, "*Link"),
        "status": (15, "Status"),
    },
    "OwnScopeSpans": {"scope": (1, "Scope"), "spans": (2, "*OwnSpan")},
    "OwnResourceSpans": {"resource": (1, "Resource"), "scope_spans": (2, "*OwnScopeSpans")},
    "OwnTraces": {"resource_spans": (1, "*OwnResourceSpans")},
}


def _build() -> dict[str, Any]:
    file = descriptor_pb2.FileDescriptorProto(
        name="judgestream/otlp.proto", package=_PACKAGE, syntax="proto3"
    )
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        if name == "AnyValue":
            message.oneof_decl.add(name="value")
        for field, (number, kind) in fields.items():
            repeated, plain = kind.startswith("*"), kind.removeprefix("*")
            declared = message.field.add(
                name=field,
                number=number,
                label=_FIELD.LABEL_REPEATED if repeated else _FIELD.LABEL_OPTIONAL,
                type=_SCALARS.get(plain, _FIELD.TYPE_MESSAGE),
            )
            if plain not in _SCALARS:
                declared.type_name = f".{_PACKAGE}.{plain}"
            if name == "AnyValue":
                declared.oneof_index = 0
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.{name}"))
        for name in ("Traces", "Logs", "Heads", "LogHeads", "OwnTraces")
    }


_CLASSES: Final = _build()
Traces: Final[Any] = _CLASSES["Traces"]
Logs: Final[Any] = _CLASSES["Logs"]
Heads: Final[Any] = _CLASSES["Heads"]
LogHeads: Final[Any] = _CLASSES["LogHeads"]
OwnTraces: Final[Any] = _CLASSES["OwnTraces"]
