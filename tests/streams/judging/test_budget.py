from __future__ import annotations

from datetime import UTC, datetime, timedelta
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.judging.budget import LOWEST_FACTOR, Budget, BudgetLimits

NOON = datetime(2026, 11, 21, 12, 10, tzinfo=UTC)
MIDNIGHT = datetime(2026, 11, 22, tzinfo=UTC)


def spend(budget: Budget, now: datetime, *, usd: float | None = 0.0, calls: int = 1) -> None:
    assert budget.admit(now) is None
    budget.settle(now, usd=usd, calls=calls)


def test_without_limits_everything_is_admitted() -> None:
    """Without limits each verdict is admitted, and the spent ratio is 0."""
    budget = Budget(BudgetLimits())
    for _ in range(100):
        spend(budget, NOON, usd=1e9)
    assert not BudgetLimits()
    assert (budget.spent_ratio(NOON), float(budget.rate_factor(NOON))) == (0.0, 1.0)


@pytest.mark.parametrize(
    "limits", [BudgetLimits(calls=3), BudgetLimits(usd=0.3), BudgetLimits(usd=0.3, calls=3)]
)
def test_a_spent_budget_admits_again_when_its_day_ends(limits: BudgetLimits) -> None:
    """Three verdicts of 0.1000001 USD spend it; 0.1 is no binary fraction."""
    budget = Budget(limits)
    for _ in range(3):
        spend(budget, NOON, usd=0.1000001)
    assert budget.admit(NOON + timedelta(minutes=1)) == MIDNIGHT
    assert budget.admit(MIDNIGHT - timedelta(microseconds=1)) == MIDNIGHT
    assert budget.admit(MIDNIGHT) is None


def test_verdicts_under_way_count_before_they_end() -> None:
    """A verdict in flight counts as one call, and as the mean cost of finished verdicts."""
    budget = Budget(BudgetLimits(calls=3))
    assert [budget.admit(NOON) for _ in range(4)] == [None, None, None, MIDNIGHT]
    # One needed no call.
    budget.settle(NOON, usd=0.0, calls=0)
    assert budget.admit(NOON) is None
    budget = Budget(BudgetLimits(usd=1.0))
    spend(budget, NOON, usd=0.25)
    # 0.25 spent, and 0.25 reserved for each: three in flight reserve the rest.
    assert [budget.admit(NOON) for _ in range(4)] == [None, None, None, MIDNIGHT]


def test_a_verdict_above_the_budget_is_admitted_once_a_day() -> None:
    """A verdict more expensive than the budget is admitted once a day."""
    budget = Budget(BudgetLimits(usd=0.01))
    spend(budget, NOON, usd=5.0)
    assert budget.admit(NOON) == MIDNIGHT
    spend(budget, MIDNIGHT, usd=5.0)


def test_repair_turns_count_as_calls() -> None:
    budget = Budget(BudgetLimits(calls=4))
    spend(budget, NOON, calls=3)
    assert budget.spent_ratio(NOON) == 0.75


def test_a_clock_that_is_set_back_gives_no_new_budget() -> None:
    """A clock that is set back neither resets the budget nor extends the wait."""
    budget = Budget(BudgetLimits(calls=1))
    spend(budget, NOON)
    assert budget.admit(NOON - timedelta(days=3)) == MIDNIGHT - timedelta(days=3)
    spend(budget, NOON + timedelta(hours=30))
    assert budget.admit(NOON) == MIDNIGHT
    assert budget.admit(MIDNIGHT) is None


@pytest.mark.parametrize(
    ("spent", "factor"),
    [(0, Fraction(1)), (79, Fraction(1)), (81, Fraction(1, 2)), (89, Fraction(1, 2)), (91, Fraction(1, 4)),
        (96, Fraction(1, 8)), (100, LOWEST_FACTOR), (120, LOWEST_FACTOR)],
)  # fmt: skip
def test_the_rate_is_halved_as_the_last_fifth_is_halved(spent: int, factor: Fraction) -> None:
    """The rate factor is 1/2 below 20% left, 1/4 below 10% and 1/8 below 5%."""
    budget = Budget(BudgetLimits(calls=100))
    if spent:
        spend(budget, NOON, calls=spent)
    assert budget.rate_factor(NOON) == factor
    assert budget.rate_factor(MIDNIGHT) == 1


@given(
    st.lists(st.tuples(st.integers(0, 40_000), st.floats(0, 0.2), st.booleans()), max_size=60),
    st.integers(1, 20),
)
def test_limits_hold_whatever_happens(steps: list[tuple[int, float, bool]], most: int) -> None:
    """Calls finished and in flight never exceed the limit."""
    budget = Budget(BudgetLimits(calls=most, usd=1.0))
    now = NOON
    under_way = 0
    calls = 0
    day = NOON.day
    for seconds, usd, settles in steps:
        now += timedelta(seconds=seconds)
        if now.day != day:
            day, calls = now.day, 0
        if settles and under_way:
            budget.settle(now, usd=usd, calls=1)
            under_way -= 1
            calls += 1
        elif budget.admit(now) is None:
            under_way += 1
            assert calls + under_way <= most
    assert budget.spent_ratio(now) >= 0
