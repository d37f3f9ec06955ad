"""The batch engine: judge a source's tasks as a worker does; outages are bounded, because a user waits."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Final, Literal, TypeAlias

from judge.endpoints.options import EndpointObserver
from judge.endpoints.pool import EndpointPool
from judge.errors import JudgeConfigurationError, JudgeUnavailableError
from judge.evaluate.prices import PriceTable
from judge.metric import Metric
from schemas import JudgeTask, Result, Usage
from streams.batch.sources import Line
from streams.batch.tally import TokenCost
from streams.judging.agent import PatientJudge
from streams.judging.endpoints import build_prices, metric_judges, open_pool
from streams.settings.judge import EndpointSettings, JudgeSettings
from streams.settings.metrics import MetricSettings

End: TypeAlias = Literal["done", "stopped", "max_usd", "outage"]
"""Why a batch ended: all done, stopped by the user, budget used up, no endpoint available."""
Work: TypeAlias = JudgeTask | Line
"""A task, or a line that is none, which is passed on in its place."""
Outcome: TypeAlias = Result | Line
CONFIRM_SECONDS: Final = 2.0
"""How long a wrong key or model is confirmed: shorter than an outage, because a user is waiting."""
NOTICE_SECONDS: Final = 1.0
"""How long all endpoints must have been down until the user is told."""
WAITING: Final = 8
"""Limit of outcomes that wait for a slow one before them, as a multiple of `judge.max_in_flight`."""
_LOOK_SECONDS: Final = 0.1


@dataclass(slots=True)
class Spent:
    """The cost of results so far, for the mean: of those whose price is known."""

    usd: float = 0.0
    priced: int = 0

    def add(self, result: Result) -> None:
        if result.cost_usd is not None:
            self.usd += result.cost_usd
            self.priced += 1

    def affords(self, count: int, max_usd: float) -> bool:
        """Return whether so many further verdicts fit the limit, at the mean cost; the first runs alone."""
        return count == 1 if not self.priced else self.usd + count * self.usd / self.priced <= max_usd


class Checks(EndpointObserver):
    """Adds up the calls that belong to no verdict: checks whether an endpoint answers."""

    def __init__(self, prices: PriceTable) -> None:
        self._prices = prices
        self.spent = TokenCost()

    def used(
        self, endpoint: str, model: str, usage: Usage, *, for_verdict: bool, price_factor: float = 1.0
    ) -> None:
        if not for_verdict:
            self.spent.add(usage, self._prices.cost_usd(model, usage, endpoint=endpoint, factor=price_factor))


@dataclass(slots=True)
class Batch:
    judges: Mapping[str, PatientJudge]
    pool: EndpointPool
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    _: KW_ONLY
    per_second: float | None = None
    max_usd: float | None = None
    """Limit on the cost of all results, including those of earlier runs."""
    outage_seconds: float = 5.0
    """The batch ends after an outage of all endpoints for this long."""
    finish_seconds: float = 0.0
    """Timeout of the calls in flight after a stop; they are paid for."""
    publish: Callable[[Result], Awaitable[None]] | None = None
    """Writes a result before it is yielded; None if the caller does."""
    spent: Spent = field(default_factory=Spent)
    notice: Callable[[str | None], None] | None = None
    """Is told why no endpoint is available while the batch waits, and None when one is again."""
    checks: TokenCost = field(default_factory=TokenCost)
    """Of calls that belong to no verdict."""
    end: End = "done"
    trouble: str | None = None
    """Why no endpoint is available, if that ended it."""
    _pending: deque[asyncio.Task[Outcome]] = field(default_factory=deque)

    async def run(self, work: AsyncIterator[Work]) -> AsyncGenerator[Outcome, None]:
        """Yield the outcomes in the order of the work, which is read as capacity allows."""
        self.end, pending = "done", self._pending
        stopping = asyncio.create_task(self.stop.wait())
        failing = asyncio.create_task(outage(self.pool, seconds=self.outage_seconds, notice=self.notice))
        watches = (stopping, failing)
        pace = self._paced(work, stopping)
        try:
            async for item in pace:
                while self._goes_on(failing) and not self._has_room():
                    if not pending:
                        self.end = "max_usd"
                    async for outcome in self._finished(watches):
                        yield outcome
                if not self._goes_on(failing):
                    break
                pending.append(asyncio.create_task(self._outcome(item)))
            while pending and self._goes_on(failing):
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
        loop = asyncio.get_running_loop()
        started, count = loop.time(), 0
        async for item in work:
            if self.per_second is not None:
                seconds = started + count / self.per_second - loop.time()
                await asyncio.wait({stopping}, timeout=max(seconds, 0.0))
            count += 1
            yield item

    async def _outcome(self, item: Work) -> Outcome:
        if isinstance(item, Line):
            return item
        result = await self.judges[item.metric].judge(item)
        if self.publish is not None:
            await self.publish(result)
        self.spent.add(result)
        return result

    def _has_room(self) -> bool:
        """Return whether another task may start, by the limits on concurrency and cost."""
        running, most = sum(not one.done() for one in self._pending), self.pool.options.max_in_flight
        if running >= most or len(self._pending) >= WAITING * most:
            return False
        return self.max_usd is None or self.spent.affords(running + 1, self.max_usd)

    def _goes_on(self, failing: asyncio.Task[str]) -> bool:
        if failing.done():
            self.end, self.trouble = "outage", failing.result()
        elif self.stop.is_set():
            self.end = "stopped"
        return self.end == "done"

    async def _finished(self, watches: Iterable[asyncio.Task[Any]]) -> AsyncIterator[Outcome]:
        running = {one for one in self._pending if not one.done()}
        if self._pending and self._pending[0] in running:
            await asyncio.wait({*running, *watches}, return_when=asyncio.FIRST_COMPLETED)
        while self._pending and self._pending[0].done():
            yield self._pending.popleft().result()

    async def _in_flight(self) -> AsyncIterator[Outcome]:
        """Wait for the calls in flight after a stop, and yield what they gave."""
        if not self._pending or self.end == "outage" or not self.finish_seconds:
            return
        self.pool.drain()
        await asyncio.wait(self._pending, timeout=self.finish_seconds)
        for task in list(self._pending):
            # An unavailable endpoint: the task was still waiting for it.
            if task.done() and not isinstance(task.exception(), JudgeUnavailableError):
                yield task.result()


@asynccontextmanager
async def open_batch(
    metrics: Mapping[str, Metric],
    wanted: Mapping[str, MetricSettings],
    judge: JudgeSettings,
    endpoints: Sequence[EndpointSettings],
    *,
    cached: bool = True,
    **options: Any,
) -> AsyncIterator[Batch]:
    """Open judges, without `judge.budget`; a metric without settings (`wanted`) uses all endpoints."""
    prices = build_prices(endpoints)
    checks = Checks(prices)
    async with open_pool(
        judge, endpoints, prices=prices, observer=checks, cached=cached, confirm_seconds=CONFIRM_SECONDS
    ) as pool:
        yield Batch(metric_judges(pool, metrics, wanted), pool, checks=checks.spent, **options)


async def outage(
    pool: EndpointPool, *, seconds: float, notice: Callable[[str | None], None] | None = None
) -> str:
    """Wait until all endpoints have been down for some time (not for a requested pause); return why."""
    since: float | None = None
    troubled_at, told = None, False
    while True:
        trouble, now = pool.trouble, pool.clock()
        troubled_at = None if trouble is None else now if troubled_at is None else troubled_at
        lasts = troubled_at is not None and now - troubled_at >= NOTICE_SECONDS
        if notice is not None and lasts != told:
            notice(trouble)
            told = lasts
        next_try_at = min((chat.breaker.next_try_at for chat in pool.endpoints), default=0.0)
        if trouble is None or next_try_at - now > pool.options.patience.longest_breaker_seconds:
            since = None
        elif since is None:
            since = now
        elif now - since >= seconds:
            if all(chat.refuses for chat in pool.endpoints if chat.breaker.is_open):
                raise JudgeConfigurationError(trouble)
            return trouble
        await asyncio.sleep(_LOOK_SECONDS)
