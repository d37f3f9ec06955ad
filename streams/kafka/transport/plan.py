"""The transport's settings."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from faust.types import TP

from streams.kafka.offsets import Start
from streams.kafka.transport.ranges import Move
from streams.kafka.transport.room import Room


class Predicate(Protocol):
    """Decides whether a raw record (key, value, headers, offset, timestamp) is delivered."""

    def __call__(self, record: Any, /) -> bool:
        """Decide."""


DEFAULT_ROOM: Final = Room(records=512, bytes=64 * 1024 * 1024)


@dataclass(slots=True)
class Plan:
    """The transport's settings.

    Args:
        predicates: Filters by topic; a topic without one delivers every record.
        finish: Called when partitions are revoked: waits up to the given seconds for the records in flight
            and abandons the rest.
        starts: By topic, where a group starts on a partition without a committed offset; by default at the
            oldest record.
        assigned: Called with the partitions of a new assignment that have a committed offset, before
            delivery starts.
        moved: Called for every partition that continues at another offset than the next one.
    """

    predicates: Mapping[str, Predicate] = field(default_factory=dict)
    rooms: Mapping[str, Room] = field(default_factory=dict)
    default_room: Room = DEFAULT_ROOM
    finish: Callable[[float], Awaitable[None]] | None = None
    finish_seconds: float = 10.0
    producer: Mapping[str, Any] = field(default_factory=dict)
    starts: Mapping[str, Start] = field(default_factory=dict)
    assigned: Callable[[Collection[TP]], None] | None = None
    moved: Callable[[Move], None] | None = None
