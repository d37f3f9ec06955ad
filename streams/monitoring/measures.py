"""The monitored measures of a metric's scores: their mean, or the share of some of them. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean
from typing import Literal

Worse = Literal["down", "up"]
"""The direction that is worse."""
MEAN = "mean"
SHARE_OF = "share_of_"
"""Prefix of the name of a label's share."""
MIX = "mix"
"""The plain mean, which a change of the mix of labels alone also changes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """One statistic of a metric's scores, and the direction that is worse.

    Each score becomes an amount: itself for a mean; 1 or 0 for a share. The mean of the amounts is estimated.

    Attributes:
        min_change: Smallest relevant change for the worse, in units of the amount.
        target: The worst acceptable level, in the same units; None: learned.
        within_parts: Whether to compare within the parts of the traffic, so that a change of their mix has no
            effect.
        at_most: For a share: scores up to this one count.
        among: For a share: these scores count. Without this and `at_most` it is a mean.
    """

    name: str
    lowest: float = 0.0
    highest: float = 1.0
    worse: Worse
    min_change: float
    target: float | None = None
    within_parts: bool = True
    at_most: float | None = None
    among: frozenset[float] | None = None

    @property
    def is_share(self) -> bool:
        """Whether it is a share rather than a mean."""
        return self.at_most is not None or self.among is not None

    def amount(self, score: float | tuple[float, ...]) -> float:
        """Return the amount of a score, or the mean amount of several."""
        if isinstance(score, tuple):
            return fmean(map(self.amount, score))
        if self.among is not None:
            return float(score in self.among)
        return score if self.at_most is None else float(score <= self.at_most)

    def goodness(self, amount: float) -> float:
        """Scale an amount to [0, 1], where 1 is best."""
        scaled = (amount - self.lowest) / (self.highest - self.lowest)
        return scaled if self.worse == "down" else 1 - scaled

    def reported(self, goodness: float) -> float:
        """Convert goodness back to units of the amount."""
        scaled = goodness if self.worse == "down" else 1 - goodness
        return self.lowest + scaled * (self.highest - self.lowest)


def mean_of(
    lowest: float,
    highest: float,
    *,
    min_drop: float,
    target: float | None = None,
    worse: Worse = "down",
) -> Measure:
    """Return the measure of the mean within the parts of the traffic."""
    return Measure(name=MEAN, lowest=lowest, highest=highest, worse=worse, min_change=min_drop, target=target)


def share_at_most(level: float, *, min_rise: float) -> Measure:
    """Return the measure of the share of scores up to `level`; more is worse."""
    return Measure(name=f"share_at_most_{level:g}", worse="up", min_change=min_rise, at_most=level)


def lowest_third(lowest: float, highest: float) -> float:
    """Return the upper end of a scale's lowest third, whole if the ends are: 2 for 1 to 5, 1 for 0 to 5."""
    level = lowest + (highest - lowest) / 3
    return float(int(level)) if float(lowest).is_integer() and highest - lowest > 2 else level
