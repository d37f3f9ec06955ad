"""DeadLetter: a record that could not be processed, with the reason. Topic `qa.dead-letters`."""

from __future__ import annotations

import base64
import binascii
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, PlainSerializer, ValidationInfo, WithJsonSchema

from schemas.base import Message, Timestamp

DeadLetterReason = Literal["undecodable", "unroutable", "oversized", "invalid_task", "unknown_metric"]
"""undecodable: not an event; unroutable: meets no metric's conditions; oversized: over the size limit;
invalid_task, unknown_metric: a task record that is invalid or of an unknown metric."""


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
    """The original record, unchanged, and the reason."""

    schema_version: Literal[1] = 1
    reason: DeadLetterReason
    detail: str = Field(description="Field, limit, value and remedy, if known.")
    topic: str
    partition: int
    offset: int
    timestamp: Timestamp | None = Field(default=None, description="The original record's timestamp.")
    key: Bytes | None = Field(description="The original key, base64.")
    value: Bytes | None = Field(description="The original value, base64; truncated if `truncated` is true.")
    value_bytes: int = Field(ge=0, description="Size of the original value.")
    value_sha256: str | None = Field(
        default=None, description="SHA-256 of the original value in hex, if `value` is truncated or missing."
    )
    truncated: bool = False
    headers: tuple[Header, ...] = ()
    event_id: str | None = Field(default=None, description="If it was readable.")
    failed_at: Timestamp
