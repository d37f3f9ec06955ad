"""The judging budget of a day: if it is spent, verdicts wait, and the backlog remains in Kafka.

Days are those of UTC. Each worker counts its own spending in memory: several workers together may
spend the sum of their budgets, and a restarted worker starts at 0.

**Admission.** A verdict is admitted if no limit is exceeded, with verdicts in flight counted at the mean cost
so far. So the limit on calls holds except for repair turns and retries, and the limit on cost except for
about one verdict.

**Lower rate.** From `LOWER_FROM` of a limit on, the sampling rate is halved, and halved again each time half
of the rest is spent, so that the budget lasts. The factor is a power of two, and depends only on the spending
so far, not on the event.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import Final

import structlog

from schemas import Result
from streams.settings.judge import BudgetSettings

_log = structlog.stdlib.get_logger(__name__)

LOWER_FROM: Final = Fraction(4, 5)
LOWEST_FACTOR: Final = Fraction(1, 1024)
LONGEST_SLEEP_SECONDS: Final = 30.0
"""Interval of clock checks while verdicts wait, as the clock may be set."""

Settle = Callable[[Result], None]
"""Records the cost of a verdict."""


class Spending:
    """What one worker has spent of its budget on the current day.

    Args:
        limits: In US dollars (which requires known prices) and in calls.
        now: Returns the time, in UTC.
    """

    def __init__(
        self, limits: BudgetSettings, *, now: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self._limits = limits
        self._now = now
        self._day: datetime | None = None
        self._usd = 0.0
        self._calls = 0
        self._in_flight = 0
        self._priced_usd = 0.0
        self._priced = 0
        self._waiting = 0
        self._deferred_until: datetime | None = None
        self._change = asyncio.Event()

    @property
    def is_limited(self) -> bool:
        return self._limits.is_limited

    @property
    def deferring(self) -> str | None:
        """Why verdicts wait; None if none does."""
        if not self._waiting or self._deferred_until is None:
            return None
        until = f"{self._deferred_until:%Y-%m-%d %H:%M} UTC"
        return f"the judging budget is spent until {until}; tasks wait in Kafka"

    def spent_ratio(self) -> float:
        """Return the spent share of the day's limit; the larger one of two limits; 0 without a limit."""
        self._today()
        usd, calls = self._limits.usd_per_day, self._limits.calls_per_day
        return max(0.0 if usd is None else self._usd / usd, 0.0 if calls is None else self._calls / calls)

    def rate_factor(self) -> Fraction:
        """Return the current factor for the sampling rate: 1 or a negative power of two."""
        left = 1 - Fraction(self.spent_ratio())
        factor = Fraction(1)
        share = 1 - LOWER_FROM
        while left < share and factor > LOWEST_FACTOR:
            factor /= 2
            share /= 2
        return factor

    @asynccontextmanager
    async def admitted(self) -> AsyncIterator[Settle]:
        """Wait until the budget admits a verdict; call the yielded function with its result.

        A verdict without a result (error or cancellation) counts as no spending.
        """
        await self._admission()
        usd, calls = None, 0

        def settle(result: Result) -> None:
            nonlocal usd, calls
            if result.judge is not None and not result.judge.cached:
                usd, calls = result.cost_usd, result.judge.tries

        try:
            yield settle
        finally:
            self.settle(usd=usd, calls=calls)

    def admit(self) -> datetime | None:
        """Admit a verdict, which must then be settled; if none is admitted, return the end of the day."""
        day = self._today()
        if self._is_full():
            return day + timedelta(days=1)
        self._in_flight += 1
        return None

    def settle(self, *, usd: float | None, calls: int) -> None:
        """Record the cost of an admitted verdict, None if unknown; 0 calls if it needed none."""
        self._in_flight -= 1
        if calls and usd is not None:
            self._priced_usd += usd
            self._priced += 1
        self.book(usd, calls=calls)
        change, self._change = self._change, asyncio.Event()
        change.set()

    def book(self, usd: float | None, *, calls: int = 1) -> None:
        """Record calls that needed no admission, with their cost; None if unknown."""
        self._today()
        self._usd += usd or 0.0
        self._calls += calls

    def _is_full(self) -> bool:
        usd, calls = self._limits.usd_per_day, self._limits.calls_per_day
        if calls is not None and self._calls + self._in_flight + 1 > calls:
            return True
        if usd is None:
            return False
        # The last verdict may exceed the limit by its cost; otherwise an expensive one never runs.
        mean = self._priced_usd / self._priced if self._priced and self._in_flight else 0.0
        return self._usd >= usd or self._usd + (self._in_flight + 1) * mean > usd

    def _today(self) -> datetime:
        """Return the start of the day, which begins with no spending."""
        day = self._now().replace(hour=0, minute=0, second=0, microsecond=0)
        if self._day is None or day > self._day:
            self._usd, self._calls = 0.0, 0
        self._day = day  # a clock that is set back neither resets the budget nor extends the day
        return day

    async def _admission(self) -> None:
        self._waiting += 1
        try:
            while (until := self.admit()) is not None:
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
        spent = self.spent_ratio()
        if self._deferred_until != until and spent >= 1:
            self._deferred_until = until
            _log.warning(
                "judging budget spent, tasks wait in Kafka",
                until=until.isoformat(),
                day_spent_ratio=round(spent, 3),
            )
