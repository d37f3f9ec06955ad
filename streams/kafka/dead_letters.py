"""Dead letters: build them, and find them."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import AsyncIterable, AsyncIterator, Collection, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from pydantic import ValidationError

from schemas import DeadLetter, DeadLetterReason, Header
from streams.kafka.record import Record, moment

WHOLE_BYTES: Final = 4 * 1024 * 1024
"""Larger records are truncated: a letter takes several times its size in memory while it is encoded."""
CUT_VALUE_BYTES: Final = 256 * 1024
KEPT_KEY_BYTES: Final = 1024
MAX_DETAIL_CHARS: Final = 2_000
SMALLEST_DETAIL_CHARS: Final = 120


def letter_forms(
    record: Record, reason: DeadLetterReason, detail: str, *, event_id: str | None, failed_at: datetime
) -> Iterator[DeadLetter]:
    """Yield the dead letter of a record in ever smaller forms, the last without key, value and headers."""
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
    yield cut.model_copy(update={"headers": headers if size - len(value) <= CUT_VALUE_BYTES else ()})
    yield cut.model_copy(update={"value": b""})
    yield bare.model_copy(
        update={"detail": bare.detail[:SMALLEST_DETAIL_CHARS], "value_sha256": digest if value else None}
    )


def _text(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """Selects dead letters; without reasons or source topics, those of all."""

    reasons: Collection[str] = ()
    topics: Collection[str] = ()
    since: datetime | None = None
    until: datetime | None = None

    def fits(self, letter: DeadLetter) -> bool:
        return (
            (not self.reasons or letter.reason in self.reasons)
            and (not self.topics or letter.topic in self.topics)
            and (self.since is None or letter.failed_at >= self.since)
            and (self.until is None or letter.failed_at < self.until)
        )


@dataclass(slots=True)
class Matches:
    by_topic: Counter[tuple[str, str]] = field(default_factory=Counter)
    cut: int = 0
    unreadable: int = 0

    @property
    def count(self) -> int:
        return self.by_topic.total()


async def select(
    records: AsyncIterable[Record], query: Query, matches: Matches
) -> AsyncIterator[tuple[str, DeadLetter]]:
    """Yield each selected, untruncated dead letter with its position, and count all."""
    async for record in records:
        letter = _letter(record.value)
        if letter is None:
            matches.unreadable += 1
        elif query.fits(letter) and letter.truncated:
            matches.cut += 1
        elif query.fits(letter):
            matches.by_topic[letter.topic, letter.reason] += 1
            yield f"{record.topic}/{record.partition}/{record.offset}", letter


def _letter(value: bytes | None) -> DeadLetter | None:
    try:
        return DeadLetter.model_validate_json(value or b"")
    except ValidationError:
        return None
