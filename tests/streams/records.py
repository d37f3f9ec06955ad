"""Records as the agents see them, and what they write."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, field
from typing import Any

from schemas import JudgeTask, Scored
from streams.kafka.record import Record


def make_record(
    value: bytes | None = b"v",
    *,
    key: bytes | None = None,
    topic: str = "t",
    partition: int = 0,
    offset: int = 0,
    timestamp: float | None = None,
    headers: Iterable[tuple[str, bytes | None]] = (),
    generation_id: int = 1,
) -> Record:
    return Record(topic, partition, offset, timestamp, key, value, tuple(headers), generation_id)


@dataclass
class Outbox:
    """Keeps what an agent writes; with a gate its tasks wait."""

    tasks: list[JudgeTask] = field(default_factory=list)
    results: list[Scored] = field(default_factory=list)
    letters: list[tuple[str, str]] = field(default_factory=list)
    gate: asyncio.Event | None = None

    async def task(self, task: JudgeTask) -> None:
        if self.gate is not None:
            await self.gate.wait()
        self.tasks.append(task)

    async def result(self, result: Scored) -> None:
        self.results.append(result)

    async def dead_letter(self, _: Any, reason: str, detail: str, **__: Any) -> None:
        self.letters.append((reason, detail))

    def passed(self, topic: str) -> None:
        """Count no record."""


@dataclass
class FakePast:
    """A topic that is read again from a time on; it keeps what it was asked for."""

    records: tuple[Record, ...] = ()
    count: int = 4
    asked: list[tuple[int, float, int]] = field(default_factory=list)

    async def partitions(self, _: str) -> int:
        return self.count

    async def read_since(self, _: str, partition: int, *, since: float, before: int) -> AsyncIterator[Any]:
        self.asked.append((partition, since, before))
        for record in self.records:
            yield record
