"""How far one partition is read."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PartitionState:
    """One assigned partition as it stands."""

    topic: str
    partition: int
    lag_records: int | None
    """Records between the committable offset and the end; None before the first fetch."""
    oldest_timestamp: float | None
    """Timestamp of the first unfinished record, in seconds since the epoch."""
    unfinished: int
