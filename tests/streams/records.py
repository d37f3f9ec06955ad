"""Records as the agents see them."""

from __future__ import annotations

from collections.abc import Iterable

from streams.kafka.record import Record


def make_record(
    value: bytes | None = b"v",
    *,
    key: bytes | None = None,
    topic: str = "t",
    partition: int = 0,
    offset: int = 0,
    timestamp: float | None = None,
    headers: Iterable[tuple[str, bytes | None]] = (),
    generation_id: int = 1,
) -> Record:
    return Record(topic, partition, offset, timestamp, key, value, tuple(headers), generation_id)
