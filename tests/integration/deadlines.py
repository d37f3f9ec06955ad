"""Waiting for a condition by polling with a deadline."""

from __future__ import annotations

import asyncio
import inspect
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from aiokafka import AIOKafkaConsumer, ConsumerRecord

DEADLINE_SECONDS: Final = 90.0
"""On a machine with five workers on one core, what takes 1 s took 40."""
_LOOK_AGAIN_SECONDS = 0.02


async def until(
    condition: Callable[[], bool | Awaitable[bool]], what: str, *, deadline_seconds: float = DEADLINE_SECONDS
) -> None:
    loop = asyncio.get_running_loop()
    deadline = loop.time() + deadline_seconds
    while True:
        holds = condition()
        if inspect.isawaitable(holds):
            holds = await holds
        if holds:
            return
        assert loop.time() < deadline, f"not within {deadline_seconds} s: {what}"
        await asyncio.sleep(_LOOK_AGAIN_SECONDS)


async def take(
    consumer: AIOKafkaConsumer, count: int, *, deadline_seconds: float = DEADLINE_SECONDS
) -> list[ConsumerRecord]:
    records: list[ConsumerRecord] = []

    async def enough() -> bool:
        for batch in (await consumer.getmany(timeout_ms=200)).values():
            records.extend(batch)
        return len(records) >= count

    await until(enough, f"{count} records", deadline_seconds=deadline_seconds)
    return records
