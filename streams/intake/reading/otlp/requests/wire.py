"""The two encodings of an OTLP request, Protobuf and JSON, of spans and of log records. Pure.

Which one it is, its first byte says: a Protobuf request begins with the tag of its first field (0x0a), a JSON
one with a brace. Whether it holds spans or log records shows in the ids: a span has a trace id of 16 bytes
under number 1.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Any, Final

from google.protobuf.message import DecodeError as ProtobufError

from streams.errors import DecodeError
from streams.intake.reading.otlp.requests.json_request import (
    HEADS,
    REQUEST,
    JsonSpan,
    Request,
    json_request,
)
from streams.intake.reading.otlp.requests.log_record import log_span
from streams.intake.reading.otlp.requests.messages import Heads, LogHeads, Logs, Traces
from streams.intake.reading.otlp.span import Attributes, Head, Span, SpanEvent

Keep = Callable[[str], bool]
"""Says of a trace id whether its spans are wanted."""

_ERROR: Final = 2
"""Status code of a span that failed."""
_TRACE_ID_BYTES: Final = 16


def heads(value: bytes) -> list[Head]:
    """Read what sampling looks at, by trace: ids, tracestate, and how many roots there are.

    Args:
        value: A request in either encoding.

    Raises:
        DecodeError: It is no OTLP request.
    """
    if _is_json(value):
        return _gathered(_json_heads(json_request(HEADS, value)))
    found = _span_heads(value)
    return found or _gathered(
        (head.trace_id.hex(), "", False)
        for resource in _parse(LogHeads, value).resources
        for scope in resource.scopes
        for head in scope.heads
    )


def _span_heads(value: bytes) -> list[Head]:
    """As `heads`, of spans in Protobuf: this runs on every record, so each span costs a comparison or two."""
    traces: dict[bytes, list[Any]] = {}
    last = b""
    gathered: list[Any] = ["", 0]
    for resource in _parse(Heads, value).resources:
        for scope in resource.scopes:
            for head in scope.heads:
                trace_id = head.trace_id
                if trace_id != last:
                    if len(trace_id) != _TRACE_ID_BYTES:
                        continue
                    last = trace_id
                    gathered = traces.setdefault(trace_id, ["", 0])
                if not head.parent_span_id:
                    gathered[1] += 1
                if (state := head.trace_state) and not gathered[0]:
                    gathered[0] = state.decode("latin-1")
    return [Head(trace_id.hex(), state, roots) for trace_id, (state, roots) in traces.items()]


def _json_heads(request: Any) -> Iterator[tuple[str, str, bool]]:
    for resource in request.resource_spans or ():
        for scope in resource.scope_spans or ():
            for span in scope.spans or ():
                yield _identifier(span.trace_id), span.trace_state or "", not span.parent_span_id
    for resource in request.resource_logs or ():
        for scope in resource.scope_logs or ():
            for record in scope.log_records or ():
                yield _identifier(record.trace_id), "", False


def _gathered(found: Iterable[tuple[str, str, bool]]) -> list[Head]:
    traces: dict[str, list[Any]] = {}
    for trace_id, state, is_root in found:
        gathered = traces.setdefault(trace_id, ["", 0])
        gathered[0] = gathered[0] or state
        gathered[1] += is_root
    return [Head(trace_id, state, roots) for trace_id, (state, roots) in traces.items()]


def spans(value: bytes, keep: Keep = lambda _: True) -> list[Span]:
    """Read a whole request.

    Args:
        value: A request in either encoding.
        keep: Says of a trace id whether its spans are wanted; the others cost next to nothing.

    Returns:
        Its spans, or its log records as spans, in the request's order.

    Raises:
        DecodeError: It is no OTLP request.
    """
    if _is_json(value):
        return list(_json_spans(json_request(REQUEST, value), keep))
    try:
        traces = Traces.FromString(value)
    except ProtobufError:  # a log record's trace id stands where a span has its attributes
        traces = None
    if traces is not None and _has_spans(traces):
        return list(_protobuf_spans(traces, keep))
    if _span_heads(value):
        return list(_protobuf_spans(_parse(Traces, value), keep))
    return list(_protobuf_logs(_parse(Logs, value), keep))


def _has_spans(traces: Any) -> bool:
    return any(
        len(span.trace_id) == _TRACE_ID_BYTES
        for of_resource in traces.resource_spans
        for of_scope in of_resource.scope_spans
        for span in of_scope.spans
    )


def _is_json(value: bytes) -> bool:
    if value[:1] == b"{":
        return True
    # A line feed is both white space of JSON and the first tag of a Protobuf request, which a brace rarely
    # follows.
    return value[:1] in b" \t\r\n" and value[:64].lstrip()[:1] == b"{" and _not_protobuf(value)


def _not_protobuf(value: bytes) -> bool:
    try:
        Heads.FromString(value)
    except ProtobufError:
        return True
    return False


def _parse(message: Any, value: bytes) -> Any:
    try:
        return message.FromString(value)
    except ProtobufError as error:
        raise DecodeError(
            "undecodable",
            f"value: is not an OTLP request in Protobuf, {error} (got {value[:16]!r}...); "
            "set the exporter's encoding to otlp_proto or otlp_json, or ingest.format to json",
        ) from None


# Protobuf


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")


def _value(any_value: Any) -> Any:
    kind = any_value.WhichOneof("value")
    if kind == "string_value":
        return _text(any_value.string_value)
    if kind == "array_value":
        return [_value(item) for item in any_value.array_value.values]
    if kind == "kvlist_value":
        return _attributes(any_value.kvlist_value.values)
    return None if kind is None or kind == "bytes_value" else getattr(any_value, kind)


def _attributes(pairs: Iterable[Any]) -> dict[str, Any]:
    return {
        _name(pair.key): str(text, "utf-8", "replace")  # as `_value` does: most are texts
        if (text := (value := pair.value).string_value)
        else _value(value)
        for pair in pairs
    }


@lru_cache(maxsize=4096)
def _name(raw: bytes) -> str:
    """An attribute's name; there are few of them, and they come again and again."""
    return _text(raw)


def _protobuf_spans(request: Any, keep: Keep) -> Iterator[Span]:
    for of_resource in request.resource_spans:
        resource = _attributes(of_resource.resource.attributes)
        for of_scope in of_resource.scope_spans:
            scope = _text(of_scope.scope.name)
            for span in of_scope.spans:
                trace_id = span.trace_id.hex()
                if len(trace_id) != 2 * _TRACE_ID_BYTES or not keep(trace_id):
                    continue
                yield Span(
                    trace_id=trace_id,
                    span_id=span.span_id.hex(),
                    parent_id=span.parent_span_id.hex(),
                    tracestate=span.trace_state.decode("latin-1"),
                    name=_text(span.name),
                    scope=scope,
                    resource=resource,
                    attributes=_attributes(span.attributes),
                    start=span.start_time_unix_nano,
                    end=span.end_time_unix_nano,
                    events=tuple(
                        [SpanEvent(_text(one.name), _attributes(one.attributes)) for one in span.events]
                    ),
                    error=_text(span.status.message) or "error" if span.status.code == _ERROR else None,
                )


def _protobuf_logs(request: Any, keep: Keep) -> Iterator[Span]:
    for of_resource in request.resource_logs:
        resource = _attributes(of_resource.resource.attributes)
        for of_scope in of_resource.scope_logs:
            scope = _text(of_scope.scope.name)
            for record in of_scope.log_records:
                if not keep(record.trace_id.hex()):
                    continue
                yield log_span(
                    record.trace_id.hex(),
                    record.span_id.hex(),
                    _text(record.event_name),
                    scope,
                    resource,
                    _attributes(record.attributes),
                    _value(record.body),
                    record.time_unix_nano or record.observed_time_unix_nano,
                )


# JSON


def _json_value(raw: Any) -> Any:
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
        inner = value.get("values") or () if isinstance(value, dict) else ()
        return [_json_value(item) for item in inner] if kind == "arrayValue" else _json_attributes(inner)
    return value if kind in {"stringValue", "boolValue"} else None


def _json_attributes(pairs: Iterable[Any] | None) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for pair in pairs or ():
        if isinstance(pair, dict) and isinstance(pair.get("key"), str):
            found[pair["key"]] = _json_value(pair.get("value"))
    return found


def _identifier(value: str | None) -> str:
    """An id: hexadecimal as OTLP/JSON says, or base64 as the plain JSON form of Protobuf writes it."""
    if not value:
        return ""
    if len(value) in {16, 32}:
        return value.lower()
    try:
        return base64.b64decode(value, validate=True).hex()
    except (binascii.Error, ValueError):
        return value.lower()


def _json_spans(request: Request, keep: Keep) -> Iterator[Span]:
    for of_resource in request.resource_spans or ():
        resource = _json_attributes(of_resource.resource.attributes if of_resource.resource else None)
        for of_scope in of_resource.scope_spans or ():
            scope = (of_scope.scope.name if of_scope.scope else None) or ""
            for span in of_scope.spans or ():
                trace_id = _identifier(span.trace_id)
                if keep(trace_id):
                    yield _json_span(span, trace_id, scope, resource)
    for of_logs in request.resource_logs or ():
        resource = _json_attributes(of_logs.resource.attributes if of_logs.resource else None)
        for of_log_scope in of_logs.scope_logs or ():
            scope = (of_log_scope.scope.name if of_log_scope.scope else None) or ""
            for record in of_log_scope.log_records or ():
                trace_id = _identifier(record.trace_id)
                if keep(trace_id):
                    yield log_span(
                        trace_id,
                        _identifier(record.span_id),
                        record.event_name or "",
                        scope,
                        resource,
                        _json_attributes(record.attributes),
                        _json_value(record.body),
                        _whole(record.time_unix_nano) or _whole(record.observed_time_unix_nano),
                    )


def _json_span(span: JsonSpan, trace_id: str, scope: str, resource: Attributes) -> Span:
    status = span.status
    failed = status is not None and status.code in {_ERROR, "STATUS_CODE_ERROR"}
    return Span(
        trace_id=trace_id,
        span_id=_identifier(span.span_id),
        parent_id=_identifier(span.parent_span_id),
        tracestate=span.trace_state or "",
        name=span.name or "",
        scope=scope,
        resource=resource,
        attributes=_json_attributes(span.attributes),
        start=_whole(span.start_time_unix_nano),
        end=_whole(span.end_time_unix_nano),
        events=tuple(
            SpanEvent(event.name or "", _json_attributes(event.attributes)) for event in span.events or ()
        ),
        error=(status.message if status is not None and status.message else "error") if failed else None,
    )


def _whole(value: Any) -> int:
    """A 64-bit number: digits as text, a number, or its halves as old JavaScript libraries write it."""
    try:
        if isinstance(value, dict):
            return (int(value["high"]) << 32) + (int(value["low"]) & 0xFFFFFFFF)
        return int(value or 0)
    except (KeyError, OverflowError, TypeError, ValueError):
        return 0
