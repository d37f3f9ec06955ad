"""What has been spent on one verdict, and how calls to one endpoint have ended."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Final

from schemas import Usage


@dataclass(slots=True)
class Tally:
    """Calls to one endpoint, by whether they were answered."""

    answered: int = 0
    failed: int = 0


@dataclass(slots=True)
class Verdict:
    """What has been spent on one verdict so far. Follows its task through a context variable."""

    calls: int = 0
    """Calls sent, failed ones included."""
    call_seconds: float = 0.0
    """Time in the calls of this attempt."""
    spent_seconds: float = 0.0
    """Of the time budget."""
    answers: int = 0
    """Own calls that were answered in this attempt; they do not count as others'."""
    used: list[tuple[str, Usage]] = field(default_factory=list)
    """Tokens of its calls, with the endpoint of each, as far as endpoints told them."""
    marks: dict[str, tuple[int, int]] = field(default_factory=dict)
    """The endpoint's tally when this event's evidence there was last drawn."""


VERDICT: Final[ContextVar[Verdict | None]] = ContextVar("verdict", default=None)
"""The verdict that a call is for; None for a call on its own."""
