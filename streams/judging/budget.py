"""The judging budget per hour and day: if it is spent, verdicts wait, and the backlog remains in Kafka.

Hours and days are those of UTC. Each worker counts its own spending in memory: several workers together may
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
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import Final

import structlog

from schemas import Failed, Scored, Unscored
from streams.settings import JudgeSettings
from streams.settings.base import PERIODS, Period

_log = structlog.stdlib.get_logger(__name__)


LOWER_FROM: Final = Fraction(4, 5)
LOWEST_FACTOR: Final = Fraction(1, 1024)

_LENGTHS: Final = {"hour": timedelta(hours=1), "day": timedelta(days=1)}


@dataclass(frozen=True, slots=True)
class BudgetLimits:
    """Limits on spending per period; None for no limit.

    Args:
        usd_per_hour: US dollars, above 0.
        usd_per_day: US dollars, above 0.
        calls_per_hour: Judge calls, at least 1.
        calls_per_day: Judge calls, at least 1.
    """

    usd_per_hour: float | None = None
    usd_per_day: float | None = None
    calls_per_hour: int | None = None
    calls_per_day: int | None = None

    @property
    def any(self) -> bool:
        """Whether there is a limit."""
        return any(usd is not None or calls is not None for _, usd, calls in self.by_period())

    @property
    def in_usd(self) -> bool:
        """Whether there is a limit in dollars, which requires known prices."""
        return self.usd_per_hour is not None or self.usd_per_day is not None

    def by_period(self) -> Iterator[tuple[Period, float | None, int | None]]:
        """Yield each period with its limits in dollars and in calls."""
        yield "hour", self.usd_per_hour, self.calls_per_hour
        yield "day", self.usd_per_day, self.calls_per_day


@dataclass(slots=True)
class _Spent:
    start: datetime | None = None
    usd: float = 0.0
    calls: int = 0


class Budget:
    """Tracks spending in the current hour and day."""

    def __init__(self, limits: BudgetLimits) -> None:
        self._limits = tuple(limits.by_period())
        self._spent: dict[Period, _Spent] = {period: _Spent() for period in PERIODS}
        self._under_way = 0
        self._known_usd = 0.0
        self._known_verdicts = 0

    def admit(self, now: datetime) -> datetime | None:
        """Admit or refuse a verdict; an admitted one must be settled.

        Args:
            now: The time, in UTC.

        Returns:
            None if it is admitted; otherwise the end of the period whose limit is reached.
        """
        self._roll(now)
        refused = [self._end(period) for period, usd, calls in self._limits if self._full(period, usd, calls)]
        if refused:
            return max(refused)
        self._under_way += 1
        return None

    def settle(self, now: datetime, *, usd: float | None, calls: int) -> None:
        """Record the cost of an admitted verdict.

        Args:
            now: The time, in UTC.
            usd: Its cost; None if unknown.
            calls: Its number of calls; 0 if none was needed or completed.
        """
        self._under_way -= 1
        if calls and usd is not None:
            self._known_usd += usd
            self._known_verdicts += 1
        self.book(now, usd=usd, calls=calls)

    def book(self, now: datetime, *, usd: float | None, calls: int = 1) -> None:
        """Record calls that needed no admission.

        Args:
            now: The time, in UTC.
            usd: Their cost; None if unknown.
        """
        self._roll(now)
        for spent in self._spent.values():
            spent.usd += usd or 0.0
            spent.calls += calls

    def spent_ratio(self, now: datetime, period: Period) -> float:
        """Return the spent share of a period's limit; the larger one of two limits; 0 without a limit."""
        self._roll(now)
        spent = self._spent[period]
        usd, calls = next((usd, calls) for name, usd, calls in self._limits if name == period)
        return max(0.0 if usd is None else spent.usd / usd, 0.0 if calls is None else spent.calls / calls)

    def rate_factor(self, now: datetime) -> Fraction:
        """Return the factor for the sampling rate: 1 or a negative power of two."""
        spent = max(self.spent_ratio(now, period) for period in PERIODS)
        left = 1 - Fraction(spent)
        factor = Fraction(1)
        share = 1 - LOWER_FROM
        while left < share and factor > LOWEST_FACTOR:
            factor /= 2
            share /= 2
        return factor

    def _full(self, period: Period, usd: float | None, calls: int | None) -> bool:
        spent = self._spent[period]
        if calls is not None and spent.calls + self._under_way + 1 > calls:
            return True
        if usd is None:
            return False
        if not self._under_way:
            # The last verdict may exceed the limit by its cost; otherwise an expensive one never runs.
            return spent.usd >= usd
        mean = self._known_usd / self._known_verdicts if self._known_verdicts else 0.0
        return spent.usd + (self._under_way + 1) * mean > usd or spent.usd >= usd

    def _roll(self, now: datetime) -> None:
        for period, spent in self._spent.items():
            start = now.replace(minute=0, second=0, microsecond=0)
            if period == "day":
                start = start.replace(hour=0)
            if spent.start is None or start > spent.start:
                spent.usd, spent.calls = 0.0, 0
            spent.start = start  # a clock that is set back neither resets the budget nor extends its period

    def _end(self, period: Period) -> datetime:
        start = self._spent[period].start
        assert start is not None  # noqa: S101 - every caller has rolled the periods
        return start + _LENGTHS[period]


def budget_limits(judge: JudgeSettings) -> BudgetLimits:
    """Return the limits on judging per hour and day."""
    budget = judge.budget
    return BudgetLimits(
        usd_per_day=budget.usd_per_day if judge.budget_usd_per_day is None else judge.budget_usd_per_day,
        calls_per_day=budget.calls_per_day,
    )


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
