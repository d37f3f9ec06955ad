"""How the money of `sampling.budget` is divided among the strata, and what is known of them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from fractions import Fraction
from functools import cache
from math import exp, log2, sqrt
from typing import Final

EQUAL_PART: Final = 0.1
"""Part of the money that strata share equally: each keeps an interval of its own, and is watched."""
SHRUNK_COUNT: Final = 30.0
"""Judged answers that the pooled variance and price count as, in each stratum."""
AN_OCTAVE: Final = 4
"""Rates are powers of the fourth root of two, so that few policies serve a day and come back."""
MOST_STEPS: Final = 20 * AN_OCTAVE
HYSTERESIS: Final = 1.0
"""A rate stays while the wanted one is within this many steps."""
_LEAST: Final = 1e-12
SPANS: Final = (43_200.0, 1_800.0, 60.0)
"""Seconds over which a count is averaged, the longest first."""
SURE_COUNT: Final = 60.0
"""The rate of a longer time weighs as much as this count."""
LEAST_OF_HOUR: Final = 0.05
"""Share of a mean hour that each hour has at least, for demand where there was none before."""
LONGEST_MEAN: Final = 1_000.0
"""A metric's mean in a stratum forgets, as if it had this many scores."""


@dataclass(frozen=True, slots=True)
class StratumLoad:
    demand: float
    """Verdicts a second if all events below the configured rate were judged."""
    price: float = 1.0
    spread: float = 1.0
    """Standard deviation of the scores; only the strata's ratios matter."""
    most: float = 1.0
    """The configured rate, above 0."""


def allocate(strata: Mapping[str, StratumLoad], pace: float) -> dict[str, float]:
    """Return the part of each stratum's demand to judge, from 0 to 1, so that `pace` is spent a second.

    Neyman's allocation for unequal prices (Cochran, Sampling Techniques, 1977, section 5.5): verdicts n_h
    proportional to N_h S_h / sqrt(c_h), so money to N_h S_h sqrt(c_h), with N_h = demand / most. Deviating
    from it, `EQUAL_PART` is divided equally, and what a stratum cannot use goes to the others.
    """
    cost = {name: max(one.demand * one.price, _LEAST) for name, one in strata.items()}
    neyman = {name: cost[name] / one.most * one.spread / sqrt(one.price) for name, one in strata.items()}
    found, open_, left = dict.fromkeys(strata, 1.0), set(strata), pace
    equal = EQUAL_PART * pace / max(len(strata), 1)
    while open_:
        total = sum(neyman[name] for name in open_)
        rest = max(left - equal * len(open_), 0.0)
        parts = {name: (equal + rest * neyman[name] / total) / cost[name] for name in open_}
        full = {name for name, part in parts.items() if part >= 1}
        if not full:
            return found | parts
        left = max(left - sum(cost[name] for name in full), 0.0)
        open_ -= full
    return found


def step_of(part: float, before: int | None = None) -> int:
    """Return a part as a number of steps below 1; that before if it is near."""
    wanted = -AN_OCTAVE * log2(max(part, _LEAST))
    if before is not None and abs(wanted - before) <= HYSTERESIS:
        return before
    return min(max(round(wanted), 0), MOST_STEPS)


@cache
def part_of(step: int) -> Fraction:
    """Return the part that a number of steps is; a larger number never gives a larger part."""
    octaves, rest = divmod(step, AN_OCTAVE)
    return Fraction(round(2 ** (24 - rest / AN_OCTAVE)), 2 ** (24 + octaves))


@dataclass(slots=True)
class Flow:
    """The rate of a count: of the last minute as far as that tells it, else of longer times."""

    since: float
    at: float
    _counts: list[float] = field(default_factory=lambda: [0.0] * len(SPANS))

    def add(self, now: float, count: float) -> None:
        self._to(now)
        self._counts = [one + count for one in self._counts]

    def rate(self, now: float) -> float:
        """Return counts a second; at least one in an hour."""
        self._to(now)
        found, sure = 1.0, 0.0
        for span, counted in zip(SPANS, self._counts, strict=True):
            seconds = span * (1 - exp((self.since - now) / span))
            found = max((counted + sure) / max(seconds + sure / found, 1.0), 1 / 3_600)
            sure = SURE_COUNT
        return found

    def _to(self, now: float) -> None:
        if now > self.at:
            kept = (exp((self.at - now) / span) for span in SPANS)
            self._counts = [one * part for one, part in zip(self._counts, kept, strict=True)]
            self.at = now


@dataclass(slots=True)
class VerdictTally:
    """A stratum's verdicts, by one worker."""

    sums: list[float] = field(default_factory=lambda: [0.0] * 4)
    """Scores, their squared deviations, verdicts, and money."""
    _means: dict[str, tuple[float, float]] = field(default_factory=dict, repr=False)

    def add(self, metric: str, score: float | None, money: float) -> None:
        """Add a verdict, with its score scaled to [0, 1]; its deviation is from its metric's mean so far."""
        scores = squares = 0.0
        if score is not None:
            count, mean = self._means.get(metric, (0.0, 0.0))
            new = mean + (score - mean) / (count + 1)
            self._means[metric] = (min(count + 1, LONGEST_MEAN), new)
            scores, squares = float(bool(count)), (score - mean) * (score - new)
        self.sums = [one + more for one, more in zip(self.sums, (scores, squares, 1, money), strict=True)]

    def halve(self) -> None:
        self.sums = [one / 2 for one in self.sums]


def figures(
    names: Iterable[str], sums: Mapping[str, Sequence[float]], price: float
) -> dict[str, tuple[float, float]]:
    """Return price (before any verdict the given one) and spread of each stratum, shrunk to those of all."""
    scores, squares, verdicts, money = map(sum, zip(*sums.values(), (0.0,) * 4, strict=True))
    variance = squares / scores if scores and squares else 1.0
    price = money / verdicts if verdicts and money else price
    found = {}
    for name in names:
        n, deviations, judged, spent = sums.get(name, (0.0,) * 4)
        own = (deviations + SHRUNK_COUNT * variance) / (n + SHRUNK_COUNT)
        found[name] = ((spent + SHRUNK_COUNT * price) / (judged + SHRUNK_COUNT), sqrt(own))
    return found


@dataclass
class Demand:
    """How much of a day's demand has come by a time of day: as on the whole days before, else evenly."""

    since: datetime
    counted: list[float] = field(default_factory=lambda: [0.0] * 24)
    """Of the present day, by hour."""
    usual: list[float] | None = None
    """Shares of the hours on whole days; None before one."""

    def __post_init__(self) -> None:
        usual = self.usual or [1 / 24] * 24
        self._hours = [(one + LEAST_OF_HOUR / 24) / (1 + LEAST_OF_HOUR) for one in usual]

    def add(self, now: datetime, count: float = 1) -> None:
        self.counted[now.hour] += count

    def begin(self, day: datetime) -> None:
        """Begin a day; the one that ended counts half, if it was seen from its beginning and had demand."""
        total = sum(self.counted)
        if total and self.since <= day - timedelta(days=1):
            share = [count / total for count in self.counted]
            self.usual = [(new + old) / 2 for new, old in zip(share, self.usual or share, strict=True)]
        self.counted = [0.0] * 24
        self.__post_init__()

    def by(self, now: datetime) -> float:
        """Return the share of a day's demand before this time of day."""
        passed = (now.minute * 60 + now.second) / 3600
        return sum(self._hours[: now.hour]) + self._hours[now.hour] * passed
