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
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import Final

import structlog

from schemas import Failed, Scored, Unscored
from streams.settings import JudgeSettings

_log = structlog.stdlib.get_logger(__name__)


LOWER_FROM: Final = Fraction(4, 5)
LOWEST_FACTOR: Final = Fraction(1, 1024)


@dataclass(frozen=True, slots=True)
class BudgetLimits:
    """Limits of a day; None for no limit."""

    usd: float | None = None
    """Above 0; requires known prices."""
    calls: int | None = None
    """At least 1."""

    def __bool__(self) -> bool:
        """Whether there is a limit."""
        return self.usd is not None or self.calls is not None


class Budget:
    """Tracks the spending of the current day. All times are in UTC."""

    def __init__(self, limits: BudgetLimits) -> None:
        self._limits = limits
        self._day: datetime | None = None
        self._usd = 0.0
        self._calls = 0
        self._under_way = 0
        self._known_usd = 0.0
        self._known_verdicts = 0

    def admit(self, now: datetime) -> datetime | None:
        """Admit a verdict, which must then be settled; if none is admitted, return the end of the day."""
        day = self._roll(now)
        if self._is_full():
            return day + timedelta(days=1)
        self._under_way += 1
        return None

    def settle(self, now: datetime, *, usd: float | None, calls: int) -> None:
        """Record the cost of an admitted verdict, None if unknown; 0 calls if it needed none."""
        self._under_way -= 1
        if calls and usd is not None:
            self._known_usd += usd
            self._known_verdicts += 1
        self.book(now, usd=usd, calls=calls)

    def book(self, now: datetime, *, usd: float | None, calls: int = 1) -> None:
        """Record calls that needed no admission."""
        self._roll(now)
        self._usd += usd or 0.0
        self._calls += calls

    def spent_ratio(self, now: datetime) -> float:
        """Return the spent share of the limit; the larger one of two limits; 0 without a limit."""
        self._roll(now)
        usd, calls = self._limits.usd, self._limits.calls
        return max(0.0 if usd is None else self._usd / usd, 0.0 if calls is None else self._calls / calls)

    def rate_factor(self, now: datetime) -> Fraction:
        """Return the factor for the sampling rate: 1 or a negative power of two."""
        left = 1 - Fraction(self.spent_ratio(now))
        factor = Fraction(1)
        share = 1 - LOWER_FROM
        while left < share and factor > LOWEST_FACTOR:
            factor /= 2
            share /= 2
        return factor

    def _is_full(self) -> bool:
        usd, calls = self._limits.usd, self._limits.calls
        if calls is not None and self._calls + self._under_way + 1 > calls:
            return True
        if usd is None:
            return False
        if not self._under_way:
            # The last verdict may exceed the limit by its cost; otherwise an expensive one never runs.
            return self._usd >= usd
        mean = self._known_usd / self._known_verdicts if self._known_verdicts else 0.0
        return self._usd + (self._under_way + 1) * mean > usd or self._usd >= usd

    def _roll(self, now: datetime) -> datetime:
        """Return the start of the day, which begins with no spending."""
        day = now.replace(hour=0, minute=0, second=0, microsecond=0)
        if self._day is None or day > self._day:
            self._usd, self._calls = 0.0, 0
        self._day = day  # a clock that is set back neither resets the budget nor extends the day
        return day


def budget_limits(judge: JudgeSettings) -> BudgetLimits:
    """Return the limits on judging."""
    budget = judge.budget
    usd = budget.usd_per_day if judge.budget_usd_per_day is None else judge.budget_usd_per_day
    return BudgetLimits(usd, budget.calls_per_day)


LONGEST_SLEEP_SECONDS: Final = 30.0
"""Interval of clock checks while verdicts wait, as the clock may be set."""

Settle = Callable[[Scored | Unscored | Failed], None]
"""Records the cost of a verdict."""


class Spending:
    """The budget of one worker.

    Args:
        now: Returns the time, in UTC.
    """

    def __init__(
        self, limits: BudgetLimits, *, now: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self.limits = limits
        self._is_limited = bool(limits)
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

    def spent_ratio(self) -> float:
        """Return the spent share of the day's budget."""
        return self._budget.spent_ratio(self._now())

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
        spent = self.spent_ratio()
        if self._deferred_until != until and spent >= 1:
            self._deferred_until = until
            _log.warning(
                "judging budget spent, tasks wait in Kafka",
                until=until.isoformat(),
                day_spent_ratio=round(spent, 3),
            )


def _book_nothing(result: Scored | Unscored | Failed) -> None:
    """Do nothing: there is no budget."""
