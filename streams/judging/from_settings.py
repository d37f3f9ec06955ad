"""Build the budget limits from the settings."""

from __future__ import annotations

from streams.judging.budget import BudgetLimits
from streams.settings import JudgeSettings


def budget_limits(judge: JudgeSettings) -> BudgetLimits:
    """Return the limits on judging per hour and day."""
    budget = judge.budget
    return BudgetLimits(
        usd_per_hour=budget.usd_per_hour,
        usd_per_day=budget.usd_per_day if judge.budget_usd_per_day is None else judge.budget_usd_per_day,
        calls_per_hour=budget.calls_per_hour,
        calls_per_day=budget.calls_per_day,
    )
