"""The judging budget per hour and day. Pure: the time is an argument.

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

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from fractions import Fraction
from typing import Final

from streams.settings.base import PERIODS, Period

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
    """Tracks spending in the current hour and day.

    Args:
        limits: The limits.
    """

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
            calls: Number of calls.
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
