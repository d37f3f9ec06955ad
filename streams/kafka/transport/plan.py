"""What an application wants from its transport."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from faust.types import TP

from streams.kafka.transport.ranges import Move, ResumeAt
from streams.kafka.transport.room import Room
from streams.kafka.transport.starts import Start

Predicate = Callable[[Any], bool]
"""Takes a raw record (key, value, headers, offset, timestamp), says whether it is delivered."""

DEFAULT_ROOM: Final = Room(records=512, bytes=64 * 1024 * 1024)


@dataclass(slots=True)
class Plan:
    """What the application wants from its transport.

    Args:
        predicates: By topic; a topic without one has every record delivered.
        rooms: By topic.
        default_room: For the topics that `rooms` does not name.
        finish: Called when partitions are taken away: waits, within the seconds given, for the records in
            hand and gives up the rest.
        finish_seconds: The bound that `finish` is given.
        producer: Further arguments of the producer.
        starts: By topic, where a group begins on a partition of which it has committed nothing; without an
            entry at the oldest record.
        resume_at: Where a partition continues whose log has become shorter.
        assigned: Told the partitions of a new assignment that have a committed offset, before anything is
            delivered.
        moved: Told of every partition that continues elsewhere than it was read to.
        client_rack: Where the consumer stands, for brokers that let it read from the nearest replica; None
            for the leaders.
    """

    predicates: Mapping[str, Predicate] = field(default_factory=dict)
    rooms: Mapping[str, Room] = field(default_factory=dict)
    default_room: Room = DEFAULT_ROOM
    finish: Callable[[float], Awaitable[None]] | None = None
    finish_seconds: float = 10.0
    producer: Mapping[str, Any] = field(default_factory=dict)
    starts: Mapping[str, Start] = field(default_factory=dict)
    resume_at: ResumeAt = "committed"
    assigned: Callable[[Collection[TP]], None] | None = None
    moved: Callable[[Move], None] | None = None
    client_rack: str | None = None
