"""What OTLP/JSON looks like to msgspec, which skips what is not named here.

Any field may be null, as some exporters write it.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

_Number = int | str | None
"""64-bit integers are texts in the JSON form of Protobuf; receivers take numbers, too."""


class Scope(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The instrumentation."""

    name: str | None = ""


class Resource(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The service."""

    attributes: list[Any] | None = []


class Status(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """How a span ended."""

    message: str | None = ""
    code: int | str = 0


class Event(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """An event within a span."""

    name: str | None = ""
    attributes: list[Any] | None = []


class JsonSpan(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A span."""

    trace_id: str | None = ""
    span_id: str | None = ""
    trace_state: str | None = ""
    parent_span_id: str | None = ""
    name: str | None = ""
    start_time_unix_nano: _Number = 0
    end_time_unix_nano: _Number = 0
    attributes: list[Any] | None = []
    events: list[Event] | None = []
    status: Status | None = Status()


class ScopeSpans(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The spans of one instrumentation."""

    scope: Scope | None = Scope()
    spans: list[JsonSpan] | None = []


class ResourceSpans(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The spans of one service."""

    resource: Resource | None = Resource()
    scope_spans: list[ScopeSpans] | None = []


class JsonLogRecord(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A log record."""

    trace_id: str | None = ""
    span_id: str | None = ""
    event_name: str | None = ""
    time_unix_nano: _Number = 0
    observed_time_unix_nano: _Number = 0
    attributes: list[Any] | None = []
    body: Any = None


class ScopeLogs(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The log records of one instrumentation."""

    scope: Scope | None = Scope()
    log_records: list[JsonLogRecord] | None = []


class ResourceLogs(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The log records of one service."""

    resource: Resource | None = Resource()
    scope_logs: list[ScopeLogs] | None = []


class Request(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A request, of spans or of log records."""

    resource_spans: list[ResourceSpans] | None = []
    resource_logs: list[ResourceLogs] | None = []


class JsonHead(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """What of a span or log record sampling looks at."""

    trace_id: str | None = ""
    trace_state: str | None = ""
    parent_span_id: str | None = ""


class ScopeHeads(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The same of one instrumentation."""

    spans: list[JsonHead] | None = []
    log_records: list[JsonHead] | None = []


class ResourceHeads(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The same of one service."""

    scope_spans: list[ScopeHeads] | None = []
    scope_logs: list[ScopeHeads] | None = []


class HeadsRequest(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The same of a request."""

    resource_spans: list[ResourceHeads] | None = []
    resource_logs: list[ResourceHeads] | None = []


REQUEST: Final = msgspec.json.Decoder(Request)
HEADS: Final = msgspec.json.Decoder(HeadsRequest)
