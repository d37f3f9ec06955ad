"""Where a partition is read from: at its first assignment, and when its offset is out of range.

**Start.** A group is new to a topic without a committed offset on any partition; only then it passes over the
backlog. If two workers of a new group start one after the other, the second takes its partitions for added
ones; to limit the cost, an added partition is read from `ADDED` ago.

**Out of range.** aiokafka would read all again. But the response may come from a former leader with a shorter
log, so an offset is abandoned only if it is outside the leader's bounds `CHECKS` times. Reading continues at
the beginning, or in a log that became shorter at the committed offset, if it has that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal, TypeAlias

import structlog
from aiokafka import TopicPartition
from aiokafka.errors import KafkaError

_log = structlog.stdlib.get_logger(__name__)

Start: TypeAlias = Literal["earliest", "latest"] | datetime
ADDED: Final = timedelta(hours=1)
CHECKS: Final = 3
CHECK_EVERY_SECONDS: Final = 2.0


async def offsets_at(
    consumer: Any, partitions: Collection[TopicPartition], start: Start
) -> dict[TopicPartition, int]:
    """Return the first offset of each partition that is not older than a time, or its end offset."""
    if start == "earliest":
        return dict(await consumer.beginning_offsets(partitions))
    ends = dict(await consumer.end_offsets(partitions))
    if isinstance(start, datetime):
        milliseconds = max(0, round(start.timestamp() * 1000))
        found = await consumer.offsets_for_times(dict.fromkeys(partitions, milliseconds))
        ends |= {place: at.offset for place, at in found.items() if at is not None}
    return ends


async def first_offsets(
    consumer: Any, partitions: Iterable[TopicPartition], starts: Mapping[str, Start]
) -> dict[TopicPartition, int]:
    """Return where partitions without a committed offset start, by default at the oldest record."""
    offsets: dict[TopicPartition, int] = {}
    for partition in sorted(partitions):
        start = starts.get(partition.topic, "earliest")
        if start == "latest" and not await _is_new(consumer, partition.topic):
            start = datetime.now(UTC) - ADDED
        offsets |= await offsets_at(consumer, [partition], start)
    for topic in sorted({partition.topic for partition in offsets} & starts.keys()):
        _log.info(
            "the group has no offsets on this topic and starts at kafka.start",
            topic=topic,
            start=str(starts[topic]),
            offsets={place.partition: offset for place, offset in offsets.items() if place.topic == topic},
        )
    return offsets


async def _is_new(consumer: Any, topic: str) -> bool:
    for number in sorted(consumer.partitions_for_topic(topic) or ()):
        if await consumer.committed(TopicPartition(topic, number)) is not None:
            return False
    return True


@dataclass(frozen=True, slots=True)
class Bounds:
    """A partition's log as its leader has it, and what the group has committed there."""

    begin: int
    end: int
    """Exclusive; with open transactions, the end of what can be read."""
    committed: int | None = None

    def __contains__(self, offset: int) -> bool:
        return self.begin <= offset <= self.end


@dataclass(frozen=True, slots=True)
class Move:
    """A partition that continues at another offset: records are deleted, or the log became shorter."""

    topic: str
    partition: int
    before: int
    after: int
    why: Literal["retention", "shorter"]

    @property
    def lost(self) -> int:
        return max(self.after - self.before, 0)


def decide(offset: int, bounds: Bounds) -> int:
    """Return the offset where reading continues; the same one if it is in range."""
    if offset in bounds:
        return offset
    if offset > bounds.end and bounds.committed is not None and bounds.committed in bounds:
        return bounds.committed
    return bounds.begin


async def confirmed_bounds(
    offset: int,
    ask: Callable[[], Awaitable[Bounds]],
    *,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> Bounds:
    """Return a log's bounds, once an offset was outside them `CHECKS` times in a row or inside once."""
    outside = 0
    while True:
        try:
            bounds = await ask()
        except KafkaError:  # no leader, or no response: inconclusive
            outside = 0
        else:
            outside += 1
            if offset in bounds or outside == CHECKS:
                return bounds
        await sleep(CHECK_EVERY_SECONDS)
