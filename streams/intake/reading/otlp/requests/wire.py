"""The two encodings of an OTLP request, Protobuf and JSON, of spans and of log records. Pure.

The first byte identifies the encoding: a Protobuf request begins with the tag of its first field (0x0a), a
JSON request with a brace. The ids distinguish spans from log records: a span has a trace id of 16 bytes under
number 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from operator import attrgetter
from typing import Any, Final

from google.protobuf.message import DecodeError as ProtobufError

from streams.errors import DecodeError
from streams.intake.reading.otlp.requests.bounds import (
    EVENT_PARTS,
    Budget,
    parts_budget,
    spans_budget,
)
from streams.intake.reading.otlp.requests.json_request import HEADS, REQUEST, json_request
from streams.intake.reading.otlp.requests.json_spans import ERROR, Keep, identifier, json_spans
from streams.intake.reading.otlp.requests.log_record import log_span
from streams.intake.reading.otlp.requests.messages import Heads, LogHeads, Logs, Traces
from streams.intake.reading.otlp.span import Attributes, Head, Span, SpanEvent

_TRACE_ID_BYTES: Final = 16


def heads(value: bytes) -> list[Head]:
    """Read the ids, tracestate and number of roots of each trace, for sampling.

    Args:
        value: A request in either encoding.

    Raises:
        DecodeError: It is not an OTLP request, or exceeds the limits of `bounds`.
    """
    if _is_json(value):
        return _gathered(_json_heads(json_request(HEADS, value)))
    found = _span_heads(value)
    return found or _gathered(_log_heads(_parse(LogHeads, value)))


def _span_heads(value: bytes) -> list[Head]:
    """As `heads`, for spans in Protobuf. It may run on every record, so the work for each span is small."""
    traces: dict[bytes, list[Any]] = {}
    last = b""
    gathered: list[Any] = ["", 0]
    for heads_of_scope in _scopes(_parse(Heads, value)):
        for head in heads_of_scope:
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


def _scopes(request: Any) -> Iterator[Any]:
    """The heads of each scope."""
    _count(request.resources, attrgetter("scopes"), attrgetter("heads"))
    return (scope.heads for resource in request.resources for scope in resource.scopes)


def _log_heads(request: Any) -> Iterator[tuple[str, str, bool]]:
    for heads_of_scope in _scopes(request):
        for head in heads_of_scope:
            yield head.trace_id.hex(), "", False


def _json_heads(request: Any) -> Iterator[tuple[str, str, bool]]:
    budget = spans_budget()
    for resource in request.resource_spans or ():
        for scope in resource.scope_spans or ():
            budget.take(1 + len(scope.spans or ()))
            for span in scope.spans or ():
                yield identifier(span.trace_id), span.trace_state or "", not span.parent_span_id
    for resource in request.resource_logs or ():
        for scope in resource.scope_logs or ():
            budget.take(1 + len(scope.log_records or ()))
            for record in scope.log_records or ():
                yield identifier(record.trace_id), "", False


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
        keep: Selects trace ids; other spans are not read.

    Returns:
        Its spans, or its log records as spans, in the request's order.

    Raises:
        DecodeError: It is not an OTLP request, or exceeds the limits of `bounds`.
    """
    budget = parts_budget()
    if _is_json(value):
        return list(json_spans(json_request(REQUEST, value), keep, budget))
    try:
        traces = Traces.FromString(value)
    except ProtobufError as error:  # a log record's trace id has the field number of a span's attributes
        if _span_heads(value):
            raise _no_request(value, error) from None  # it has spans, whose heads are readable
        traces = None
    found = None if traces is None else _protobuf_spans(traces, keep, budget)
    if found is not None:
        return found
    logs = _parse(Logs, value)
    _count(logs.resource_logs, attrgetter("scope_logs"), attrgetter("log_records"))
    return list(_protobuf_logs(logs, keep, parts_budget()))


def _count(resources: Any, scopes: Callable[[Any], Any], held: Callable[[Any], Any]) -> None:
    """Refuse more than `bounds` allows, before any object is built."""
    budget = spans_budget()
    budget.take(len(resources))
    for resource in resources:
        budget.take(len(scopes(resource)))
        for scope in scopes(resource):
            budget.take(len(held(scope)))


def _is_json(value: bytes) -> bool:
    if value[:1] == b"{":
        return True
    # A line feed is white space in JSON and the first tag of a Protobuf request; a brace rarely follows the
    # tag.
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
        raise _no_request(value, error) from None


def _no_request(value: bytes, error: Exception) -> DecodeError:
    return DecodeError(
        "undecodable",
        f"value: is not an OTLP request in Protobuf, {error} (got {value[:16]!r}...); "
        "set the exporter's encoding to otlp_proto or otlp_json, or ingest.format to json",
    )


# Protobuf


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")


def _value(any_value: Any, budget: Budget) -> Any:
    kind = any_value.WhichOneof("value")
    if kind == "string_value":
        return _text(any_value.string_value)
    if kind == "array_value":
        values = any_value.array_value.values
        budget.take(len(values))
        return [_value(item, budget) for item in values]
    if kind == "kvlist_value":
        return _attributes(any_value.kvlist_value.values, budget)
    return None if kind is None or kind == "bytes_value" else getattr(any_value, kind)


def _attributes(pairs: Sequence[Any], budget: Budget) -> dict[str, Any]:
    budget.take(len(pairs))
    return {
        _name(pair.key): text.decode("utf-8", "replace")  # as `_value` does: most are texts
        if (text := (value := pair.value).string_value)
        else _value(value, budget)
        for pair in pairs
    }


@lru_cache(maxsize=4096)
def _name(raw: bytes) -> str:
    """An attribute's name; the same few names recur."""
    return _text(raw)


def _protobuf_spans(request: Any, keep: Keep, budget: Budget) -> list[Span] | None:
    """Read the selected spans; None where no span has a trace id."""
    _count(request.resource_spans, attrgetter("scope_spans"), attrgetter("spans"))
    found: list[Span] = []
    has_spans = False
    for of_resource in request.resource_spans:
        resource = _attributes(of_resource.resource.attributes, budget)
        for of_scope in of_resource.scope_spans:
            scope = _text(of_scope.scope.name)
            for span in of_scope.spans:
                if len(span.trace_id) != _TRACE_ID_BYTES:
                    continue
                has_spans = True
                trace_id = span.trace_id.hex()
                if keep(trace_id):
                    found.append(_protobuf_span(span, trace_id, scope, resource, budget))
    return found if has_spans else None


def _protobuf_span(span: Any, trace_id: str, scope: str, resource: Attributes, budget: Budget) -> Span:
    if events := span.events:
        budget.take(EVENT_PARTS * len(events))
    status = span.status
    return Span(
        trace_id,
        span.span_id.hex(),
        span.parent_span_id.hex(),
        span.trace_state.decode("latin-1"),
        _text(span.name),
        scope,
        resource,
        _attributes(span.attributes, budget),
        span.start_time_unix_nano,
        span.end_time_unix_nano,
        tuple([SpanEvent(_text(one.name), _attributes(one.attributes, budget)) for one in events])
        if events
        else (),
        _text(status.message) or "error" if status.code == ERROR else None,
    )


def _protobuf_logs(request: Any, keep: Keep, budget: Budget) -> Iterator[Span]:
    for of_resource in request.resource_logs:
        resource = _attributes(of_resource.resource.attributes, budget)
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
                    _attributes(record.attributes, budget),
                    _value(record.body, budget),
                    record.time_unix_nano or record.observed_time_unix_nano,
                )
