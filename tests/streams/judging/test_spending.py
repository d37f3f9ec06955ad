from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from structlog.testing import capture_logs

from schemas import JudgeCall
from streams.judging.budget import BudgetLimits, Spending
from tests.integration.deadlines import until
from tests.streams.results import scored

LATE = datetime(2026, 11, 21, 23, 59, 59, tzinfo=UTC)


class Clock:
    def __init__(self) -> None:
        self.now = LATE

    def __call__(self) -> datetime:
        return self.now


def result(*, cost_usd: float | None = 0.1, tries: int = 1, cached: bool = False) -> Any:
    call = JudgeCall(endpoint="e", model_asked="m", model_answered="m", tries=tries, cached=cached)
    return scored(1, 3).model_copy(update={"judge": call, "cost_usd": cost_usd})


async def one_verdict(spending: Spending, **values: Any) -> None:
    async with spending.admitted() as settle:
        settle(result(**values))


def told(spending: Spending) -> str:
    return spending.deferring or ""


async def test_without_limits_nothing_waits() -> None:
    spending = Spending(BudgetLimits())
    await one_verdict(spending)
    assert not told(spending)


async def test_verdicts_wait_for_the_next_budget_period() -> None:
    """Verdicts wait until the next period when the budget is spent, with a log line at start and end."""
    clock = Clock()
    spending = Spending(BudgetLimits(calls=2), now=clock)
    with capture_logs() as lines:
        await one_verdict(spending)
        await one_verdict(spending)
        assert not told(spending)
        waiting = [asyncio.create_task(one_verdict(spending)) for _ in range(2)]
        await until(lambda: "until 2026-11-22 00:00 UTC" in told(spending), "the deferral")
        assert spending.spent_ratio() == 1.0
        assert not any(task.done() for task in waiting)
        clock.now += timedelta(seconds=2)
        # The remaining wait is the last second of the day.
        await asyncio.wait_for(asyncio.gather(*waiting), 60)
    assert not told(spending)
    assert [line["event"].split(",")[0] for line in lines] == [
        "judging budget spent",
        "judging budget available again",
    ]


async def test_unused_reservations_are_released_at_once() -> None:
    """A cached verdict, one without a call and a failed one release their reservation at once."""
    spending = Spending(BudgetLimits(calls=1), now=Clock())
    await one_verdict(spending, cached=True)
    with pytest.raises(RuntimeError):
        async with spending.admitted():
            raise RuntimeError
    async with spending.admitted() as settle:
        waiting = asyncio.create_task(one_verdict(spending))
        await asyncio.sleep(0)
        assert not waiting.done()
        assert not told(spending)
        settle(scored(1, 3).model_copy(update={"judge": None}))
    await asyncio.wait_for(waiting, 60)
    assert spending.spent_ratio() == 1.0


async def test_a_cancelled_wait_reserves_no_budget() -> None:
    """A cancelled wait ends the deferral and reserves no budget."""
    clock = Clock()
    clock.now = LATE - timedelta(minutes=30)
    spending = Spending(BudgetLimits(usd=0.05), now=clock)
    await one_verdict(spending)
    waiting = asyncio.create_task(one_verdict(spending))
    await until(lambda: told(spending) != "", "the deferral")
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert not told(spending)
    clock.now += timedelta(hours=1)
    await one_verdict(spending)


async def test_calls_for_no_verdict_are_booked_too() -> None:
    """Health checks are booked: 2 * 0.02 of 0.05 USD, and a check of unknown cost as a call."""
    spending = Spending(BudgetLimits(usd=0.05, calls=4), now=Clock())
    spending.book(0.02)
    spending.book(0.02)
    assert spending.spent_ratio() == pytest.approx(0.8)
    spending.book(None)
    assert spending.spent_ratio() == pytest.approx(0.8)
    spending.book(None)
    assert spending.spent_ratio() == 1.0
    Spending(BudgetLimits()).book(0.02)
