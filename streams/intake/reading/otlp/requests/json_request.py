"""The schema of OTLP/JSON for msgspec, which skips the fields that it does not name.

Any field may be null, as some exporters write it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, TypeVar

import msgspec
import orjson

from streams.errors import DecodeError
from streams.intake.reading.otlp.requests.bounds import check_objects

NOTHING: Final = msgspec.Raw(b"null")
"""Fields of any type stay raw: msgspec takes 13 microseconds for a number like 1e308."""
_Number = msgspec.Raw
"""64-bit integers are texts in the JSON form of Protobuf; receivers accept numbers, too."""


class Scope(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The instrumentation."""

    name: str | None = ""


class Resource(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The service."""

    attributes: msgspec.Raw = NOTHING


class Status(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """How a span ended."""

    message: str | None = ""
    code: int | str = 0


class Event(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """An event within a span."""

    name: str | None = ""
    attributes: msgspec.Raw = NOTHING


class JsonSpan(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A span."""

    trace_id: str | None = ""
    span_id: str | None = ""
    trace_state: str | None = ""
    parent_span_id: str | None = ""
    name: str | None = ""
    start_time_unix_nano: _Number = NOTHING
    end_time_unix_nano: _Number = NOTHING
    attributes: msgspec.Raw = NOTHING
    events: list[Event] | None = None
    status: Status | None = None


class ScopeSpans(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The spans of one instrumentation."""

    scope: Scope | None = None
    spans: list[JsonSpan] | None = None


class ResourceSpans(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The spans of one service."""

    resource: Resource | None = None
    scope_spans: list[ScopeSpans] | None = None
    instrumentation_library_spans: msgspec.Raw = NOTHING


class JsonLogRecord(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A log record."""

    trace_id: str | None = ""
    span_id: str | None = ""
    event_name: str | None = ""
    time_unix_nano: _Number = NOTHING
    observed_time_unix_nano: _Number = NOTHING
    attributes: msgspec.Raw = NOTHING
    body: msgspec.Raw = NOTHING


class ScopeLogs(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The log records of one instrumentation."""

    scope: Scope | None = None
    log_records: list[JsonLogRecord] | None = None


class ResourceLogs(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The log records of one service."""

    resource: Resource | None = None
    scope_logs: list[ScopeLogs] | None = None


class Request(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A request, of spans or of log records."""

    resource_spans: list[ResourceSpans] | None = None
    resource_logs: list[ResourceLogs] | None = None


class JsonHead(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The fields of a span or log record that sampling needs."""

    trace_id: str | None = ""
    trace_state: str | None = ""
    parent_span_id: str | None = ""


class ScopeHeads(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The heads of one instrumentation."""

    spans: list[JsonHead] | None = None
    log_records: list[JsonHead] | None = None


class ResourceHeads(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The heads of one service."""

    scope_spans: list[ScopeHeads] | None = None
    scope_logs: list[ScopeHeads] | None = None
    instrumentation_library_spans: msgspec.Raw = NOTHING


class HeadsRequest(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The heads of a request."""

    resource_spans: list[ResourceHeads] | None = None
    resource_logs: list[ResourceHeads] | None = None


REQUEST: Final = msgspec.json.Decoder(Request)
HEADS: Final = msgspec.json.Decoder(HeadsRequest)

T = TypeVar("T", Request, HeadsRequest)


def json_request(decoder: msgspec.json.Decoder[T], value: bytes) -> T:
    """Read a request; its fields may also have their names in the Protobuf schema (`resource_spans`).

    Raises:
        DecodeError: It is not an OTLP request of spans or of log records, or has too many objects.
    """
    check_objects(value)
    try:
        found = decoder.decode(value)
        if not (found.resource_spans or found.resource_logs):
            raw = orjson.loads(value)
            if not raw.keys() <= {"resourceSpans", "resourceLogs"}:
                found = _by_schema(decoder, raw)
        _check_age(found.resource_spans or ())
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise DecodeError(
            "undecodable",
            f"value: is not an OTLP request in JSON, {error}; let the Kafka exporter of a current Collector "
            "write it",
        ) from None
    return found


def _check_age(resources: Iterable[Any]) -> None:
    if any(not one.scope_spans and one.instrumentation_library_spans is not NOTHING for one in resources):
        raise ValueError("has instrumentationLibrarySpans, as OTLP before 0.15 does")


def _by_schema(decoder: msgspec.json.Decoder[T], raw: dict[str, Any]) -> T:
    if not {"resource_spans", "resource_logs"} & raw.keys():
        named = ", ".join(sorted(raw)[:5])[:100]
        raise ValueError(f"has neither resourceSpans nor resourceLogs (got {named})")
    return decoder.decode(orjson.dumps(_renamed(raw)))


def _renamed(value: Any) -> Any:
    """Convert the names of fields to those of OTLP/JSON; names of attributes are values, and stay."""
    if isinstance(value, dict):
        return {_camel(name.split("_")): _renamed(inner) for name, inner in value.items()}
    return [_renamed(item) for item in value] if isinstance(value, list) else value


def _camel(parts: Iterable[str]) -> str:
    first, *others = parts
    return first + "".join(part[:1].upper() + part[1:] for part in others)
