"""What OTLP/JSON looks like to msgspec, which skips what is not named here."""

from __future__ import annotations

from typing import Any, Final

import msgspec

_Number = int | str
"""64-bit integers are texts in the JSON form of Protobuf; receivers take numbers, too."""


class Scope(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The instrumentation."""

    name: str = ""


class Resource(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The service."""

    attributes: list[Any] = []


class Status(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """How a span ended."""

    message: str = ""
    code: int | str = 0


class Event(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """An event within a span."""

    name: str = ""
    attributes: list[Any] = []


class JsonSpan(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A span."""

    trace_id: str = ""
    span_id: str = ""
    trace_state: str = ""
    parent_span_id: str = ""
    name: str = ""
    start_time_unix_nano: _Number = 0
    end_time_unix_nano: _Number = 0
    attributes: list[Any] = []
    events: list[Event] = []
    status: Status = Status()


class ScopeSpans(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The spans of one instrumentation."""

    scope: Scope = Scope()
    spans: list[JsonSpan] = []


class ResourceSpans(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The spans of one service."""

    resource: Resource = Resource()
    scope_spans: list[ScopeSpans] = []


class JsonLogRecord(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A log record."""

    trace_id: str = ""
    span_id: str = ""
    event_name: str = ""
    time_unix_nano: _Number = 0
    observed_time_unix_nano: _Number = 0
    attributes: list[Any] = []
    body: Any = None


class ScopeLogs(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The log records of one instrumentation."""

    scope: Scope = Scope()
    log_records: list[JsonLogRecord] = []


class ResourceLogs(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The log records of one service."""

    resource: Resource = Resource()
    scope_logs: list[ScopeLogs] = []


class Request(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A request, of spans or of log records."""

    resource_spans: list[ResourceSpans] = []
    resource_logs: list[ResourceLogs] = []


class JsonHead(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """What of a span or log record sampling looks at."""

    trace_id: str = ""
    trace_state: str = ""
    parent_span_id: str = ""


class ScopeHeads(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The same of one instrumentation."""

    spans: list[JsonHead] = []
    log_records: list[JsonHead] = []


class ResourceHeads(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The same of one service."""

    scope_spans: list[ScopeHeads] = []
    scope_logs: list[ScopeHeads] = []


class HeadsRequest(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The same of a request."""

    resource_spans: list[ResourceHeads] = []
    resource_logs: list[ResourceHeads] = []


REQUEST: Final = msgspec.json.Decoder(Request)
HEADS: Final = msgspec.json.Decoder(HeadsRequest)
