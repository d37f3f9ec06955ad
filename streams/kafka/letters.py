"""Dead letters: a record that stands aside, in as large a form as the topic takes. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, Final, Protocol

from schemas import DeadLetter, DeadLetterReason, Header

WHOLE_BYTES: Final = 4 * 1024 * 1024
"""Records up to this size are tried whole. A letter takes several times as much memory while it is written.
"""
CUT_VALUE_BYTES: Final = 256 * 1024
"""What is kept of a value when the whole does not fit."""
KEPT_KEY_BYTES: Final = 1024
MAX_DETAIL_CHARS: Final = 2_000
SMALLEST_DETAIL_CHARS: Final = 120


class Incoming(Protocol):
    """A record as it was read."""

    topic: str
    partition: int
    offset: int
    timestamp: float | None
    key: bytes | None
    value: bytes | None
    headers: Any


def letter_forms(
    record: Incoming, reason: DeadLetterReason, detail: str, *, event_id: str | None, failed_at: datetime
) -> Iterator[DeadLetter]:
    """Give the dead letter of a record in ever smaller forms.

    The last has position, reason, event id and hash alone.

    Args:
        record: The record.
        reason: Why it stands aside.
        detail: The same for a person.
        event_id: Where it could be read.
        failed_at: Now.
    """
    key, value = record.key, record.value or b""
    headers = tuple(Header(name=_text(name), value=content) for name, content in record.headers or ())
    size = len(key or b"") + len(value) + sum(len(one.name) + len(one.value or b"") for one in headers)
    bare = DeadLetter(
        reason=reason,
        detail=_text(detail)[:MAX_DETAIL_CHARS],
        topic=record.topic,
        partition=record.partition,
        offset=record.offset,
        timestamp=moment(record.timestamp),
        key=None,
        value=None,
        value_bytes=len(value),
        truncated=True,
        event_id=event_id,
        failed_at=failed_at,
    )
    if size <= WHOLE_BYTES:
        yield bare.model_copy(
            update={"key": key, "value": record.value, "headers": headers, "truncated": False}
        )
    digest = hashlib.sha256(value).hexdigest()
    kept_key = None if key is None else key[:KEPT_KEY_BYTES]
    cut = bare.model_copy(update={"key": kept_key, "value": value[:CUT_VALUE_BYTES], "value_sha256": digest})
    if size - len(value) <= CUT_VALUE_BYTES:
        yield cut.model_copy(update={"headers": headers})
    yield cut
    yield cut.model_copy(update={"value": b""})
    yield bare.model_copy(
        update={"detail": bare.detail[:SMALLEST_DETAIL_CHARS], "value_sha256": digest if value else None}
    )


def moment(timestamp: float | None) -> datetime | None:
    """Read a record's timestamp; None where it has none that is one (-1, or a year that no calendar has)."""
    if timestamp is None or timestamp < 0:
        return None
    try:
        return datetime.fromtimestamp(timestamp, UTC)
    except (OverflowError, ValueError, OSError):
        return None


def _text(text: str) -> str:
    """Text that can be written as UTF-8."""
    return text.encode("utf-8", "replace").decode()
