from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import pytest

from judge.errors import DrainingError, JudgeConfigurationError
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
    """Three records are handled concurrently and acknowledged in the order in which they end."""
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


async def test_an_unexpected_error_is_set_aside_and_acknowledged(log: _Log) -> None:
    """An unexpected error is set aside and acknowledged, and other records are handled."""

    async def handle(record: _Record) -> None:
        if record.offset == 1:
            raise ZeroDivisionError("odd")

    stream = _Stream(3)
    task = await _run(_pipeline(handle, log), stream)
    assert sorted(stream.acked) == [0, 1, 2]
    assert log.surprises == [(1, "odd")]
    assert log.crashes == []
    task.cancel()


async def test_a_task_abandoned_while_draining_is_not_acknowledged(log: _Log) -> None:
    """A record abandoned while draining is neither acknowledged nor set aside."""

    async def handle(record: _Record) -> None:
        if record.offset == 0:
            raise DrainingError("given up")

    stream = _Stream(2)
    task = await _run(_pipeline(handle, log), stream)
    assert (stream.acked, log.surprises, log.crashes) == ([1], [], [])
    task.cancel()


@pytest.mark.parametrize("error", [JudgeConfigurationError("no key"), ValueError("hopeless")])
async def test_a_permanent_error_stops_the_worker(log: _Log, error: Exception) -> None:
    """A configuration error or a failing dead letter stops the worker without acknowledging."""

    async def handle(_: _Record) -> None:
        raise error

    stream = _Stream(1)
    task = await _run(_pipeline(handle, log), stream)
    assert stream.acked == []
    assert len(log.crashes) == 1
    task.cancel()


async def test_finish_gives_up_what_does_not_end_in_time(log: _Log) -> None:
    """`finish` cancels records that exceed its time and does not acknowledge them."""
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
    """A closed pipeline neither handles nor acknowledges records."""
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
