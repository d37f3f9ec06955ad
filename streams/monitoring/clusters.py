"""Answers that were sampled together, as one: what they add to the sums, and when they are complete. Pure."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain
from statistics import fmean
from typing import Final

from streams.monitoring.statistics.estimators import WeightedSums
from streams.monitoring.watch import Sample

IDLE_SECONDS: Final = 1_800.0
"""A cluster without an answer for this long is complete, and its mean is bet on."""
LONGEST_SECONDS: Final = 86_400.0
"""A cluster is complete at this age, and counts again at the earliest this long after its latest answer."""
MOST_OPEN: Final = 500
"""Beyond, the cluster longest without an answer is complete."""
MOST_KNOWN: Final = 2_000
"""Clusters remembered, so that a resumed one does not count again."""
MOST_ANSWERS: Final = 50
"""Answers of a cluster whose mean is bet on: its first ones."""


@dataclass
class Clusters:
    """Answers that one random decision sampled together, such as those of a conversation or a user.

    They correlate, so a test that bets on each raises many times the false alarms that it allows. So each
    cluster is one bet, on the mean of its answers, placed when it is complete. The test's bound then holds in
    clusters, if each next one's mean has at least the tolerated expectation given the earlier ones.
    """

    known: OrderedDict[str, tuple[float, float, float]] = field(default_factory=OrderedDict)
    """Latest time, totals of w and wx; the longest silent first, as below."""
    opened: OrderedDict[str, tuple[float, list[Sample]]] = field(default_factory=OrderedDict)
    """First time, answers."""

    def add(self, name: str, sample: Sample, amount: float, now: float) -> tuple[WeightedSums, list[Sample]]:
        """Add an answer; return what it adds to the sums, and the clusters that are complete.

        A cluster's answers enter the sums of squares as one, with the totals W of their w and T of their wx:
        sum W², sum WT, sum T². So the variance is that of cluster totals, and the effective count is in
        clusters (Särndal, Swensson, Wretman 1992, section 4.2).
        """
        latest, weight, weighted = self.known.pop(name, (0.0, 0.0, 0.0))
        if name not in self.opened and now - latest > LONGEST_SECONDS:
            weight = weighted = 0.0
            self.opened[name] = (now, [])
        alone = WeightedSums().add(amount, sample.probability)
        w, wx = alone.weight, alone.weighted
        self.known[name] = (max(now, latest), weight + w, weighted + wx)
        together = WeightedSums(
            weight_square=2 * w * weight,
            weight_square_score=w * weighted + wx * weight,
            weight_square_score_square=2 * wx * weighted,
        )
        complete = [_merged(answers) for answers in self._complete(name, sample, now)]
        return WeightedSums.merged((alone, together)), complete

    def _complete(self, name: str, sample: Sample, now: float) -> list[list[Sample]]:
        complete = []
        if name in self.opened:
            first, answers = self.opened.pop(name)
            if len(answers) < MOST_ANSWERS:
                answers.append(sample)
            if now - first > LONGEST_SECONDS:
                complete.append(answers)
            else:
                self.opened[name] = (first, answers)
        while self.opened:
            oldest = next(iter(self.opened))
            if len(self.opened) <= MOST_OPEN and now - self.known[oldest][0] <= IDLE_SECONDS:
                break
            complete.append(self.opened.pop(oldest)[1])
        while len(self.known) > MOST_KNOWN:
            self.known.popitem(last=False)
        return complete


def _merged(answers: Sequence[Sample]) -> Sample:
    """Return a cluster as one sample: all scores, the mean weight, and the rest of the latest answer."""
    scores = tuple(chain.from_iterable(one.scores for one in answers))
    return answers[-1]._replace(score=scores, probability=1 / fmean(1 / one.probability for one in answers))
