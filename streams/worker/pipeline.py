"""Run a handler on many records concurrently, and acknowledge each record when its handler returns."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

import structlog

from judge.errors import DrainingError, JudgeConfigurationError
from streams.errors import DeadLetterLimitError, SettingsError
from streams.telemetry.logs import where

_log = structlog.stdlib.get_logger(__name__)

Handler = Callable[[Any], Awaitable[None]]
"""Handles a record; returns when its whole output is written."""


class Pipeline:
    """One agent's records in flight, each with its own task.

    The consumer limits their number (the buffer of the topic). A record whose handler is cancelled is not
    acknowledged, so it is redelivered to the partition's next owner.

    Args:
        on_surprise: Called with a record and its unexpected error; returns when the dead letter is written.
        crash: Called with an error that affects every record; stops the worker.
    """

    def __init__(
        self,
        name: str,
        handle: Handler,
        *,
        on_unreadable: Handler,
        on_surprise: Callable[[Any, Exception], Awaitable[None]],
        crash: Callable[[BaseException], Awaitable[None]],
    ) -> None:
        self.name = name
        self._handle = handle
        self._on_unreadable = on_unreadable
        self._on_surprise = on_surprise
        self._crash = crash
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False
        self.released = 0
        """Records in flight that did not finish in time, to be read again."""
        self.last_finished = time.monotonic()
        """Time of the last finished record or of the last idle moment, on the monotonic clock."""

    @property
    def in_hand(self) -> int:
        return len(self._tasks)

    async def run(self, stream: Any) -> None:
        manual = stream.noack()
        async for event in manual.events():
            if self._closed:
                continue  # not acknowledged, so that it is redelivered
            if not self._tasks:
                self.last_finished = time.monotonic()
            task = asyncio.create_task(self._finish(manual, event))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _finish(self, stream: Any, event: Any) -> None:
        record = event.message
        try:
            await (self._handle if record.unreadable is None else self._on_unreadable)(record)
        except DrainingError:
            return  # not acknowledged: redelivered to the partition's next owner
        except (JudgeConfigurationError, SettingsError, DeadLetterLimitError) as error:
            _log.critical("stopping: no record can be handled", agent=self.name, error=str(error))
            await self._crash(error)
            return
        except Exception as error:  # noqa: BLE001 - one bad record must not stop the worker
            # The error message may quote the record, so it goes into the dead letter only.
            _log.error(
                "unexpected error: the record becomes a dead letter",
                agent=self.name,
                topic=record.topic,
                partition=record.partition,
                offset=record.offset,
                error=type(error).__name__,
                where=where(error),
            )
            _log.debug("unexpected error [may quote the record]", agent=self.name, exc_info=error)
            try:
                await self._on_surprise(record, error)
            except Exception as second:  # noqa: BLE001 - the crash reports it
                _log.exception("stopping: the dead letter could not be written", agent=self.name)
                await self._crash(second)
                return
        await stream.ack(event)
        self.last_finished = time.monotonic()

    def close(self) -> None:
        self._closed = True

    async def finish(self, timeout_seconds: float) -> None:
        """Wait for the records in flight up to the timeout, then cancel the rest."""
        tasks = set(self._tasks)
        if not tasks:
            return
        _, late = await asyncio.wait(tasks, timeout=timeout_seconds)
        for task in late:
            task.cancel()
        if late:
            self.released += len(late)
            _log.warning("records released, to be read again", agent=self.name, records=len(late))
            await asyncio.wait(late)
