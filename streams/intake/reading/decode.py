"""Decode the event of a record from its value, headers and timestamp."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from typing import Any, TypeAlias

from pydantic import TypeAdapter, ValidationError

from schemas import QAEvent
from schemas.base import MAX_LABEL_VALUE_CHARS
from streams.errors import DecodeError
from streams.intake.reading.envelope import Headers, Opened, bounded, open_record, parts_of
from streams.intake.reading.mapping import Mapper
from streams.intake.reading.trace import (
    is_plausible,
    normal_id,
    normal_tracestate,
    trace_from_headers,
)
from streams.kafka.record import Record, moment
from streams.settings.problems import describe, explain

MAX_DETAIL_CHARS = 1_000
MAX_DETAIL_PROBLEMS = 5
PROBABILITY_HEADER = "sampling-probability"
"""Record header with the producer's sampling probability; it takes precedence over the body's field."""

_EVENT_FIELDS = tuple(QAEvent.model_fields)
_TRACE_FIELDS = ("trace_id", "span_id", "tracestate")
_NORMAL = {"trace_id": normal_id, "span_id": normal_id, "tracestate": normal_tracestate}
_DATETIME = TypeAdapter(datetime)


Unpack: TypeAlias = Callable[[bytes | None, Headers], Awaitable[bytes | None]]
"""Decodes a value to JSON by its registry schema."""


Beside = Callable[..., Awaitable[Any]]
"""Call a function with a size and arguments: `streams.intake.reading.beside.read_beside`."""


class Ingest:
    """Reads records by the section `ingest` of the settings.

    Steps: size; an empty value; Confluent's wire header; JSON; CloudEvents (binary mode by the header
    `ce_specversion`; structured mode by content type or by its required attributes); `ingest.mapping`;
    defaults from outside the body; the event's own checks.

    Defaults: `event_id` is the CloudEvent's id; `occurred_at` is the CloudEvent's time, else the record's
    timestamp, and always in UTC. A time without an offset is in UTC. A number as time is Unix time (seconds,
    or milliseconds if larger than 2e10).

    The whole trace context comes from one place: the header `traceparent` (with `tracestate`), else the
    header `ce_traceparent`, else the attributes of a structured CloudEvent, else the body. Headers take
    precedence so that sampling can use them without reading the body; a malformed header is ignored. A
    service that forwards events of others must forward their trace headers or send none.

    Args:
        max_event_bytes: Larger values are refused.
        mapping: `ingest.mapping`; empty if records have the fields of an event.

    Raises:
        SettingsError: The mapping is invalid.
    """

    def __init__(self, *, max_event_bytes: int, mapping: Mapping[str, str] | None = None) -> None:
        self.max_event_bytes = max_event_bytes
        self._mapper = Mapper(mapping) if mapping else None

    @property
    def maps(self) -> bool:
        return self._mapper is not None

    async def read(
        self, record: Record, unpack: Unpack | None = None, beside: Beside | None = None
    ) -> QAEvent:
        """Decode the event of a record, by its schema if there is a registry.

        With `beside`, records of many parts are read in a child process.

        Raises:
            DecodeError: The record is not an event.
        """
        value = record.value
        if unpack is not None and (value is None or len(value) <= self.max_event_bytes):
            value = await unpack(value, record.headers)
        milliseconds = None if record.timestamp is None else round(record.timestamp * 1000)
        size = 0 if value is not None and len(value) > self.max_event_bytes else parts_of(value)
        if beside is None:
            return self.decode(value, record.headers, milliseconds)
        event: QAEvent = await beside(size, self.decode, value, record.headers, milliseconds)
        return event

    def decode(
        self, value: bytes | None, headers: Headers | None = None, timestamp_ms: int | None = None
    ) -> QAEvent:
        """Decode the event of a record.

        Args:
            timestamp_ms: The record's timestamp in Unix milliseconds; None or negative for none.

        Raises:
            DecodeError: The record is not an event; no bytes raise another exception.
        """
        headers = headers or ()
        found = bounded(value, self.max_event_bytes, send="an event as JSON", remedy="send fewer pages")
        opened = open_record(found, headers)
        document = opened.document
        fields = (
            {name: document[name] for name in _EVENT_FIELDS if name in document}
            if self._mapper is None
            else self._mapper.apply(document, _EVENT_FIELDS)
        )
        fields["event_id"] = _event_id(fields, opened)
        fields["labels"] = normal_labels(fields.get("labels"))
        fields |= _trace(fields, opened, headers)
        stated = _header(headers, PROBABILITY_HEADER) if headers else None
        if stated is not None:
            fields["sampling_probability"] = stated
        fields["occurred_at"] = _occurred_at(fields.get("occurred_at"), opened, timestamp_ms)
        try:
            return QAEvent.model_validate(fields)
        except ValidationError as error:
            raise DecodeError("undecodable", problem_detail(error)) from None


def normal_label(value: str) -> str:
    """Truncate a label's value to its limit; the event is kept."""
    return value if len(value) <= MAX_LABEL_VALUE_CHARS else value[:MAX_LABEL_VALUE_CHARS]


def normal_labels(raw: object) -> dict[str, str]:
    """Convert the value of an event's `labels`: numbers and booleans to texts; nulls are omitted.

    Raises:
        DecodeError: It is not a mapping, or a label's value is a list or mapping.
    """
    if raw is None:
        return {}
    if not isinstance(raw, dict):
        raise DecodeError(
            "undecodable",
            f"labels: must be a mapping of short texts (got {describe(raw)}); correct the producer",
        )
    labels: dict[str, str] = {}
    for name, value in raw.items():
        if value is None:
            continue
        if isinstance(value, str):
            labels[name] = normal_label(value)
        elif isinstance(value, bool):
            labels[name] = "true" if value else "false"
        elif isinstance(value, int | float):
            labels[name] = normal_label(str(value))
        else:
            raise DecodeError(
                "undecodable",
                f"labels.{name[:80]}: must be text, a number or a truth value (got {describe(value)}); "
                "correct the producer or map one value by ingest.mapping",
            )
    return labels


def _header(headers: Headers, wanted: str) -> float | None:
    for name, value in headers:
        if name == wanted and value is not None:
            try:
                return float(value)
            except ValueError:
                return None
    return None


def _event_id(fields: Mapping[str, Any], opened: Opened) -> Any:
    own = fields.get("event_id")
    return opened.event_id if opened.event_id is not None and (own is None or own == "") else own


def _trace(fields: Mapping[str, Any], opened: Opened, headers: Headers) -> dict[str, Any]:
    outside = (trace_from_headers(headers) if headers else None) or opened.trace
    if outside is not None:
        return {name: getattr(outside, name) for name in _TRACE_FIELDS}
    trace: dict[str, Any] = {}
    for name in _TRACE_FIELDS:
        value = fields.get(name)
        if value is not None and not isinstance(value, str):
            raise DecodeError(
                "undecodable",
                f"{name}: must be text (got {describe(value)}); send it in W3C format or omit it",
            )
        trace[name] = _NORMAL[name](value)
    return trace


def _occurred_at(own: Any, opened: Opened, timestamp_ms: int | None) -> Any:
    given = own if own is not None and own != "" else opened.occurred_at
    recorded = moment(None if timestamp_ms is None else timestamp_ms / 1000)
    if given is None:
        return recorded
    try:
        at = _DATETIME.validate_python(given)
    except ValidationError as error:
        why = error.errors()[0]["msg"]
        raise DecodeError(
            "undecodable",
            (
                f"occurred_at: must be a time as in RFC 3339 (got {describe(given)}: {why}); correct or "
                "omit it"
            ),
        ) from None
    at = at if at.tzinfo is not None else at.replace(tzinfo=UTC)
    return at.astimezone(UTC) if is_plausible(at, recorded) else recorded


def problem_detail(error: ValidationError) -> str:
    """Format the validation problems, truncated to the limits of a dead letter."""
    lines = explain(error, QAEvent)
    more = len(lines) - MAX_DETAIL_PROBLEMS
    text = "\n".join(lines[:MAX_DETAIL_PROBLEMS]) + (f"\nand {more} more" if more > 0 else "")
    return text[:MAX_DETAIL_CHARS].encode("utf-8", "backslashreplace").decode()
