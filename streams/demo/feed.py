"""Sends the demo's events to their topic: a fixed number, or endlessly at a steady rate."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import msgspec

from streams.demo.accounting import POSITION_HEADER
from streams.demo.events import DemoRecord, Question, make_record

MAX_UNFINISHED = 120
"""Maximum records waiting for the worker; the bound keeps verdicts in the order of events."""
_POLL_SECONDS = 0.02


@dataclass(frozen=True, slots=True)
class Cycle:
    """When the endless demo serves worse answers: first good ones, then alternating."""

    good_seconds: float = 20.0
    worse_seconds: float = 45.0
    recovered_seconds: float = 60.0

    def is_worse(self, seconds: float) -> bool:
        """Return whether answers are worse, this time after the first event."""
        since = seconds - self.good_seconds
        return since >= 0 and since % (self.worse_seconds + self.recovered_seconds) < self.worse_seconds


def bounded_records(questions: tuple[Question, ...], count: int) -> Iterator[DemoRecord]:
    """Yield `count` events, the second half from the bad deployment."""
    for index in range(count):
        yield make_record(questions, index, worse=index * 2 >= count, occurred_at=datetime.now(UTC))


def endless_records(
    questions: tuple[Question, ...], cycle: Cycle, seconds: Callable[[], float]
) -> Iterator[DemoRecord]:
    """Yield events endlessly, alternating good and worse; `seconds` is the time since the first event."""
    index = 0
    while True:
        yield make_record(questions, index, worse=cycle.is_worse(seconds()), occurred_at=datetime.now(UTC))
        index += 1


def file_records(lines: Iterable[bytes]) -> Iterator[DemoRecord]:
    """Yield the lines of a file unchanged, with the event id as key if it can be read."""
    for line in lines:
        yield DemoRecord(_key(line), line)


def _key(line: bytes) -> bytes | None:
    try:
        value = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    key = value.get("event_id") if isinstance(value, dict) else None
    return key.encode() if isinstance(key, str) and key else None


class Feed:
    """Sends records one after the other.

    Args:
        rate: Events per second; None: as fast as the worker.
    """

    def __init__(
        self,
        producer: Any,
        topic: str,
        *,
        unfinished: Callable[[int], int],
        rate: float | None,
        head_start: int = 0,
    ) -> None:
        self.sent = 0
        self.done = False
        self._producer = producer
        self._topic = topic
        self._unfinished = unfinished
        self._rate = rate
        self._head_start = head_start

    async def run(self, records: Iterable[DemoRecord]) -> None:
        """Send all records; return when the broker has acknowledged each."""
        loop = asyncio.get_running_loop()
        started = loop.time()
        confirmations: set[asyncio.Future[Any]] = set()
        for record in records:
            while self._unfinished(self.sent) >= MAX_UNFINISHED:  # noqa: ASYNC110 - progress is polled, too
                await asyncio.sleep(_POLL_SECONDS)
            if self._rate is not None and self.sent >= self._head_start:
                due = started + (self.sent - self._head_start) / self._rate
                await asyncio.sleep(max(due - loop.time(), 0.0))
            confirmation = await self._producer.send(
                self._topic,
                record.value,
                key=record.key,
                headers=[(POSITION_HEADER, str(self.sent).encode())],
            )
            confirmations.add(confirmation)
            confirmation.add_done_callback(confirmations.discard)
            self.sent += 1
        if confirmations:
            await asyncio.gather(*confirmations)
        self.done = True
