"""Suspicion of a fall before it is called: it raises the sampling rates of its strata. Pure."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from math import sqrt
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from streams.monitoring.series import Series

ALLOWANCE: Final = 0.044
"""Half of a notable fall, on the scale [0, 1]: 0.22 points of a scale five wide."""
SUSPICIOUS: Final = 8.0
"""Standard deviations of the scores at which a sum is suspicious: by chance once in some 500 answers."""
FIRST: Final = 60.0
MOST: Final = 2_000.0
"""Answers before anything is suspected, and those that a usual mean is of at most."""
AGAIN_SECONDS: Final = 300.0


@dataclass(slots=True)
class Cusum:
    """Suspicion that the mean of a stratum has fallen: earlier than a test says so, and sometimes wrongly.

    S <- max(0, S + usual mean - 0.044 - x), suspicious from 8 standard deviations of x on until S is 0 again.
    S grows to a quarter more at most, so that a mended fall is seen soon. Source: Page, "Continuous
    inspection schemes" (Biometrika, 1954), with half of the fall as the allowance.
    """

    count: float = 0.0
    mean: float = 0.0
    squares: float = 0.0
    sum: float = 0.0
    is_raised: bool = False

    def add(self, value: float) -> None:
        if self.count >= FIRST:
            limit = SUSPICIOUS * max(sqrt(self.squares / self.count), ALLOWANCE)
            self.sum = min(max(self.sum + self.mean - ALLOWANCE - value, 0.0), 1.25 * limit)
            self.is_raised = self.sum >= limit or (self.is_raised and self.sum > 0)
        if not self.is_raised:
            self.learn(value)

    def learn(self, value: float) -> None:
        if self.count >= MOST:
            self.squares *= 1 - 1 / self.count
            self.count -= 1
        self.count += 1
        before = self.mean
        self.mean += (value - before) / self.count
        self.squares += (value - before) * (value - self.mean)

    def clear(self) -> None:
        self.sum, self.is_raised = 0.0, False


@dataclass
class Suspicions:
    """Tells the suspicions of a partition's monitor, if they change and again while they last."""

    clock: Callable[[], float] = time.monotonic
    _told: dict[str, tuple[set[str], float]] = field(default_factory=dict)

    def look(self, series: Iterable[Series], tell: Callable[[str, Collection[str]], None] | None) -> None:
        """Look at all series; `tell` gets a metric's suspected strata, if it is given."""
        if tell is None:
            return
        found: dict[str, set[str]] = {}
        for one in series:
            if not one.key.labels:
                found.setdefault(one.key.metric, set()).update(one.suspected)
        for metric, strata in found.items():
            told, told_at = self._told.get(metric, (None, 0.0))
            if strata != told or (strata and self.clock() - told_at > AGAIN_SECONDS):
                self._told[metric] = (strata, self.clock())
                tell(metric, strata)
