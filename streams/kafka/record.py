"""A record as the agents and the readers of topics see it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime


@dataclass(slots=True)
class Record:
    """A record as read. The messages that Faust delivers have these attributes, too.

    Args:
        timestamp: Seconds since the epoch; None if the record has none.
        value: Its value; None for a tombstone.
        generation_id: Generation of its assignment; 0 if it was read without a group.
    """

    topic: str = ""  # of one that is in no topic
    partition: int = 0
    offset: int = 0
    timestamp: float | None = None
    key: bytes | None = None
    value: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    generation_id: int = 0

    @property
    def timestamp_ms(self) -> int | None:
        return None if self.timestamp is None else round(self.timestamp * 1000)


def moment(timestamp: float | None) -> datetime | None:
    """Convert a record's timestamp; None if it is negative or outside the calendar's range."""
    if timestamp is None or timestamp < 0:
        return None
    try:
        return datetime.fromtimestamp(timestamp, UTC)
    except (OverflowError, ValueError, OSError):
        return None
