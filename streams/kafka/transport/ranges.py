"""Decide where a partition continues when the broker reports its next offset out of range.

aiokafka would reset to the beginning of the log at once, and everything would be read again. But the response
may come from a former leader that was away and has a shorter log. So the leader, looked up each time, is
asked for the bounds of its log three times over some seconds; the offset is abandoned only if it is out of
range each time:

- The log begins after it: retention has deleted unread records. Reading continues at the beginning, and the
  lost records are counted.
- The log ends before it: the topic was recreated, or a replica with a shorter log became leader. Depending on
  the setting, reading continues at the committed offset, if the log has it, or at the beginning.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final, Literal

from aiokafka.errors import KafkaError, for_code
from aiokafka.protocol.offset import OffsetRequest

CHECKS: Final = 3
CHECK_EVERY_SECONDS: Final = 2.0
_EARLIEST: Final = -2
_LATEST: Final = -1
_READ_UNCOMMITTED: Final = 0


@dataclass(frozen=True, slots=True)
class Bounds:
    """The first offset of a partition's log, and its end offset (exclusive)."""

    begin: int
    end: int


@dataclass(frozen=True, slots=True)
class Move:
    """A partition that continues at another offset.

    Args:
        why: retention: the records in between are deleted; shorter: the log has become shorter.
    """

    topic: str
    partition: int
    before: int
    after: int
    why: Literal["retention", "shorter"]

    @property
    def lost(self) -> int:
        """Number of offsets that stay unread."""
        return max(self.after - self.before, 0)


def decide(offset: int, bounds: Bounds, committed: int | None) -> int | None:
    """Return the offset where reading continues; None if the offset is in range.

    A log that ends before the offset continues at the committed offset if that exists, else at its beginning.

    Args:
        committed: The group's committed offset; None without one.
    """
    if bounds.begin <= offset <= bounds.end:
        return None
    if offset < bounds.begin:
        return bounds.begin
    if committed is not None and bounds.begin <= committed <= bounds.end:
        return committed
    return bounds.begin


async def confirmed_bounds(
    tp: Any,
    offset: int,
    ask: Callable[[Any], Awaitable[Bounds]],
    *,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> Bounds:
    """Return a log's bounds, once an offset was outside them `CHECKS` times in a row or inside once.

    Args:
        sleep: Waits for some seconds.
    """
    outside = 0
    while True:
        try:
            bounds = await ask(tp)
        except KafkaError:  # no leader, or no response: inconclusive
            outside = 0
        else:
            if bounds.begin <= offset <= bounds.end:
                return bounds
            outside += 1
            if outside == CHECKS:
                return bounds
        await sleep(CHECK_EVERY_SECONDS)


async def ask_bounds(client: Any, tp: Any) -> Bounds:
    """Ask the leader of a partition, from refreshed metadata, for the bounds of its log.

    Raises:
        KafkaError: There is no leader, or it does not answer.
    """
    await client.force_metadata_update()
    leader = client.cluster.leader_for_partition(tp)
    if leader is None or leader == -1:
        raise KafkaError(f"{tp} has no leader")
    found = []
    for which in (_EARLIEST, _LATEST):
        # Not the consumer's request, which ends at the first open transaction; this needs the whole log.
        request = OffsetRequest(-1, _READ_UNCOMMITTED, [(tp.topic, [(tp.partition, which)])])
        response = await client.send(leader, request)
        _, error, _, offset = response.topics[0][1][0]
        if error:
            raise for_code(error)(tp)
        found.append(offset)
    return Bounds(*found)
