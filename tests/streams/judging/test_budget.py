from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from math import pi, sin
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from schemas import JudgeCall, QAEvent
from streams.errors import TooLargeError
from streams.intake.sampling import SamplingPolicy
from streams.judging.budget import MOST_HALVED, Spending
from streams.judging.leasing import Leasing
from streams.settings.judge import BudgetSettings, LimitSettings
from tests.integration.deadlines import until
from tests.streams.results import scored

LOWEST_FACTOR = Fraction(1, 2**MOST_HALVED)
NOON = datetime(2026, 11, 21, 12, 10, tzinfo=UTC)
MIDNIGHT = datetime(2026, 11, 22, tzinfo=UTC)


class Day:
    def __init__(self, *, usd: float | None = None, calls: int | None = None) -> None:
        self.now = NOON
        limits = BudgetSettings(usd_per_day=usd, calls_per_day=calls, when_spent="lower_rate")
        self.spending = Spending(limits, now=lambda: self.now)

    def admit(self, now: datetime = NOON) -> datetime | None:
        self.now = now
        return self.spending.admit()

    def spend(self, now: datetime = NOON, *, usd: float | None = 0.0, calls: int = 1) -> None:
        assert self.admit(now) is None
        self.spending.settle(usd=usd, calls=calls)

    async def judge(self, *, cost_usd: float | None = 0.1, cached: bool = False) -> None:
        call = JudgeCall(endpoint="e", model_asked="m", model_answered="m", tries=1, cached=cached)
        async with self.spending.admitted() as settle:
            settle(scored(1, 3).model_copy(update={"judge": call, "cost_usd": cost_usd}))

    @property
    def deferring(self) -> str:
        return self.spending.deferring or ""


async def test_without_limits_everything_is_admitted() -> None:
    day = Day()
    for _ in range(100):
        await day.judge(cost_usd=1e9)
    assert day.spending.caps == ()
    assert not day.deferring
    assert (day.spending.spent_ratio(), float(day.spending.rate_factor())) == (0.0, 1.0)


@pytest.mark.parametrize(("usd", "calls"), [(None, 3), (0.3, None), (0.3, 3)])
def test_a_spent_budget_admits_again_when_its_day_ends(usd: float | None, calls: int | None) -> None:
    """Three verdicts of 0.1000001 USD spend it; 0.1 is no binary fraction."""
    day = Day(usd=usd, calls=calls)
    for _ in range(3):
        day.spend(usd=0.1000001)
    assert day.admit(NOON + timedelta(minutes=1)) == MIDNIGHT
    assert day.admit(MIDNIGHT - timedelta(microseconds=1)) == MIDNIGHT
    assert day.admit(MIDNIGHT) is None


async def test_verdicts_that_wait_in_a_batch_leave_room_for_others() -> None:
    """A lease of 5 calls is asked for again when 5 wait in a batch, and not when 5 are in flight."""
    for waits in (False, True):
        spending = Spending(BudgetSettings(calls_per_day=1000), worker="w", now=lambda: NOON)
        spending.sample()
        spending.heard(spending.joining(), 0)
        spending.admit()
        spending.heard(spending.entries()[0], 1)
        async with AsyncExitStack() as stack:
            for _ in range(5):
                await stack.enter_async_context(spending.admitted(waits=waits))
            assert (spending.admit() is None) is False
            assert bool(spending.entries()) == waits


async def test_a_record_of_the_rates_that_cannot_be_written_holds_up_no_lease() -> None:
    """An ask that is not written is never granted, as the worker waits for it."""
    spending, asked = Spending(BudgetSettings(calls_per_day=1000), worker="w", now=lambda: NOON), []

    async def write(*_: Any, key: bytes, **__: Any) -> None:
        if b"report" in key:
            raise TooLargeError("too large")
        await asyncio.sleep(0.01)  # as a broker takes its time
        asked.append(key)

    rates = SimpleNamespace(due=lambda: [(b'["report", "w"]', b"")])
    given: list[Any] = [spending, None, SimpleNamespace(write=write), "budget"]
    leasing = Leasing(*given, writes=True, is_ready=lambda: True, rates=cast("Any", rates))
    spending.sample()
    spending.heard(spending.joining(), 0)
    spending.admit()
    with pytest.raises(ExceptionGroup):
        await leasing._write_due()
    assert len(asked) == 1


def test_a_sampling_budget_counts_verdicts_not_calls() -> None:
    limits = BudgetSettings(calls_per_day=10)
    spending = Spending(limits, sampling=LimitSettings(calls_per_day=4), now=lambda: NOON)
    assert spending.caps == ("all", "sampling.budget")
    for _ in range(2):
        assert spending.admit() is None
        spending.settle(usd=None, calls=3)
    spending.book(None, calls=2)
    assert (spending.spent_ratio("all"), spending.spent_ratio("sampling.budget")) == (0.8, 0.5)
    assert [spending.admit(), spending.admit()] == [None, None]
    assert spending.admit() is not None
    usd = Spending(BudgetSettings(), sampling=LimitSettings(usd_per_day=1), now=lambda: NOON)
    assert (usd.caps, usd.admit()) == (("sampling.budget",), None)
    usd.settle(usd=0.25, calls=1)
    assert usd.spent_ratio("sampling.budget") == 0.25


def test_verdicts_under_way_count_before_they_end() -> None:
    day = Day(calls=3)
    assert [day.admit() for _ in range(4)] == [None, None, None, MIDNIGHT]
    day.spending.settle(usd=0.0, calls=0)  # it needed no call
    assert day.admit() is None
    day = Day(usd=1.0)
    day.spend(usd=0.25)
    # 0.25 spent, and 0.25 reserved for each: three in flight reserve the rest.
    assert [day.admit() for _ in range(4)] == [None, None, None, MIDNIGHT]


def test_a_verdict_above_the_budget_is_admitted_once_a_day() -> None:
    day = Day(usd=0.01)
    day.spend(usd=5.0)
    assert day.admit() == MIDNIGHT
    day.spend(MIDNIGHT, usd=5.0)


def test_a_clock_that_is_set_back_gives_no_new_budget() -> None:
    day = Day(calls=1)
    day.spend()
    assert day.admit(NOON - timedelta(days=3)) == MIDNIGHT - timedelta(days=3)
    day.spend(NOON + timedelta(hours=30))
    assert day.admit() == MIDNIGHT
    assert day.admit(MIDNIGHT) is None


@pytest.mark.parametrize(
    ("spent", "factor"),
    [(0, Fraction(1)), (51, Fraction(1)), (52, Fraction(1, 2)), (53, Fraction(1, 8)), (54, Fraction(1, 32)),
        (60, LOWEST_FACTOR), (100, LOWEST_FACTOR), (120, LOWEST_FACTOR)],
)  # fmt: skip
def test_the_rate_is_halved_while_spending_is_ahead_of_the_day(spent: int, factor: Fraction) -> None:
    """At 12:10, 50.69% of the day have passed: 51 to 54 calls are ahead by 0.6, 2.6, 4.7, 6.7% of the rest.

    So they are 0, 0.6, 2.7 and 4.7 steps of 1% beyond the lead of 2%; each begun step halves.
    """
    day = Day(calls=100)
    day.spend(calls=spent)
    assert day.spending.rate_factor() == factor
    day.now = MIDNIGHT
    assert day.spending.rate_factor() == 1


@given(
    st.lists(st.tuples(st.integers(0, 40_000), st.floats(0, 0.2), st.booleans()), max_size=60),
    st.integers(1, 20),
)
def test_limits_hold_whatever_happens(steps: list[tuple[int, float, bool]], most: int) -> None:
    day = Day(calls=most, usd=1.0)
    under_way = calls = 0
    for seconds, usd, settles in steps:
        before, day.now = day.now, day.now + timedelta(seconds=seconds)
        if day.now.day != before.day:
            calls = 0
        if settles and under_way:
            day.spending.settle(usd=usd, calls=1)
            under_way -= 1
            calls += 1
        elif day.spending.admit() is None:
            under_way += 1
            assert calls + under_way <= most
    assert day.spending.spent_ratio() >= 0


async def test_verdicts_wait_for_the_next_budget_period() -> None:
    day = Day(calls=2)
    day.now = MIDNIGHT - timedelta(seconds=0.1)
    with capture_logs() as lines:
        await day.judge()
        await day.judge()
        assert not day.deferring
        waiting = [asyncio.create_task(day.judge()) for _ in range(2)]
        await until(lambda: "until 2026-11-22 00:00 UTC" in day.deferring, "the deferral")
        assert day.spending.spent_ratio() == 1.0
        assert not any(task.done() for task in waiting)
        day.now += timedelta(seconds=2)
        await asyncio.wait_for(asyncio.gather(*waiting), 60)
    assert not day.deferring
    said = [line["event"].split(",")[0] for line in lines]
    assert said == ["judging budget spent", "judging budget available again"]


async def test_unused_reservations_are_released_at_once() -> None:
    day = Day(calls=1)
    await day.judge(cached=True)
    with pytest.raises(RuntimeError):
        async with day.spending.admitted():
            raise RuntimeError
    async with day.spending.admitted() as settle:
        waiting = asyncio.create_task(day.judge())
        await asyncio.sleep(0)
        assert not waiting.done()
        assert not day.deferring
        settle(scored(1, 3).model_copy(update={"judge": None}))
    await asyncio.wait_for(waiting, 60)
    assert day.spending.spent_ratio() == 1.0


async def test_a_cancelled_wait_reserves_no_budget() -> None:
    day = Day(usd=0.05)
    await day.judge()
    waiting: asyncio.Task[Any] = asyncio.create_task(day.judge())
    await until(lambda: day.deferring != "", "the deferral")
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert not day.deferring
    day.now = MIDNIGHT
    await day.judge()


def test_calls_for_no_verdict_are_booked_too() -> None:
    """Health checks are booked: 2 * 0.02 of 0.05 USD, and a check of unknown cost as a call."""
    day = Day(usd=0.05, calls=4)
    for usd, ratio in ((0.02, 0.4), (0.02, 0.8), (None, 0.8), (None, 1.0)):
        day.spending.book(usd)
        assert day.spending.spent_ratio() == pytest.approx(ratio)


def test_weighting_stays_unbiased_while_the_budget_moves_the_rate() -> None:
    """The factor depends only on earlier spending. 3,000 events, rate 1/2, 2,000 calls, at 12:10: until 1,033
    are spent at 1/2 (2,067 events), then 10 each at 1/4, 1/8, 1/16 and 1/32 (40, 80, 160, 320 events), and
    333 events at 1/64. The variance of the estimated number, the sum of (1-p)/p over these events, is 2,067 +
    120 + 560 + 2,400 + 9,920 + 20,979: a standard error of 190, of which four are allowed.
    """
    policy = SamplingPolicy(default_rate=0.5)
    budget = Day(calls=2000).spending
    weights: list[float] = []
    scores: list[int] = []
    factors = set()
    for number in range(3000):
        factor = budget.rate_factor()
        factors.add(factor)
        decision = policy.decide_event(
            QAEvent.model_construct(event_id=f"event {number}", question="", answer=""), None
        ).lowered(factor)
        if decision.keep:
            assert budget.admit() is None
            budget.settle(usd=None, calls=1)
            weights.append(1 / float(decision.probability))
            scores.append(number % 2)
    assert len(factors) > 2
    assert sum(weights) == pytest.approx(3000, abs=4 * 190)
    mean = sum(weight * score for weight, score in zip(weights, scores, strict=True)) / sum(weights)
    assert mean == pytest.approx(0.5, abs=0.1)


def _days(by_hour: Callable[[int], float], days: int) -> tuple[Day, list[Counter[int]]]:
    """Judge as many of 9,000 answers a day as 3,000 USD pay for; return the calls by hour of each day."""
    day, random, made = Day(usd=3_000), Random(4), []
    weights = [by_hour(hour) for hour in range(24)]
    for number in range(days):
        made.append(Counter[int]())
        hours = random.choices(range(24), weights, k=9_000)
        for second in sorted(3600 * (hour + random.random()) for hour in hours):
            day.now = MIDNIGHT + timedelta(days=number, seconds=second)
            if random.random() < day.spending.rate_factor() and day.spending.admit() is None:
                day.spending.settle(usd=random.choice([0.5, 1.0, 1.5]), calls=1)
                made[-1][int(second / 3600)] += 1
    return day, made


def test_the_money_lasts_a_day_with_swings_and_a_burst() -> None:
    """Demand of three times the budget that swings threefold, with an hour of tenfold: 98% are spent.

    No hour but the burst has more than three times an even hour's 125 calls, nor less than a quarter of it.
    """
    day, (first,) = _days(lambda hour: (2 + sin(hour * pi / 12)) * (10 if hour == 14 else 1), 1)
    assert 0.98 <= day.spending.spent_ratio() <= 1.001
    assert all(31 <= calls <= 375 for hour, calls in first.items() if hour != 14)
    assert len(first) == 24


def test_the_second_day_knows_when_answers_come() -> None:
    """Nearly all traffic comes from 8 to 16 o'clock, three times the budget.

    The first day, evenly, has spent two thirds of it by 16 o'clock; the second, 95% in these hours.
    """
    day, (first, second) = _days(lambda hour: 1 if 8 <= hour < 16 else 0.001, 2)
    spent = [sum(calls for hour, calls in one.items() if 8 <= hour < 16) for one in (first, second)]
    assert 0.6 * 3_000 < spent[0] < 0.75 * 3_000
    assert spent[1] > 0.95 * 3_000
    assert day.spending.spent_ratio() > 0.98
