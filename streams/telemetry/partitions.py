"""The state of reading one partition."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PartitionState:
    """The state of an assigned partition."""

    topic: str
    partition: int
    lag_records: int | None
    """Records between the committable offset and the end; None before the first fetch."""
    oldest_timestamp: float | None
    """Timestamp of the first unfinished record, in seconds since the epoch."""
    unfinished: int
