"""DeadLetter: a record that could not be turned into a result, whole and with the reason.

Topic `qa.dead-letters`.
"""

from __future__ import annotations

import base64
import binascii
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, PlainSerializer, ValidationInfo, WithJsonSchema

from schemas.base import Message, Timestamp

DeadLetterReason = Literal["undecodable", "unroutable", "oversized", "invalid_task", "unknown_metric"]
"""undecodable: not an event; unroutable: no metric's conditions fit; oversized: over the size limit;
invalid_task, unknown_metric: a task record that no judge here can read or serve."""


def _from_base64(value: object, info: ValidationInfo) -> object:
    if info.mode != "json" or not isinstance(value, str):
        return value
    try:
        return base64.b64decode(value, validate=True)
    except binascii.Error as error:
        raise ValueError(f"must be standard base64: {error}") from error


Bytes = Annotated[
    bytes,
    BeforeValidator(_from_base64),
    PlainSerializer(lambda raw: base64.b64encode(raw).decode(), return_type=str, when_used="json"),
    WithJsonSchema({"type": "string", "contentEncoding": "base64"}),
]
"""Raw bytes; standard base64 in JSON."""


class Header(Message):
    """One header of the original record."""

    name: str
    value: Bytes | None


class DeadLetter(Message):
    """The original record, untouched, and why it stands aside."""

    schema_version: Literal[1] = 1
    reason: DeadLetterReason
    detail: str = Field(description="Field, limit, value and remedy, as far as they are known.")
    topic: str
    partition: int
    offset: int
    timestamp: Timestamp | None = Field(default=None, description="The original record's timestamp.")
    key: Bytes | None = Field(description="The original key, base64.")
    value: Bytes | None = Field(description="The original value, base64; cut when `truncated`.")
    value_bytes: int = Field(ge=0, description="Size of the original value.")
    value_sha256: str | None = Field(
        default=None, description="SHA-256 of the original value in hex, where `value` is cut or missing."
    )
    truncated: bool = False
    headers: tuple[Header, ...] = ()
    event_id: str | None = Field(default=None, description="Where it could be read.")
    failed_at: Timestamp
