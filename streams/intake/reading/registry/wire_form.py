"""Confluent's wire forms: which schema a record names, and where its payload begins. Pure.

A value begins with 0 and the schema's id in four bytes, or the record has a header `__value_schema_id` with
the same, or with 1 and the schema's GUID in 16 bytes. For Protobuf the path to the message follows: a count
and indexes as zigzag varints, where a single 0 stands for the first message.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias
from uuid import UUID

from streams.errors import DecodeError
from streams.intake.reading.envelope import Headers

HEADER: Final = "__value_schema_id"
MAX_DEPTH: Final = 32
"""Messages within messages."""
SchemaRef: TypeAlias = int | UUID


@dataclass(frozen=True, slots=True)
class WireForm:
    """What names a record's schema.

    Args:
        ref: The schema's id or GUID.
        rest: What follows it: in a header the path of a Protobuf message, else path and payload.
        payload: The value, where the header names the schema; None where the value itself does.
    """

    ref: SchemaRef
    rest: bytes
    payload: bytes | None = None

    def body(self) -> bytes:
        """Give the payload of a record of Avro or JSON."""
        return self.rest if self.payload is None else self.payload

    def message(self) -> tuple[tuple[int, ...], bytes]:
        """Give the path to a Protobuf message, and the message.

        Raises:
            DecodeError: There is no such path.
        """
        indexes, end = _indexes(self.rest)
        return indexes, self.rest[end:] if self.payload is None else self.payload


def wire_form(value: bytes, headers: Headers) -> WireForm | None:
    """Find out which schema a record names; None where it names none.

    Raises:
        DecodeError: It begins to name one and does not end.
    """
    named = next((content for name, content in headers if name == HEADER and content), None)
    if named is not None:
        ref, rest = _ref(named, HEADER)
        return WireForm(ref, rest, value)
    if value[:1] != b"\x00":
        return None
    return WireForm(*_ref(value, "value"))


def _ref(raw: bytes, where: str) -> tuple[SchemaRef, bytes]:
    if raw[0] == 0 and len(raw) >= 5:
        return int.from_bytes(raw[1:5]), raw[5:]
    if raw[0] == 1 and len(raw) >= 17:
        return UUID(bytes=raw[1:17]), raw[17:]
    raise DecodeError(
        "undecodable",
        f"{where}: does not name a registry schema (got {raw[:20]!r}); correct the producer's serializer",
    )


def _indexes(raw: bytes) -> tuple[tuple[int, ...], int]:
    count, at = _varint(raw, 0)
    if count == 0:
        return (0,), at
    if not 0 < count <= MAX_DEPTH:
        raise DecodeError(
            "undecodable", f"value: must name a message by 1 to {MAX_DEPTH} indexes, got {count}"
        )
    found = []
    for _ in range(count):
        index, at = _varint(raw, at)
        found.append(index)
    return tuple(found), at


def _varint(raw: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 35, 7):
        if at >= len(raw):
            break
        byte = raw[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at
    raise DecodeError("undecodable", "value: names no message of its Protobuf schema; correct the serializer")
