"""Build dead letters in forms of decreasing size. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, Final, Protocol

from schemas import DeadLetter, DeadLetterReason, Header

WHOLE_BYTES: Final = 4 * 1024 * 1024
"""Larger records are truncated: a letter takes several times its size in memory while it is encoded."""
CUT_VALUE_BYTES: Final = 256 * 1024
"""Bytes kept of a value that is truncated."""
KEPT_KEY_BYTES: Final = 1024
MAX_DETAIL_CHARS: Final = 2_000
SMALLEST_DETAIL_CHARS: Final = 120


class Incoming(Protocol):
    """A record as read."""

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
    """Yield the dead letter of a record in ever smaller forms.

    The smallest has only position, reason, event id and hash.

    Args:
        event_id: The event id, if it could be read.
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
    """Convert a record's timestamp; None if it is negative or outside the calendar's range."""
    if timestamp is None or timestamp < 0:
        return None
    try:
        return datetime.fromtimestamp(timestamp, UTC)
    except (OverflowError, ValueError, OSError):
        return None


def _text(text: str) -> str:
    """Replace characters that UTF-8 cannot encode."""
    return text.encode("utf-8", "replace").decode()
