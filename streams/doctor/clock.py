"""Compares this machine's clock with an endpoint's."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Final

from streams.doctor.finding import Finding, not_tried, ok, warning

CLOCK_WARNING_SECONDS: Final = 5.0


def skew_of(date: str | None, at: float) -> float | None:
    """Return this machine's clock minus the other's, in whole seconds; half a second is added on average."""
    if date is None:
        return None
    try:
        there = parsedate_to_datetime(date)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    if there.tzinfo is None:
        there = there.replace(tzinfo=UTC)
    return at - (there.timestamp() + 0.5)


def clock_finding(skews: Sequence[tuple[str, float | None]]) -> Finding:
    """Return how far this machine's clock is off.

    Args:
        skews: By endpoint, this machine's clock minus the endpoint's in seconds; None if it reports no time.
    """
    told = [(name, skew) for name, skew in skews if skew is not None]
    if not told:
        return not_tried(
            "clock",
            "",
            "no endpoint reports its time (HTTP Date)",
        )
    name, skew = min(told, key=lambda one: abs(one[1]))
    if abs(skew) <= CLOCK_WARNING_SECONDS:
        return ok("clock", "", f"agrees with judge endpoint {name} to the second")
    return warning(
        "clock",
        "",
        f"is {abs(skew):.0f} s {'ahead of' if skew > 0 else 'behind'} that of judge endpoint {name}",
        (
            "synchronise it (NTP): result times, budgets, and the expiry of tokens and certificates depend "
            "on it"
        ),
    )
