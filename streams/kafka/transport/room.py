"""How much of a topic may be in flight at once, and how much of it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Room:
    """How much of one topic may be delivered and unfinished at once.

    Args:
        records: At least 1.
        bytes: Keys and values together; one record is accepted whatever its size.
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
    """What of one topic is delivered and unfinished."""

    room: Room
    records: int = 0
    bytes: int = 0

    @property
    def full(self) -> bool:
        """Whether the room is full."""
        return self.records >= self.room.records or self.bytes >= self.room.bytes

    @property
    def eased(self) -> bool:
        """Whether so much is done that fetching again is worth a round trip."""
        return self.records * 4 <= self.room.records * 3 and self.bytes * 4 <= self.room.bytes * 3


class Loads:
    """The loads of all topics in one assignment.

    Args:
        rooms: By topic.
        default: For the topics that `rooms` does not name.
    """

    def __init__(self, rooms: Mapping[str, Room], default: Room) -> None:
        self.held: set[str] = set()
        """Topics that were full and have not eased since. The thread that fetches reads it, too."""
        self._rooms = rooms
        self._default = default
        self._loads: dict[str, Load] = {}

    def of(self, topic: str) -> Load:
        """The load of one topic."""
        load = self._loads.get(topic)
        if load is None:
            load = self._loads[topic] = Load(self._rooms.get(topic, self._default))
        return load

    def leave(self, topic: str, load: Load, size: int) -> bool:
        """Take a finished record off a load.

        Args:
            topic: The record's topic.
            load: The load that it was counted in, perhaps one of an earlier assignment.
            size: Its bytes.

        Returns:
            Whether the topic has room again that it did not have before.
        """
        load.records -= 1
        load.bytes -= size
        if topic in self.held and load.eased and self._loads.get(topic) is load:
            self.held.discard(topic)
            return True
        return False

    def clear(self) -> None:
        """Forget all of them: what is still in flight is of an earlier assignment."""
        self._loads.clear()
        self.held.clear()
