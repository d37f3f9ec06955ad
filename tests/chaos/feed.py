from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from aiokafka import AIOKafkaProducer

from tests.chaos.checker import MetricRule, Policy

SAMPLING_RATE: Final = 0.5
POISON_EVERY: Final = 1000
"""One record in this many is not an event."""
STYLE_RATE: Final = 0.5
POLICY: Final = Policy(
    rate=SAMPLING_RATE,
    metrics={
        "tone": MetricRule(apps=frozenset({"shop", "help"})),
        "style": MetricRule(apps=frozenset({"shop"}), rate=STYLE_RATE),
    },
)
POISON: Final = (
    b"\x00\xff no JSON",
    b'{"event_id": "half an ev',
    b"[]",
    b'"text"',
    None,
    b'{"question": "q"}',
)
"""Records that are no events; none has an id by which sampling could skip it."""

_BURSTS_A_SECOND = 20
_PRODUCER_TIMEOUT_MS = 300_000


def settings_changes() -> dict[str, Any]:
    changes: dict[str, Any] = {"sampling.default_rate": POLICY.rate}
    for name, rule in POLICY.metrics.items():
        changes[f"metrics.{name}.when"] = {"labels": {"app": sorted(rule.apps)}}
        changes[f"metrics.{name}.rate"] = rule.rate
    return changes


def talk(number: int) -> str:
    return f"talk-{number // 2}"


def event(number: int, poison_every: int, *, talks: bool = False) -> bytes | None:
    """Poison at intervals, one event in 300 without a metric, and one in 5 for one metric alone."""
    if number % poison_every == poison_every - 1:
        return POISON[number // poison_every % len(POISON)]
    app = "nowhere" if number % 300 == 7 else "help" if number % 5 == 0 else "shop"
    document = {
        "event_id": f"event-{number}",
        "question": f"How is number {number} done?",
        "answer": "As the numbers before it. " * 8,
        "other_answer": "As the numbers after it. " * 8,
        "labels": {"app": app},
    } | ({"conversation_id": talk(number)} if talks else {})
    return json.dumps(document).encode()


@dataclass(eq=False, kw_only=True)
class Feed:
    """Produces events at a constant pace, during broker faults too; one in `kept` comes after the fault."""

    bootstrap_servers: str
    topic: str
    count: int
    seconds: float
    poison_every: int
    codecs: Sequence[str | None] = (None,)
    headers: Sequence[tuple[str, bytes]] = ()
    talks: bool = False
    abort: bool = False
    kept: int = 10

    def __post_init__(self) -> None:
        self._kept = asyncio.Event()
        self._release = asyncio.Event()
        self._task = asyncio.create_task(self._run())

    @property
    def holds_back(self) -> bool:
        """Whether only the events kept for the end remain."""
        return self._kept.is_set()

    async def held_back(self) -> None:
        kept = asyncio.create_task(self._kept.wait())
        await asyncio.wait({kept, self._task}, return_when=asyncio.FIRST_COMPLETED)
        kept.cancel()
        if self._task.done():
            self._task.result()

    def release(self) -> None:
        self._release.set()

    async def finish(self) -> None:
        self.release()
        await self._task

    async def cancel(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        async with contextlib.AsyncExitStack() as stack:
            producers = [await stack.enter_async_context(self._producer(codec)) for codec in self.codecs]
            aborting = None
            if self.abort:
                aborting = await stack.enter_async_context(self._producer(None, f"{self.topic}-aborted"))
            bursts = max(self.kept, round(self.seconds * _BURSTS_A_SECOND))
            kept = bursts - bursts // self.kept
            sent: list[asyncio.Future[Any]] = []
            for burst in range(bursts):
                if burst == kept:
                    await asyncio.gather(*sent)
                    self._kept.set()
                    await self._release.wait()
                begin, end = (self.count * (burst + more) // bursts for more in (0, 1))
                for number in range(begin, end):
                    value = event(number, self.poison_every, talks=self.talks)
                    producer = producers[number % len(producers)]
                    key = talk(number).encode() if self.talks else b"key-%d" % number
                    headers = list(self.headers)
                    sent.append(await producer.send(self.topic, value, key=key, headers=headers))
                if aborting is not None:
                    await self._give_up(aborting, range(begin, end))
                await asyncio.sleep(1 / _BURSTS_A_SECOND)  # the pace
            await asyncio.gather(*sent)

    def _producer(self, codec: str | None, transactional_id: str | None = None) -> AIOKafkaProducer:
        return AIOKafkaProducer(
            bootstrap_servers=self.bootstrap_servers,
            enable_idempotence=True,
            transactional_id=transactional_id,
            compression_type=codec,
            request_timeout_ms=_PRODUCER_TIMEOUT_MS,
            metadata_max_age_ms=1_000,  # discovers new partitions
            max_request_size=1_000_000,
        )

    async def _give_up(self, producer: AIOKafkaProducer, numbers: range) -> None:
        await producer.begin_transaction()
        for number in numbers:
            value = event(number + 1_000_000, self.poison_every)
            await producer.send(self.topic, value, key=b"key-%d" % number)
        await producer.flush()
        await producer.abort_transaction()
