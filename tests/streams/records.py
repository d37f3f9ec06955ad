"""Records as the agents see them, and what they write."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
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
