"""The batch engine: judge a source's tasks concurrently, within limits, and yield results in its order.

The judge is the worker's: endpoints, limits, redaction, prices and cache. Only outages are bounded, because a
user is waiting.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from judge.endpoints.options import EndpointObserver
from judge.endpoints.pool import EndpointPool
from judge.errors import JudgeConfigurationError, JudgeUnavailableError
from judge.evaluate.prices import PriceTable
from schemas import JudgeTask, Result, Usage
from streams.batch.sources import InvalidLine
from streams.judging.agent import PatientJudge

End: TypeAlias = Literal["done", "stopped", "max_usd", "outage"]
"""Why a batch ended: all done, stopped by the user, budget used up, no endpoint available."""
Work: TypeAlias = JudgeTask | InvalidLine
"""A task, or a line that is none, which is passed on in its place."""
Outcome: TypeAlias = Result | InvalidLine
CONFIRM_SECONDS = 2.0
"""How long a wrong key or model is confirmed: shorter than an outage, because a user is waiting."""
WAITING = 8
"""Limit of outcomes that wait for a slow one before them, as a multiple of `Limits.at_once`."""
_LOOK_SECONDS = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of a batch."""

    at_once: int
    """Tasks judged concurrently; at least 1."""
    per_second: float | None = None
    max_usd: float | None = None
    """Limit on the cost of all results, including those of earlier runs."""
    outage_seconds: float = 5.0
    """The batch ends after an outage of all endpoints for this long."""
    finish_seconds: float = 0.0
    """Timeout of the calls in flight after a stop; they are paid for."""
    notice_seconds: float = 1.0
    """How long all endpoints must have been down until `notice` is told."""


@dataclass(slots=True)
class Spent:
    """The cost of results so far, for the mean: of those whose price is known."""

    usd: float = 0.0
    priced: int = 0

    def add(self, result: Result) -> None:
        """Add one result."""
        if result.cost_usd is not None:
            self.usd += result.cost_usd
            self.priced += 1

    def affords(self, count: int, max_usd: float) -> bool:
        """Return whether so many further verdicts fit the limit, at the mean cost; the first runs alone."""
        return count == 1 if not self.priced else self.usd + count * self.usd / self.priced <= max_usd


class Checks(EndpointObserver):
    """Collects the usage of calls that belong to no verdict: checks whether an endpoint answers."""

    def __init__(self, prices: PriceTable) -> None:
        self._prices = prices
        self.used_up: list[tuple[Usage, float | None]] = []
        """Tokens of each call and their cost in USD; None if unknown."""

    def used(self, endpoint: str, model: str, usage: Usage, *, for_verdict: bool) -> None:
        """Record the tokens of a call."""
        if not for_verdict:
            self.used_up.append((usage, self._prices.cost_usd(model, usage, endpoint=endpoint)))


class Batch:
    """Judges the tasks of one source.

    Args:
        pool: Their endpoints; None if no outage ends the batch.
        publish: Writes a result before it is yielded; None if the caller does.
        notice: Is told why no endpoint is available while the batch waits, and None when one is again.
    """

    def __init__(
        self,
        judges: Mapping[str, PatientJudge],
        pool: EndpointPool | None,
        limits: Limits,
        *,
        stop: asyncio.Event | None = None,
        publish: Callable[[Result], Awaitable[None]] | None = None,
        spent: Spent | None = None,
        notice: Callable[[str | None], None] | None = None,
    ) -> None:
        self.end: End = "done"
        """Why the last run ended."""
        self.trouble: str | None = None
        """Why no endpoint is available, if that ended it."""
        self._judges = judges
        self._pool = pool
        self._limits = limits
        self._stop = asyncio.Event() if stop is None else stop
        self._publish = publish
        self._spent = Spent() if spent is None else spent
        self._notice = notice
        self._pending: deque[asyncio.Task[Outcome]] = deque()

    async def run(self, work: AsyncIterator[Work]) -> AsyncGenerator[Outcome, None]:
        """Yield the outcomes in the order of the work, which is read as capacity allows.

        Raises:
            JudgeConfigurationError: No event can be judged with this configuration.
        """
        self.end, pending = "done", self._pending
        stopping = asyncio.create_task(self._stop.wait())
        failing = asyncio.create_task(self._outage())
        watches = (stopping, failing)
        pace = self._paced(work, stopping)
        try:
            async for item in pace:
                while self._goes_on(watches) and not self._has_room():
                    if not pending:
                        self.end = "max_usd"
                    async for outcome in self._finished(watches):
                        yield outcome
                if not self._goes_on(watches):
                    break
                pending.append(asyncio.create_task(self._outcome(item)))
            while pending and self._goes_on(watches):
                async for outcome in self._finished(watches):
                    yield outcome
            async for outcome in self._in_flight():
                yield outcome
        finally:
            for left in (*watches, *pending):
                left.cancel()
            await asyncio.gather(*watches, *pending, return_exceptions=True)
            pending.clear()
            await pace.aclose()

    async def _paced(
        self, work: AsyncIterator[Work], stopping: asyncio.Task[bool]
    ) -> AsyncGenerator[Work, None]:
        """Yield the work at the rate of the limits."""
        loop = asyncio.get_running_loop()
        started, count = loop.time(), 0
        async for item in work:
            if self._limits.per_second is not None:
                seconds = started + count / self._limits.per_second - loop.time()
                await asyncio.wait({stopping}, timeout=max(seconds, 0.0))
            count += 1
            yield item

    async def _outcome(self, item: Work) -> Outcome:
        if isinstance(item, InvalidLine):
            return item
        result = await self._judges[item.metric].judge(item)
        if self._publish is not None:
            await self._publish(result)
        self._spent.add(result)
        return result

    def _has_room(self) -> bool:
        """Return whether another task may start, by the limits on concurrency and cost."""
        running = sum(not one.done() for one in self._pending)
        if running >= self._limits.at_once or len(self._pending) >= WAITING * self._limits.at_once:
            return False
        return self._limits.max_usd is None or self._spent.affords(running + 1, self._limits.max_usd)

    def _goes_on(self, watches: tuple[asyncio.Task[bool], asyncio.Task[str]]) -> bool:
        stopping, failing = watches
        if failing.done():
            self.end, self.trouble = "outage", failing.result()
        elif stopping.done() or self._stop.is_set():
            self.end = "stopped"
        return self.end == "done"

    async def _finished(
        self, watches: tuple[asyncio.Task[bool], asyncio.Task[str]]
    ) -> AsyncIterator[Outcome]:
        """Wait until a call or the batch ends; yield the outcomes before the first that is pending."""
        running = {one for one in self._pending if not one.done()}
        if self._pending and self._pending[0] in running:
            await asyncio.wait({*running, *watches}, return_when=asyncio.FIRST_COMPLETED)
        while self._pending and self._pending[0].done():
            yield self._pending.popleft().result()

    async def _in_flight(self) -> AsyncIterator[Outcome]:
        """Wait for the calls in flight after a stop, and yield what they gave."""
        if not self._pending or self.end == "outage" or not self._limits.finish_seconds:
            return
        if self._pool is not None:
            self._pool.drain()
        await asyncio.wait(self._pending, timeout=self._limits.finish_seconds)
        for task in list(self._pending):
            # An unavailable endpoint: the task was still waiting for it.
            if task.done() and not isinstance(task.exception(), JudgeUnavailableError):
                yield task.result()

    async def _outage(self) -> str:
        if self._pool is None:
            await asyncio.Event().wait()  # never set
            return ""
        limits = self._limits
        return await outage(
            self._pool,
            seconds=limits.outage_seconds,
            notice=self._notice,
            notice_seconds=limits.notice_seconds,
        )


async def outage(
    pool: EndpointPool,
    *,
    seconds: float,
    notice: Callable[[str | None], None] | None = None,
    notice_seconds: float = 1.0,
) -> str:
    """Wait until all endpoints have been down for some time; return why none is available.

    A pause that an endpoint requests is no outage, however long. `notice` is told of trouble that lasts for
    `notice_seconds`, and of its end with None.

    Raises:
        JudgeConfigurationError: All refuse every request because of their configuration. Pauses between
            probes may exceed `seconds`, so this may be confirmed too late.
    """
    since: float | None = None
    troubled_at, told = None, False
    while True:
        trouble, now = pool.trouble, pool.clock()
        troubled_at = None if trouble is None else now if troubled_at is None else troubled_at
        lasts = troubled_at is not None and now - troubled_at >= notice_seconds
        if notice is not None and lasts != told:
            notice(trouble)
            told = lasts
        next_try_at = min(chat.breaker.next_try_at for chat in pool.endpoints)
        if trouble is None or next_try_at - now > pool.patience.longest_breaker_seconds:
            since = None
        elif since is None:
            since = now
        elif now - since >= seconds:
            if all(chat.refuses for chat in pool.endpoints if chat.breaker.is_open):
                raise JudgeConfigurationError(trouble)
            return trouble
        await asyncio.sleep(_LOOK_SECONDS)
