"""How much of each fault: the short form and the long one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Size:
    """How much one fault is given to disturb.

    Args:
        events: Events produced.
        seconds: Over how long; the faults fall into this time.
        blows: How often what happens again and again happens.
        settle_seconds: How long everything may take to be done after that.
    """

    events: int
    seconds: float
    blows: int
    settle_seconds: float


SHORT: Final = Size(events=2_000, seconds=4, blows=4, settle_seconds=300)
LONG: Final = Size(events=20_000, seconds=30, blows=15, settle_seconds=1800)
