"""Resend the original records of dead letters to their source topics."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Collection
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from aiokafka.errors import KafkaError
from pydantic import ValidationError

from schemas import DeadLetter
from streams.kafka.past import partitions_of

SENT_AGAIN: Final = "judgestream-sent-again"
"""Header of a resent record: the position of its dead letter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Selects dead letters.

    Args:
        reasons: Reasons to select; empty for all.
        topics: Source topics to select; empty for all.
    """

    reasons: Collection[str] = ()
    topics: Collection[str] = ()
    since: datetime | None = None
    until: datetime | None = None

    def fits(self, letter: DeadLetter) -> bool:
        """Return whether a dead letter is selected."""
        return (
            (not self.reasons or letter.reason in self.reasons)
            and (not self.topics or letter.topic in self.topics)
            and (self.since is None or letter.failed_at >= self.since)
            and (self.until is None or letter.failed_at < self.until)
        )


@dataclass(slots=True)
class Found:
    """Counts of selected dead letters."""

    by_topic: Counter[tuple[str, str]] = field(default_factory=Counter)
    cut: int = 0
    unreadable: int = 0

    @property
    def count(self) -> int:
        """Number of originals that can be sent."""
        return self.by_topic.total()


async def ends_of(consumer: Any, topic: str) -> dict[Any, int]:
    """Return the current end offset of each partition of a topic; empty if the topic does not exist."""
    partitions = await partitions_of(consumer, topic)
    return dict(await consumer.end_offsets(partitions)) if partitions else {}


async def letters(
    consumer: Any, ends: dict[Any, int], wanted: Wanted, found: Found
) -> AsyncIterator[tuple[str, DeadLetter]]:
    """Yield each selected, untruncated dead letter with its position, and count all.

    Args:
        consumer: A started consumer without a group.
    """
    partitions = list(ends)
    consumer.assign(partitions)
    if wanted.since is not None:
        at = await consumer.offsets_for_times(
            dict.fromkeys(partitions, round(wanted.since.timestamp() * 1000))
        )
        for place in partitions:
            consumer.seek(place, ends[place] if at[place] is None else at[place].offset)
    else:
        await consumer.seek_to_beginning(*partitions)
    while [place for place in partitions if await consumer.position(place) < ends[place]]:
        for place, batch in (await consumer.getmany(timeout_ms=500)).items():
            for record in batch:
                if record.offset >= ends[place]:
                    continue
                letter = _read(record.value)
                if letter is None:
                    found.unreadable += 1
                elif wanted.fits(letter):
                    if letter.truncated:
                        found.cut += 1
                        continue
                    found.by_topic[letter.topic, letter.reason] += 1
                    yield f"{place.topic}/{place.partition}/{record.offset}", letter


def _read(value: bytes | None) -> DeadLetter | None:
    try:
        return DeadLetter.model_validate_json(value or b"")
    except ValidationError:
        return None


async def send_again(
    producer: Any,
    originals: AsyncIterator[tuple[str, DeadLetter]],
    *,
    rate: float | None,
    stop: asyncio.Event,
) -> tuple[int, list[str]]:
    """Send originals with their key, value and headers, and wait until the broker confirms each.

    Args:
        rate: Records per second; None for no limit.
    """
    sent = 0
    problems: list[str] = []
    loop = asyncio.get_running_loop()
    started = loop.time()
    async for position, letter in originals:
        if stop.is_set():
            break
        headers = [(one.name, one.value) for one in letter.headers if one.name != SENT_AGAIN]
        try:
            await producer.send_and_wait(
                letter.topic,
                letter.value,
                key=letter.key,
                headers=[*headers, (SENT_AGAIN, position.encode())],
                timestamp_ms=None if letter.timestamp is None else round(letter.timestamp.timestamp() * 1000),
            )
        except KafkaError as error:
            problems.append(f"{position}: {error!r}")
        else:
            sent += 1
        if rate is not None:
            await asyncio.sleep(max(started + sent / rate - loop.time(), 0))
    return sent, problems
