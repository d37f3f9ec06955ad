"""Reads records with a hostile text: OTLP, Avro and mapped JSON."""

from __future__ import annotations

import contextlib
import json
from typing import Final

from streams.errors import DecodeError
from streams.intake.reading.decode import JsonReader
from streams.intake.reading.otlp.reader import OtlpReader
from streams.intake.reading.otlp.span import Span
from streams.intake.reading.registry.decoding import AvroSchema

_MAPPED: Final = JsonReader(
    max_event_bytes=100_000_000,
    mapping={
        "event_id": "id",
        "question": "q[].text | [0]",
        "answer": "join(' ', q[*].text)",
        "labels.a": "m",
    },
)
_OTLP: Final = OtlpReader(unit="trace", max_event_bytes=100_000_000)
_AVRO: Final = AvroSchema('{"type": "array", "items": ["null", "string"]}')


def traced(**attributes: str) -> None:
    """A span of a model call with these attributes."""
    told = [
        {"key": f"gen_ai.{name.replace('_', '.')}", "value": {"stringValue": text}}
        for name, text in {"operation_name": "chat", **attributes}.items()
    ]
    span = {"traceId": "1" * 32, "spanId": "1" * 16, "attributes": told}
    request = json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}).encode()
    with contextlib.suppress(DecodeError):
        for spans in _OTLP.parts(request).values():
            _OTLP.read(spans)


def log_records(text: str) -> None:
    """Different log records of one span, which are joined."""
    spans = [
        Span("1" * 32, "2" * 16, "", "", f"e{place}", "", {}, {"a": text[place : place + 40]}, is_log=True)
        for place in range(0, len(text), 40)
    ]
    _OTLP.read(spans)


def avro(text: str) -> None:
    """An array of texts."""
    payload = bytearray()
    for piece in text.split(" "):
        raw = piece.encode("utf-8", "surrogatepass")
        payload += b"\x02\x02" + _zigzag(len(raw)) + raw
    with contextlib.suppress(DecodeError):
        _AVRO.read(bytes(payload) + b"\0")


def _zigzag(number: int) -> bytes:
    out, number = bytearray(), 2 * number
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes(out) + bytes([number])


def mapped(text: str) -> None:
    """Words joined by a mapping expression."""
    document = {"id": "e", "q": [{"text": piece} for piece in text.split(" ")], "m": text}
    with contextlib.suppress(DecodeError):
        _MAPPED.decode(json.dumps(document).encode(), [], 0)


def message(role: str, text: str) -> str:
    """Messages as JSON."""
    return json.dumps([{"role": role, "parts": [{"type": "text", "content": text}]}])
