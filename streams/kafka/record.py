"""A record as the agents and the readers of topics see it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime


@dataclass(slots=True)
class Record:
    """A record as read. The messages that Faust delivers have these attributes, too."""

    topic: str = ""  # of one that is in no topic
    partition: int = 0
    offset: int = 0
    timestamp: float | None = None  # seconds since the epoch
    key: bytes | None = None
    value: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    generation_id: int = 0  # of its assignment; 0 without a group

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
