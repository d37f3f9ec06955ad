"""Clusters of dependent answers: one bet each, and sums whose variance is that of cluster totals. Pure."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from statistics import fmean
from typing import Any, Final

from streams.monitoring.sample import Sample
from streams.monitoring.statistics.estimators import WeightedSums

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


class Clusters:
    """Answers that one random decision sampled together, such as those of a conversation or a user.

    They correlate, so n of them say less than n independent ones, and a test that bets on each raises many
    times the false alarms that it allows. So each cluster is one bet, on the mean of its answers, placed when
    it is complete. The test's bound then holds in clusters instead of answers, if each next cluster's mean
    has at least the tolerated expectation given the earlier clusters.
    """

    __slots__ = ("_known", "_open")

    def __init__(self) -> None:
        # The longest silent first. Known: latest time, totals of w and wx. Open: first time, answers.
        self._known: OrderedDict[str, tuple[float, float, float]] = OrderedDict()
        self._open: OrderedDict[str, tuple[float, list[Sample]]] = OrderedDict()

    def add(self, name: str, sample: Sample, amount: float, now: float) -> tuple[WeightedSums, list[Sample]]:
        """Add an answer.

        A cluster's answers enter the sums of squares as one, with the totals W of their w and T of their wx:
        sum W², sum WT, sum T². So the variance is that of cluster totals, and the effective count is in
        clusters (Särndal, Swensson, Wretman 1992, section 4.2).

        Args:
            now: The time of its observation, in seconds.
        """
        latest, weight, weighted = self._known.pop(name, (0.0, 0.0, 0.0))
        if name not in self._open and now - latest > LONGEST_SECONDS:
            weight = weighted = 0.0
            self._open[name] = (now, [])
        alone = WeightedSums().add(amount, sample.probability)
        w, wx = alone.weight, alone.weighted
        self._known[name] = (max(now, latest), weight + w, weighted + wx)
        together = WeightedSums(
            weight_square=2 * w * weight,
            weight_square_score=w * weighted + wx * weight,
            weight_square_score_square=2 * wx * weighted,
        )
        return alone.merge(together), self._complete(name, sample, now)

    def _complete(self, name: str, sample: Sample, now: float) -> list[Sample]:
        complete = []
        if name in self._open:
            first, answers = self._open.pop(name)
            if len(answers) < MOST_ANSWERS:
                answers.append(sample)
            if now - first > LONGEST_SECONDS:
                complete.append(answers)
            else:
                self._open[name] = (first, answers)
        while self._open:
            oldest = next(iter(self._open))
            if len(self._open) <= MOST_OPEN and now - self._known[oldest][0] <= IDLE_SECONDS:
                break
            complete.append(self._open.pop(oldest)[1])
        while len(self._known) > MOST_KNOWN:
            self._known.popitem(last=False)
        return [_merged(answers) for answers in complete]

    def dump(self) -> dict[str, Any]:
        """Return the whole state as JSON values."""
        return {
            "known": list(self._known.items()),
            "open": [
                [name, first, [one.dump() for one in answers]]
                for name, (first, answers) in self._open.items()
            ],
        }

    def load(self, state: Mapping[str, Sequence[Any]]) -> None:
        """Restore the state that `dump` returned."""
        self._known = OrderedDict(
            (name, (float(latest), float(w), float(wx))) for name, (latest, w, wx) in state["known"]
        )
        self._open = OrderedDict(
            (name, (float(first), [Sample.load(one) for one in answers]))
            for name, first, answers in state["open"]
        )


def _merged(answers: Sequence[Sample]) -> Sample:
    """Return a cluster as one sample: all scores, the mean weight, and the rest of the latest answer."""
    scores = tuple(chain.from_iterable(one.scores for one in answers))
    return replace(answers[-1], score=scores, probability=1 / fmean(1 / one.probability for one in answers))
