"""What happens to a partition whose next offset the broker calls out of range.

aiokafka would go to the beginning of the log at once. But the answer may come from a broker that led the
partition, was away and has not heard that another leads it now: its log is shorter, and everything would be
read again. So the leader is asked where its log begins and ends, three times over some seconds with a fresh
view of who leads, and only an offset that is out of range each time is abandoned:

- The log begins behind it: retention has removed records that nobody had read. Reading continues at the
  beginning, and what is missing is counted.
- The log ends before it: the topic was created again, or a replica with a shorter log became leader. By
  setting, reading continues at the committed offset, if the log has it, or at the beginning.
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

ResumeAt = Literal["committed", "beginning"]
"""Where reading continues when a log has become shorter."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """Where a partition's log begins and ends (the offset behind its last record)."""

    begin: int
    end: int


@dataclass(frozen=True, slots=True)
class Move:
    """A partition that is read on from elsewhere.

    Args:
        topic: The topic.
        partition: The partition.
        before: The offset that was to be read next.
        after: The one that is read next instead.
        why: retention: records in between are gone; shorter: the log has become shorter.
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


def decide(offset: int, bounds: Bounds, committed: int | None, resume_at: ResumeAt) -> int | None:
    """Say where reading continues; None where the offset is in range after all.

    Args:
        offset: What was to be read next.
        bounds: Of the log, as its leader says.
        committed: The group's; None without one.
        resume_at: What holds where the log ends before `offset`.
    """
    if bounds.begin <= offset <= bounds.end:
        return None
    if offset < bounds.begin:
        return bounds.begin
    if resume_at == "committed" and committed is not None and bounds.begin <= committed <= bounds.end:
        return committed
    return bounds.begin


async def confirmed_bounds(
    tp: Any,
    offset: int,
    ask: Callable[[Any], Awaitable[Bounds]],
    *,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> Bounds:
    """Ask for a log's bounds until they have shut an offset out `CHECKS` times in a row, or once let it in.

    Args:
        tp: The partition.
        offset: The offset in question.
        ask: Asks the partition's leader.
        sleep: Waits for some seconds.
    """
    outside = 0
    while True:
        try:
            bounds = await ask(tp)
        except KafkaError:  # no leader, or no answer: inconclusive
            outside = 0
        else:
            if bounds.begin <= offset <= bounds.end:
                return bounds
            outside += 1
            if outside == CHECKS:
                return bounds
        await sleep(CHECK_EVERY_SECONDS)


async def ask_bounds(client: Any, tp: Any) -> Bounds:
    """Ask the leader of a partition, as a fresh look at the cluster names it, where its log begins and ends.

    Raises:
        KafkaError: There is no leader, or it does not answer.
    """
    await client.force_metadata_update()
    leader = client.cluster.leader_for_partition(tp)
    if leader is None or leader == -1:
        raise KafkaError(f"{tp} has no leader")
    found = []
    for which in (_EARLIEST, _LATEST):
        # Not the consumer's own question: it ends at the first open transaction, and this is about the whole
        # log.
        request = OffsetRequest(-1, _READ_UNCOMMITTED, [(tp.topic, [(tp.partition, which)])])
        response = await client.send(leader, request)
        _, error, _, offset = response.topics[0][1][0]
        if error:
            raise for_code(error)(tp)
        found.append(offset)
    return Bounds(*found)
