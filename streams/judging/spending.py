"""Keep judging within its budget: if it is spent, verdicts wait, and the backlog remains in Kafka."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from fractions import Fraction
from typing import Final

import structlog

from schemas import Failed, Scored, Unscored
from streams.judging.budget import Budget, BudgetLimits
from streams.settings.base import PERIODS, Period

_log = structlog.stdlib.get_logger(__name__)

LONGEST_SLEEP_SECONDS: Final = 30.0
"""Interval of clock checks while verdicts wait, as the clock may be set."""

Settle = Callable[[Scored | Unscored | Failed], None]
"""Records the cost of a verdict."""


class Spending:
    """The budget of one worker.

    Args:
        limits: The limits; without any, verdicts never wait.
        now: Returns the time, in UTC.
    """

    def __init__(
        self, limits: BudgetLimits, *, now: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self.limits = limits
        self._is_limited = limits.any
        self._budget = Budget(limits)
        self._now = now
        self._waiting = 0
        self._deferred_until: datetime | None = None
        self._change = asyncio.Event()

    @property
    def deferring(self) -> str | None:
        """Why verdicts wait; None if none does."""
        if not self._waiting or self._deferred_until is None:
            return None
        return (
            f"the judging budget is spent until {self._deferred_until:%Y-%m-%d %H:%M} UTC; tasks wait "
            "in Kafka"
        )

    def spent_ratio(self, period: Period) -> float:
        """Return the spent share of a period's budget."""
        return self._budget.spent_ratio(self._now(), period)

    def rate_factor(self) -> Fraction:
        """Return the current factor for the sampling rate."""
        return self._budget.rate_factor(self._now())

    @asynccontextmanager
    async def admitted(self) -> AsyncIterator[Settle]:
        """Wait until the budget admits a verdict; call the yielded function with its result.

        A verdict without a result (error or cancellation) counts as no spending.
        """
        if not self._is_limited:
            yield _book_nothing
            return
        await self._admission()
        usd, calls = None, 0

        def settle(result: Scored | Unscored | Failed) -> None:
            nonlocal usd, calls
            if result.judge is not None and not result.judge.cached:
                usd, calls = result.cost_usd, result.judge.tries

        try:
            yield settle
        finally:
            self._budget.settle(self._now(), usd=usd, calls=calls)
            change, self._change = self._change, asyncio.Event()
            change.set()

    def book(self, usd: float | None) -> None:
        """Record a call that belongs to no verdict, with its cost; None if unknown."""
        if self._is_limited:
            self._budget.book(self._now(), usd=usd)

    async def _admission(self) -> None:
        self._waiting += 1
        try:
            while (until := self._budget.admit(self._now())) is not None:
                self._defer(until)
                seconds = max((until - self._now()).total_seconds(), 0.0)
                with suppress(TimeoutError):
                    # Verdicts in flight may cost less than expected.
                    await asyncio.wait_for(self._change.wait(), min(seconds, LONGEST_SLEEP_SECONDS))
        finally:
            self._waiting -= 1
        if self._deferred_until is not None and self._now() >= self._deferred_until:
            self._deferred_until = None
            _log.info("judging budget available again")

    def _defer(self, until: datetime) -> None:
        ratios = {f"{period}_spent_ratio": round(self.spent_ratio(period), 3) for period in PERIODS}
        if self._deferred_until != until and max(ratios.values()) >= 1:
            self._deferred_until = until
            _log.warning("judging budget spent, tasks wait in Kafka", until=until.isoformat(), **ratios)


def _book_nothing(result: Scored | Unscored | Failed) -> None:
    """Do nothing: there is no budget."""
