"""A confidence sequence for the difference of two groups' means, valid at every look. Pure.

Each group's mean within a stratum has a predictable plug-in empirical-Bernstein confidence sequence. All hold
at once, by a union bound, at every look. So the difference holds for any mix of the strata, also one that is
estimated, differs between the groups, or drifts. Not for scores whose mean within a stratum depends on those
before, such as bursts of like answers: the mean of a burst is one score then. Source: Waudby-Smith and
Ramdas, "Estimating means of bounded random variables by betting" (JRSS B, 2024), theorem 2 with the
parameters of section 3.2.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from math import ceil, log, sqrt
from typing import Final, Literal

BOLDEST: Final = 0.5
"""Largest bet on one score; the source's c."""

Answer = Literal["no worse", "worse", "not yet"]


@dataclass(slots=True)
class MeanSequence:
    """The confidence sequence of one mean of scores in [0, 1], of which `alpha` is the error over all looks.

    With m and s² the mean and variance of the scores before x_i, from a half and a quarter as a first one:

        bet_i = min(sqrt(2 log(2 / alpha) / (s² i log(1 + i))), 1/2)
        ends  = (sum(bet x) ± (log(2 / alpha) + sum((x - m)² (-log(1 - bet) - bet)))) / sum(bet)
    """

    alpha: float
    count: int = 0
    _total: float = 0.0
    _squares: float = 0.0
    _bets: float = 0.0
    _bet_scores: float = 0.0
    _penalty: float = 0.0

    def add(self, score: float) -> None:
        if not 0 <= score <= 1:
            raise ValueError(f"score must be from 0 to 1, got {score}; scale it")
        before = (0.5 + self._total) / (self.count + 1)
        variance = (0.25 + self._squares) / (self.count + 1)
        self.count += 1
        bet = sqrt(2 * log(2 / self.alpha) / (variance * self.count * log(1 + self.count)))
        bet = min(bet, BOLDEST)
        self._bets += bet
        self._bet_scores += bet * score
        self._penalty += (score - before) ** 2 * (-log(1 - bet) - bet)
        self._total += score
        self._squares += (score - (0.5 + self._total) / (self.count + 1)) ** 2

    def ends(self) -> tuple[float, float]:
        if not self.count:
            return 0.0, 1.0
        middle = self._bet_scores / self._bets
        half = (log(2 / self.alpha) + self._penalty) / self._bets
        return max(middle - half, 0.0), min(middle + half, 1.0)


@dataclass(slots=True)
class DifferenceSequence:
    """The second group's mean minus the first's, over the mix of both, of scores in [0, 1].

    The stratum that appeared as number k has the share 1 / (k (k + 1)) of alpha, half of it for each group:
    the shares of any number of strata add up to at most alpha. Without scores of one group in a stratum its
    mean may be anything, in proportion to the stratum's part of the mix.
    """

    alpha: float
    _strata: dict[Hashable, tuple[MeanSequence, MeanSequence]] = field(default_factory=dict)
    _weights: dict[Hashable, float] = field(default_factory=dict)

    def add(self, stratum: Hashable, group: int, score: float, weight: float) -> None:
        """Take the next score: of group 0 or 1, for so many answers of the traffic."""
        if weight < 1:
            raise ValueError(f"weight must be at least 1, got {weight}")
        if stratum not in self._strata:
            number = len(self._strata) + 1
            share = self.alpha / (2 * number * (number + 1))
            self._strata[stratum] = (MeanSequence(share), MeanSequence(share))
        self._strata[stratum][group].add(score)
        self._weights[stratum] = self._weights.get(stratum, 0.0) + weight

    def ends(self) -> tuple[float, float]:
        total, low, high = sum(self._weights.values()), 0.0, 0.0
        if not total:
            return -1.0, 1.0
        for stratum, (first, second) in self._strata.items():
            share = self._weights[stratum] / total
            (first_low, first_high), (second_low, second_high) = first.ends(), second.ends()
            low += share * (second_low - first_high)
            high += share * (second_high - first_low)
        return low, high

    @property
    def counts(self) -> tuple[int, int]:
        pairs = self._strata.values()
        return sum(first.count for first, _ in pairs), sum(second.count for _, second in pairs)

    def answer(self, margin: float) -> Answer:
        """Say whether the second group is worse by the margin or more; both answers cannot hold at once."""
        low, high = self.ends()
        return "no worse" if low > -margin else "worse" if high <= -margin else "not yet"

    def missing(self, margin: float) -> int | None:
        """Return about how many more scores of the second group decide; None if that cannot be said."""
        if self.answer(margin) != "not yet":
            return 0
        low, high = self.ends()
        _, count = self.counts
        gap = abs((low + high) / 2 + margin)
        one_sided = any(not (first.count and second.count) for first, second in self._strata.values())
        if one_sided or gap < 1e-9:
            return None
        return ceil(count * (((high - low) / 2 / gap) ** 2 - 1))
