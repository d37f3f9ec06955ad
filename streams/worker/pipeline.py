"""Runs a handler on many records at a time, and acknowledges each when its handler is done."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

import structlog

from judge.errors import DrainingError, JudgeConfigurationError
from streams.errors import DeadLetterLimitError, SettingsError
from streams.telemetry.traces import where

_log = structlog.stdlib.get_logger(__name__)

Handler = Callable[[Any], Awaitable[None]]
"""Takes a record; returns when everything that follows from it was written."""
Surprise = Callable[[Any, Exception], Awaitable[None]]
"""Takes a record and the unexpected error; returns when the record was set aside."""
Crash = Callable[[BaseException], Awaitable[None]]
"""Stops the worker with an error."""


class Pipeline:
    """One agent's records in flight.

    How many there can be is the transport's business (its room per topic); here each record simply has a
    task. A record whose handler is cancelled is not acknowledged: anyone who reads the partition next gets it
    again.

    Args:
        name: The agent's name, for the log.
        handle: What is done with a record.
        on_unreadable: What is done with what stands in the place of records that cannot be read.
        on_surprise: What is done with a record that `handle` could not cope with, so that one bad record does
            not stop everything.
        crash: Called with an error that every record would meet.
    """

    def __init__(
        self, name: str, handle: Handler, *, on_unreadable: Handler, on_surprise: Surprise, crash: Crash
    ) -> None:
        self.name = name
        self._handle = handle
        self._on_unreadable = on_unreadable
        self._on_surprise = on_surprise
        self._crash = crash
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False
        self.last_finished = time.monotonic()
        """When a record was finished last, or the agent was last seen idle, on the monotonic clock."""

    @property
    def in_hand(self) -> int:
        """Records whose handler runs."""
        return len(self._tasks)

    async def run(self, stream: Any) -> None:
        """Take records from a Faust stream, forever."""
        manual = stream.noack()
        async for event in manual.events():
            if self._closed:
                continue  # abandoned: not acknowledged, so that it is read again
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
            return  # not acknowledged: the partition's next reader gets it again
        except (JudgeConfigurationError, SettingsError) as error:
            _log.critical("stopping: the configuration cannot work", agent=self.name, error=str(error))
            await self._crash(error)
            return
        except DeadLetterLimitError as error:
            _log.critical("stopping: too many dead letters", agent=self.name, error=str(error))
            await self._crash(error)
            return
        except Exception as error:  # noqa: BLE001 - the one place that must survive any record
            # The error's own words may quote the record; they go aside with it.
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
            except Exception as second:  # noqa: BLE001 - it goes to anyone who watches the worker
                _log.exception("stopping: the dead letter could not be written", agent=self.name)
                await self._crash(second)
                return
        await stream.ack(event)
        self.last_finished = time.monotonic()

    def close(self) -> None:
        """Begin nothing new, whatever the stream still holds."""
        self._closed = True

    async def finish(self, timeout_seconds: float) -> None:
        """Let the records in flight end, and give up what does not in time."""
        tasks = set(self._tasks)
        if not tasks:
            return
        _, late = await asyncio.wait(tasks, timeout=timeout_seconds)
        for task in late:
            task.cancel()
        if late:
            _log.warning("records released, to be read again", agent=self.name, records=len(late))
            await asyncio.wait(late)
