"""Judge the tasks of a replay and publish the results, within its share, rate and budget."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Literal, TypeAlias

from judge.errors import JudgeUnavailableError
from judge.pool.pool import EndpointPool
from schemas import Failed, JudgeTask, Scored, Unscored
from streams.judging.agent import PatientJudge
from streams.judging.files.judging import outage
from streams.worker.replay.history import History

End: TypeAlias = Literal["done", "stopped", "max_usd", "outage"]
"""Why judging ended: all done, stopped by the user, budget used up, no endpoint available."""
OUTAGE_SECONDS = 120.0
"""A replay ends after an outage of all endpoints for this long; it can be resumed."""
END_SECONDS = 60.0
"""Timeout of the calls in flight after a stop."""


class ReplayJudging:
    """Judges the tasks of a replay.

    Args:
        judges: Judges by metric.
        pool: Their endpoints.
        publish: Writes a result, and returns when the broker has confirmed it.
        history: Earlier results; new ones are added.
        at_once: Answers judged concurrently; at least 1.
        per_second: Answers per second; None for no limit.
        max_usd: Limit on the cost of all results of the replay; None for no limit.
        stop: Set it to end early.
    """

    def __init__(
        self,
        *,
        judges: Mapping[str, PatientJudge],
        pool: EndpointPool,
        publish: Callable[[Scored | Unscored | Failed], Awaitable[None]],
        history: History,
        at_once: int,
        per_second: float | None,
        max_usd: float | None,
        stop: asyncio.Event,
    ) -> None:
        self.trouble: str | None = None
        """Why no endpoint is available, if that ended judging."""
        self._judges = judges
        self._pool = pool
        self._publish = publish
        self._history = history
        self._at_once = at_once
        self._per_second = per_second
        self._max_usd = max_usd
        self._stop = stop
        self._running: set[asyncio.Task[None]] = set()
        self._under_way: set[str] = set()
        self._count = 0

    async def run(self, tasks: AsyncIterator[JudgeTask], told: Callable[[], None]) -> End:
        """Judge the tasks that have no result.

        Args:
            tasks: The tasks; read as capacity allows.
            told: Called after each result.

        Raises:
            JudgeConfigurationError: No event can be judged with this configuration.
            KafkaError: A result cannot be written.
        """
        watches = (
            asyncio.create_task(self._stop.wait()),
            asyncio.create_task(outage(self._pool, seconds=OUTAGE_SECONDS)),
        )
        started, begun = asyncio.get_running_loop().time(), self._count
        try:
            async for task in tasks:
                if task.result_id in self._history.done or task.result_id in self._under_way:
                    continue
                if self._per_second is not None:
                    at = started + (self._count - begun) / self._per_second
                    await self._pause_until(at, watches[0])
                end = await self._room(watches)
                if end is not None:
                    return await self._ended(end)
                self._count += 1
                self._under_way.add(task.result_id)
                self._running.add(asyncio.create_task(self._judge(task, told)))
            while self._running:
                end = await self._one_less(watches)
                if end is not None:
                    return await self._ended(end)
            return "done"
        finally:
            for left in (*watches, *self._running):
                left.cancel()
            await asyncio.gather(*watches, *self._running, return_exceptions=True)

    async def _judge(self, task: JudgeTask, told: Callable[[], None]) -> None:
        result = await self._judges[task.metric].judge(task)
        await self._publish(result)
        self._history.add(result)
        self._under_way.discard(task.result_id)
        told()

    async def _room(self, watches: tuple[asyncio.Task[bool], asyncio.Task[str]]) -> End | None:
        """Wait until another task may start; return the reason if none may."""
        if self._stop.is_set():
            return "stopped"
        while len(self._running) >= self._at_once or not self._affordable():
            if not self._running:
                return "max_usd"
            end = await self._one_less(watches)
            if end is not None:
                return end
        return None

    def _affordable(self) -> bool:
        """Return whether another task fits the budget, at the mean cost for it and those in flight."""
        if self._max_usd is None:
            return True
        spent, count = self._history.usd, self._history.priced
        if not count:  # the cost is unknown so far: one at a time
            return not self._running
        return spent + (len(self._running) + 1) * spent / count <= self._max_usd

    async def _one_less(self, watches: tuple[asyncio.Task[bool], asyncio.Task[str]]) -> End | None:
        done, _ = await asyncio.wait({*self._running, *watches}, return_when=asyncio.FIRST_COMPLETED)
        for task in self._running & done:
            self._running.discard(task)
            task.result()
        if watches[0] in done:
            return "stopped"
        if watches[1] in done:
            self.trouble = watches[1].result()
            return "outage"
        return None

    async def _pause_until(self, at: float, stopping: asyncio.Task[bool]) -> None:
        seconds = at - asyncio.get_running_loop().time()
        if seconds > 0:
            await asyncio.wait({stopping}, timeout=seconds)

    async def _ended(self, end: End) -> End:
        """Wait for the calls in flight, which are paid for."""
        if self._running and end != "outage":
            self._pool.drain()
            done, _ = await asyncio.wait(self._running, timeout=END_SECONDS)
            for task in done:
                self._running.discard(task)
                with contextlib.suppress(JudgeUnavailableError):  # it was still waiting for an endpoint
                    task.result()
        return end
