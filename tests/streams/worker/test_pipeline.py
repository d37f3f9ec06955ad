from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import pytest

from judge.errors import DrainingError, JudgeConfigurationError
from streams.errors import DeadLetterLimitError
from streams.worker.pipeline import Pipeline


@dataclass
class _Record:
    offset: int
    topic: str = "t"
    partition: int = 0
    unreadable: Any = None


@dataclass
class _Event:
    message: _Record


class _Stream:
    """A stream that yields records and then stays open."""

    def __init__(self, count: int) -> None:
        self._count = count
        self.acked: list[int] = []

    def noack(self) -> _Stream:
        return self

    async def events(self) -> AsyncIterator[_Event]:
        for offset in range(self._count):
            yield _Event(_Record(offset))
        await asyncio.Event().wait()

    async def ack(self, event: _Event) -> None:
        self.acked.append(event.message.offset)


class _Log:
    def __init__(self) -> None:
        self.surprises: list[tuple[int, str]] = []
        self.crashes: list[BaseException] = []
        self.unreadable: list[int] = []

    async def on_unreadable(self, record: Any) -> None:
        self.unreadable.append(record.offset)

    async def on_surprise(self, record: Any, error: Exception) -> None:
        if str(error) == "hopeless":
            raise RuntimeError("cannot be set aside")
        self.surprises.append((record.offset, str(error)))

    async def crash(self, error: BaseException) -> None:
        self.crashes.append(error)


async def _settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


@pytest.fixture
def log() -> _Log:
    return _Log()


def _pipeline(handle: Callable[[_Record], Awaitable[None]], log: _Log) -> Pipeline:
    return Pipeline(
        "p", handle, on_unreadable=log.on_unreadable, on_surprise=log.on_surprise, crash=log.crash
    )


async def _run(pipeline: Pipeline, stream: _Stream) -> asyncio.Task[None]:
    task = asyncio.create_task(pipeline.run(stream))
    await _settle()
    return task


async def test_records_are_handled_together_and_acknowledged_as_they_end(log: _Log) -> None:
    gates = [asyncio.Event() for _ in range(3)]

    async def handle(record: _Record) -> None:
        await gates[record.offset].wait()

    stream = _Stream(3)
    pipeline = _pipeline(handle, log)
    task = await _run(pipeline, stream)
    assert pipeline.in_hand == 3
    for offset in (2, 0, 1):
        gates[offset].set()
        await _settle()
    assert stream.acked == [2, 0, 1]
    assert pipeline.in_hand == 0
    task.cancel()


@pytest.mark.parametrize(
    ("error", "acked", "surprises", "crashes"),
    [
        (ZeroDivisionError("odd"), [0, 1, 2], [(1, "odd")], 0),
        # A record abandoned while draining is redelivered.
        (DrainingError("given up"), [0, 2], [], 0),
        (JudgeConfigurationError("no key"), [0, 2], [], 1),
        (DeadLetterLimitError("too many"), [0, 2], [], 1),
        # Its dead letter cannot be written.
        (ValueError("hopeless"), [0, 2], [], 1),
    ],
)
async def test_an_error_sets_one_record_aside_releases_it_or_stops_the_worker(
    log: _Log, error: Exception, acked: list[int], surprises: list[tuple[int, str]], crashes: int
) -> None:
    async def handle(record: _Record) -> None:
        if record.offset == 1:
            raise error

    stream = _Stream(3)
    task = await _run(_pipeline(handle, log), stream)
    assert sorted(stream.acked) == acked
    assert (log.surprises, len(log.crashes)) == (surprises, crashes)
    task.cancel()


async def test_finish_gives_up_what_does_not_end_in_time(log: _Log) -> None:
    never = asyncio.Event()

    async def handle(record: _Record) -> None:
        if record.offset == 1:
            await never.wait()

    stream = _Stream(2)
    pipeline = _pipeline(handle, log)
    task = await _run(pipeline, stream)
    await pipeline.finish(0.01)
    assert stream.acked == [0]
    assert pipeline.in_hand == 0
    assert (log.surprises, log.crashes) == ([], [])
    task.cancel()


async def test_a_closed_pipeline_handles_no_records(log: _Log) -> None:
    handled: list[int] = []

    async def handle(record: _Record) -> None:
        handled.append(record.offset)

    stream = _Stream(3)
    pipeline = _pipeline(handle, log)
    pipeline.close()
    task = await _run(pipeline, stream)
    await pipeline.finish(1)
    assert handled == []
    assert stream.acked == []
    task.cancel()
