"""Opens the sinks of the settings; a record is finished when all have accepted it, so at least once."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from random import uniform
from typing import Any, Final, Generic, TypeVar

import structlog
from pydantic import ValidationError

from judge.extensions import load
from schemas import RESULT, is_rejudged
from streams.errors import SettingsError
from streams.kafka.output import Output
from streams.kafka.record import Record
from streams.settings.tree import Settings
from streams.sinks.base import Deliverable, Evaluation, ItemT, Opening, Sink, SinkDownError
from streams.telemetry.logs import surprise

T = TypeVar("T")
_log = structlog.stdlib.get_logger(__name__)

FIRST_WAIT_SECONDS: Final = 0.5
LONGEST_WAIT_SECONDS: Final = 60.0


class Delivery(Generic[ItemT]):
    """Delivers to one sink in batches; while it is down, pauses grow and records wait in Kafka.

    `on_outcome` receives the outcome (delivered, skipped or refused) and the number of items.
    """

    def __init__(self, name: str, sink: Sink[ItemT], *, on_outcome: Callable[[str, int], None]) -> None:
        self.name, self._sink, self._on_outcome = name, sink, on_outcome
        self.trouble: str | None = None
        self._waiting: deque[tuple[ItemT, asyncio.Future[str | None]]] = deque()
        self._working: asyncio.Task[None] | None = None

    async def put(self, item: ItemT) -> str | None:
        """Deliver an item; return why it was refused, None if it was accepted."""
        if not self._sink.wants(item):
            self._on_outcome("skipped", 1)
            return None
        future: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, future))
        if self._working is None or self._working.done():
            self._working = asyncio.create_task(self._work())
        return await future

    async def close(self) -> None:
        if self._working is not None:
            self._working.cancel()
        try:
            await self._sink.close()
        except Exception as error:  # noqa: BLE001 - foreign code must not keep the worker from ending
            _log.warning("a sink could not be closed", sink=self.name, error=repr(error))

    async def _work(self) -> None:
        while self._waiting:
            if len(self._waiting) < self._sink.batch:
                await asyncio.sleep(self._sink.linger_seconds)
            size = min(self._sink.batch, len(self._waiting))
            some = [self._waiting.popleft() for _ in range(size)]
            if batch := [one for one in some if not one[1].done()]:  # cancelled meanwhile
                await self._deliver(batch)

    async def _deliver(self, batch: list[tuple[ItemT, asyncio.Future[str | None]]]) -> None:
        try:
            answer = await self._send([item for item, _ in batch])
            refused = {key: str(why) for key, why in answer.items()}
        except Exception as error:  # noqa: BLE001 - foreign code; each record's agent reports it
            for _, future in batch:
                if not future.done():
                    future.set_exception(error)
            return
        self._on_outcome("refused", len(refused))
        self._on_outcome("delivered", len(batch) - len(refused))
        for item, future in batch:
            if not future.done():
                future.set_result(refused.get(item.key))

    async def _send(self, items: Sequence[ItemT]) -> Mapping[str, str]:
        wait = FIRST_WAIT_SECONDS
        while True:
            try:
                refused = await self._sink.send(items)
            except SinkDownError as error:
                if self.trouble is None:
                    what = "a sink fails; retrying until it accepts verdicts"
                    _log.error(what, sink=self.name, error=str(error))
                self.trouble = str(error)
                await asyncio.sleep(uniform(wait / 2, wait))  # noqa: S311 - jitter, not security
                wait = min(2 * wait, LONGEST_WAIT_SECONDS)
                continue
            if self.trouble is not None:
                _log.info("a sink accepts verdicts again", sink=self.name)
                self.trouble = None
            return refused


def open_sinks(
    settings: Settings,
    output: Output,
    *,
    version: str,
    env: Mapping[str, str],
    on_outcome: Callable[[str, str, int], None],
) -> dict[str, list[Delivery[Any]]]:
    """Open the sinks of the settings, by what they read: verdicts or incidents."""
    if not settings.sinks:
        raise SettingsError(["sinks: has no receiver for the agent sink; add one or remove the agent"])
    ways: dict[str, list[Delivery[Any]]] = {"verdicts": [], "incidents": []}
    for name, section in settings.sinks.items():
        kind = load("judgestream.sinks", section.kind, Sink)
        sink: Sink[Any] = kind(section, Opening(name, settings, env, output, version))
        ways[sink.reads].append(Delivery(name, sink, on_outcome=partial(on_outcome, name)))
    return ways


class Agent:
    def __init__(self, sinks: Sequence[Delivery[Any]], output: Output) -> None:
        self._sinks, self._output = tuple(sinks), output

    async def on_surprise(self, record: Any, error: Exception) -> None:
        await self._output.dead_letter(record, "undecodable", surprise(error))

    async def _parsed(self, record: Record, parse: Callable[[bytes], T], what: str, topic: str) -> T | None:
        """Return a record's message; None if it has none, which becomes a dead letter."""
        try:
            return parse(record.value or b"")
        except ValidationError as error:
            problems = error.error_count()
            detail = f"value: is not {what}, {problems} problems; is topics.{topic} right?"
            await self._output.dead_letter(record, "undecodable", detail)
            return None

    async def _deliver(
        self, record: Record, item: Deliverable, name: str, event_id: str | None = None
    ) -> None:
        """Deliver to every sink; a refusal becomes a dead letter, and does not keep it from the others."""
        outcomes = await asyncio.gather(*(sink.put(item) for sink in self._sinks), return_exceptions=True)
        for sink, outcome in zip(self._sinks, outcomes, strict=True):
            if isinstance(outcome, BaseException):
                raise outcome
            if outcome is not None:
                detail = f"sinks.{sink.name}: the receiver refused the {name}, {outcome}"
                await self._output.dead_letter(record, "unroutable", detail, event_id=event_id)


class SinkAgent(Agent):
    async def handle(self, record: Record) -> None:
        result = await self._parsed(record, RESULT.validate_json, "a result", "scores")
        if result is not None and not is_rejudged(result.replay_id):
            name = f"verdict of {result.metric}"
            await self._deliver(record, Evaluation.of(result), name, event_id=result.event_id)
