"""The sizes of a fault: short and long."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Size:
    """The load of one fault.

    Args:
        events: The events produced.
        seconds: The time of producing, in which the fault happens.
        blows: The repetitions of a repeated fault.
        settle_seconds: The limit until every outcome is there.
    """

    events: int
    seconds: float
    blows: int
    settle_seconds: float


SHORT: Final = Size(events=2_000, seconds=4, blows=4, settle_seconds=300)
LONG: Final = Size(events=20_000, seconds=30, blows=15, settle_seconds=1800)
