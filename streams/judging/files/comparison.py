"""Two runs over the same events: the paired difference of their scores, with its interval. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import sqrt
from statistics import fmean, variance
from typing import Any, Final

from schemas import Failed, Scored, Unscored
from streams.monitoring.statistics.estimators import student_quantile

SHOWN: Final = 10
"""Answers of which the score fell most that are listed."""


@dataclass(frozen=True, slots=True)
class Fallen:
    """An answer that scored better before."""

    event_id: str
    before: float
    now: float


@dataclass(frozen=True, slots=True)
class Comparison:
    """One metric, then and now.

    Args:
        metric: Its name.
        pairs: Events that both runs scored.
        difference: Mean of now minus before; None without pairs.
        interval: Its 95% interval, by Student's t over the pairs; None with fewer than two.
        better: Events that score higher now.
        worse: Events that score lower now.
        fallen: Those that fell most.
        evaluators: Fingerprints then and now; where they differ, the judge changed, too.
    """

    metric: str
    pairs: int
    difference: float | None
    interval: tuple[float, float] | None
    better: int
    worse: int
    fallen: tuple[Fallen, ...]
    evaluators: tuple[frozenset[str], frozenset[str]]

    @property
    def is_worse(self) -> bool:
        """Whether the fall is more than chance explains: the whole interval lies below 0."""
        return self.interval is not None and self.interval[1] < 0

    def as_json(self) -> dict[str, Any]:
        """Give it for programs."""
        return {
            "metric": self.metric,
            "pairs": self.pairs,
            "difference": self.difference,
            "interval": None if self.interval is None else list(self.interval),
            "better": self.better,
            "worse": self.worse,
            "is_worse": self.is_worse,
            "same_evaluator": self.evaluators[0] == self.evaluators[1],
            "fallen": [
                {"event_id": one.event_id, "before": one.before, "now": one.now} for one in self.fallen
            ],
        }

    def text(self) -> str:
        """Give it for people."""
        if self.difference is None:
            return f"{self.metric}: no event is scored in both runs"
        ends = "" if self.interval is None else f" (95%: {self.interval[0]:+.2f} to {self.interval[1]:+.2f})"
        changed = "" if self.evaluators[0] == self.evaluators[1] else "; the evaluator changed, too"
        return (
            f"{self.metric}: {self.difference:+.2f}{ends} over {self.pairs} events scored in both runs, "
            f"{self.better} better, {self.worse} worse{changed}"
        )


def compare(
    metric: str, before: Iterable[Scored | Unscored | Failed], now: Iterable[Scored | Unscored | Failed]
) -> Comparison:
    """Compare two runs of one metric over the events that both scored.

    Args:
        metric: The metric; results of others are passed over.
        before: The results of the earlier run.
        now: Those of this one.
    """
    then, after = _scores(metric, before), _scores(metric, now)
    both = [(event_id, then[event_id], after[event_id]) for event_id in then if event_id in after]
    differences = [new.amount - old.amount for _, old, new in both]
    fallen = sorted(
        (one for one in both if one[2].amount < one[1].amount), key=lambda one: one[2].amount - one[1].amount
    )
    return Comparison(
        metric=metric,
        pairs=len(both),
        difference=fmean(differences) if differences else None,
        interval=paired_interval(differences),
        better=sum(one > 0 for one in differences),
        worse=len(fallen),
        fallen=tuple(Fallen(event_id, old.amount, new.amount) for event_id, old, new in fallen[:SHOWN]),
        evaluators=(
            frozenset(old.evaluator.fingerprint for _, old, _ in both),
            frozenset(new.evaluator.fingerprint for _, _, new in both),
        ),
    )


def paired_interval(differences: list[float], confidence: float = 0.95) -> tuple[float, float] | None:
    """Give the interval of a mean difference: d ± t s / sqrt(n), with t of n - 1 degrees of freedom.

    Source: Student, "The probable error of a mean" (Biometrika, 1908).

    Returns:
        Its ends; None for fewer than two pairs.
    """
    n = len(differences)
    if n < 2:
        return None
    middle = fmean(differences)
    half = student_quantile(0.5 + confidence / 2, n - 1) * sqrt(variance(differences, middle) / n)
    return middle - half, middle + half


def _scores(metric: str, results: Iterable[Scored | Unscored | Failed]) -> dict[str, Scored]:
    return {one.event_id: one for one in results if isinstance(one, Scored) and one.metric == metric}
