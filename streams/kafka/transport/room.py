"""Limit the records of a topic in flight, and count them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Room:
    """The limit on one topic's records in flight.

    Args:
        records: Number of records, at least 1.
        bytes: Total size of keys and values; a single record may exceed it.
    """

    records: int
    bytes: int

    def __post_init__(self) -> None:
        if self.records < 1 or self.bytes < 1:
            raise ValueError(
                f"records and bytes must be at least 1, got {self.records} and {self.bytes}; raise them"
            )


@dataclass(slots=True)
class Load:
    """One topic's records in flight."""

    room: Room
    records: int = 0
    bytes: int = 0

    @property
    def full(self) -> bool:
        """Whether the limit is reached."""
        return self.records >= self.room.records or self.bytes >= self.room.bytes

    @property
    def eased(self) -> bool:
        """Whether at most 3/4 of the limit is used, so that another fetch is worth its round trip."""
        return self.records * 4 <= self.room.records * 3 and self.bytes * 4 <= self.room.bytes * 3


class Loads:
    """The loads of all topics in one assignment."""

    def __init__(self, rooms: Mapping[str, Room], default: Room) -> None:
        self.held: set[str] = set()
        """Topics that were full and have not eased since. Also read by the fetching thread."""
        self._rooms = rooms
        self._default = default
        self._loads: dict[str, Load] = {}

    def of(self, topic: str) -> Load:
        """Return the load of one topic."""
        load = self._loads.get(topic)
        if load is None:
            load = self._loads[topic] = Load(self._rooms.get(topic, self._default))
        return load

    def leave(self, topic: str, load: Load, size: int) -> bool:
        """Subtract a finished record from a load.

        Args:
            size: Its size in bytes.
        """
        load.records -= 1
        load.bytes -= size
        if topic in self.held and load.eased and self._loads.get(topic) is load:
            self.held.discard(topic)
            return True
        return False

    def clear(self) -> None:
        """Reset all loads; records still in flight belong to an earlier assignment."""
        self._loads.clear()
        self.held.clear()
