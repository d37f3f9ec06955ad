"""What may be spent on judging, an hour and a day. Pure: the time is an argument.

Hours and days are those of UTC. What was spent is counted by each worker for itself and in memory: the budget
of several workers is the sum of theirs, and a worker that restarts starts with nothing spent.

**Admission.** A verdict is admitted where, with what the verdicts under way will cost by the mean so far,
none of the limits is passed. So the number of calls is kept to but for repair turns and repeated tries, and
the cost to about one verdict.

**A lower rate.** From `LOWER_FROM` of a limit on, the sampling rate is to be halved, and halved again each
time half of what is left is spent, so that the rest lasts. The factor is a power of two that follows from
what was spent so far and from nothing about the event at hand.
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
    """What may be spent in a period; None where there is no limit.

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
        """Whether anything is limited."""
        return any(usd is not None or calls is not None for _, usd, calls in self.by_period())

    @property
    def in_usd(self) -> bool:
        """Whether money is limited, so that prices must be known."""
        return self.usd_per_hour is not None or self.usd_per_day is not None

    def by_period(self) -> Iterator[tuple[Period, float | None, int | None]]:
        """Each period with its limits in dollars and in calls."""
        yield "hour", self.usd_per_hour, self.calls_per_hour
        yield "day", self.usd_per_day, self.calls_per_day


@dataclass(slots=True)
class _Spent:
    start: datetime | None = None
    usd: float = 0.0
    calls: int = 0


class Budget:
    """Keeps account of what was spent in the current hour and day.

    Args:
        limits: What may be spent.
    """

    def __init__(self, limits: BudgetLimits) -> None:
        self._limits = tuple(limits.by_period())
        self._spent: dict[Period, _Spent] = {period: _Spent() for period in PERIODS}
        self._under_way = 0
        self._known_usd = 0.0
        self._known_verdicts = 0

    def admit(self, now: datetime) -> datetime | None:
        """Ask to start a verdict; one that is admitted must be settled.

        Args:
            now: The time, in UTC.

        Returns:
            None where it is admitted; else when the period ends whose limit stands against it.
        """
        self._roll(now)
        refused = [self._end(period) for period, usd, calls in self._limits if self._full(period, usd, calls)]
        if refused:
            return max(refused)
        self._under_way += 1
        return None

    def settle(self, now: datetime, *, usd: float | None, calls: int) -> None:
        """Book a verdict that was admitted.

        Args:
            now: The time, in UTC.
            usd: What it cost; None if unknown.
            calls: Calls that were made for it; 0 where none was needed, or none ended.
        """
        self._under_way -= 1
        if calls and usd is not None:
            self._known_usd += usd
            self._known_verdicts += 1
        self.book(now, usd=usd, calls=calls)

    def book(self, now: datetime, *, usd: float | None, calls: int = 1) -> None:
        """Book calls that needed no admission.

        Args:
            now: The time, in UTC.
            usd: What they cost; None if unknown.
            calls: How many.
        """
        self._roll(now)
        for spent in self._spent.values():
            spent.usd += usd or 0.0
            spent.calls += calls

    def spent_ratio(self, now: datetime, period: Period) -> float:
        """Which share of a period's limit is spent, of the limit of which most is; 0 without a limit."""
        self._roll(now)
        spent = self._spent[period]
        usd, calls = next((usd, calls) for name, usd, calls in self._limits if name == period)
        return max(0.0 if usd is None else spent.usd / usd, 0.0 if calls is None else spent.calls / calls)

    def rate_factor(self, now: datetime) -> Fraction:
        """By which factor the sampling rate is to be lowered: 1 or a negative power of two."""
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
            # The last verdict may pass the limit by what it costs; else a costly one would never be admitted.
            return spent.usd >= usd
        mean = self._known_usd / self._known_verdicts if self._known_verdicts else 0.0
        return spent.usd + (self._under_way + 1) * mean > usd or spent.usd >= usd

    def _roll(self, now: datetime) -> None:
        for period, spent in self._spent.items():
            start = now.replace(minute=0, second=0, microsecond=0)
            if period == "day":
                start = start.replace(hour=0)
            # A clock that is set back does not give the budget again.
            if spent.start is None or start > spent.start:
                self._spent[period] = _Spent(start)

    def _end(self, period: Period) -> datetime:
        start = self._spent[period].start
        assert start is not None  # noqa: S101 - every caller has rolled the periods
        return start + _LENGTHS[period]
