"""Open the envelope of an event: Confluent's wire header or CloudEvents."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from judge.task import READ_AT_ONCE
from streams.errors import DecodeError
from streams.intake.reading.trace import TraceContext, parse_trace_context
from streams.settings.problems import describe

Headers = Sequence[tuple[str, bytes | None]]

_HIDDEN = b'"data_base64"'
_MAGIC_BYTES = 5
"""Confluent's wire header: a zero byte, then the schema's id in four bytes."""


@dataclass(frozen=True, slots=True)
class Opened:
    """The JSON object in a record, and the defaults from its envelope.

    Args:
        document: The object.
        event_id: Id of the CloudEvent.
        occurred_at: Time of the CloudEvent.
        trace: Trace context in the attributes of a structured CloudEvent.
    """

    document: dict[str, Any]
    event_id: str | None = None
    occurred_at: str | None = None
    trace: TraceContext | None = None


def bounded(value: bytes | None, limit: int, *, send: str, remedy: str) -> bytes:
    """Return a record's value; raise if it is empty or too large.

    Args:
        value: The value.
        limit: Maximum bytes.
        send: The expected content, for the error.
        remedy: Remedy for a value that is too large, besides raising the limit.

    Raises:
        DecodeError: It is empty or too large.
    """
    if not value:
        raise DecodeError("undecodable", f"value: is empty (a tombstone); send {send}")
    if len(value) > limit:
        raise DecodeError(
            "oversized",
            f"value: must have at most {limit} bytes (got {len(value)}); {remedy} or raise "
            "ingest.max_event_bytes",
        )
    return value


def parts_of(value: bytes | None) -> int:
    """Return an upper bound on the parts of a JSON text, including JSON inside its strings; 0 if it is short.

    More than `judge.task.READ_AT_ONCE` parts are not read in the event loop.
    """
    if value is None or len(value) <= READ_AT_ONCE:
        return 0
    if _HIDDEN in value:
        return len(value)
    return value.count(b",") + value.count(b"[") + value.count(b"{")


def strip_confluent(value: bytes) -> bytes:
    """Remove Confluent's wire header, if there is one. No JSON text starts with a zero byte."""
    return value[_MAGIC_BYTES:] if value[0] == 0 else value


def open_record(value: bytes, headers: Headers) -> Opened:
    """Return the JSON object in a record.

    Args:
        value: The record's value, not empty.
        headers: The record's headers.

    Raises:
        DecodeError: It holds no JSON object.
    """
    named = dict(headers)
    content_type = _text(named.get("content-type")).partition(";")[0].strip().lower()
    if content_type.startswith("application/cloudevents-batch"):
        raise DecodeError(
            "undecodable",
            (
                f"content-type: must not be a batch of CloudEvents (got {content_type[:80]!r}); send one "
                "event per record"
            ),
        )
    document = _json_object(strip_confluent(value), "value")
    if "ce_specversion" in named:
        return Opened(document, _text(named.get("ce_id")) or None, _text(named.get("ce_time")) or None)
    structured = content_type.startswith("application/cloudevents")
    if structured or _looks_structured(document):
        return _open_structured(document)
    return Opened(document)


def _looks_structured(document: dict[str, Any]) -> bool:
    return (
        "specversion" in document
        and ("data" in document or "data_base64" in document)
        and all(isinstance(document.get(name), str) for name in ("specversion", "type", "source", "id"))
    )


def _open_structured(envelope: dict[str, Any]) -> Opened:
    if not isinstance(envelope.get("specversion"), str):
        raise DecodeError(
            "undecodable",
            "specversion: is required in a structured CloudEvent; correct the producer or the content type",
        )
    data = envelope.get("data")
    if data is None and isinstance(envelope.get("data_base64"), str):
        try:
            raw = base64.b64decode(envelope["data_base64"], validate=True)
        except (binascii.Error, ValueError):
            raise DecodeError(
                "undecodable", "data_base64: is not standard base64; correct the producer"
            ) from None
        data = _json_object(raw, "data_base64")
    elif isinstance(data, str):
        data = _json_object(data.encode(), "data")
    if not isinstance(data, dict):
        raise DecodeError(
            "undecodable",
            (
                f"data: must be a JSON object in a structured CloudEvent (got {describe(data)}); put "
                "the event there"
            ),
        )
    parent, state = _attribute(envelope, "traceparent"), _attribute(envelope, "tracestate")
    return Opened(
        document=data,
        event_id=_attribute(envelope, "id"),
        occurred_at=_attribute(envelope, "time"),
        trace=None if parent is None else parse_trace_context(parent, state),
    )


def _attribute(envelope: dict[str, Any], name: str) -> str | None:
    value = envelope.get(name)
    return value if isinstance(value, str) and value else None


def _json_object(raw: bytes, field: str) -> dict[str, Any]:
    try:
        document = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        start = bytes(raw[:40])
        raise DecodeError(
            "undecodable",
            (
                f"{field}: is not valid JSON, {error} (got {start!r}...); send JSON in UTF-8 (Avro and "
                "Protobuf need ingest.registry)"
            ),
        ) from None
    if not isinstance(document, dict):
        raise DecodeError(
            "undecodable",
            f"{field}: must be a JSON object (got {describe(document)}); send one event per record",
        )
    return document


def _text(value: bytes | None) -> str:
    """Decode a header; empty if it is not UTF-8."""
    try:
        return "" if value is None else value.decode()
    except UnicodeDecodeError:
        return ""
