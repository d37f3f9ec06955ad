"""Compare two runs over the same events: the paired difference of their scores, with its interval. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import sqrt
from statistics import fmean, variance
from typing import Any, Final

from judge.text.printable import reason_of
from schemas import Failed, Scored, Unscored
from streams.monitoring.statistics.estimators import student_quantile

SHOWN: Final = 10
"""Number of listed answers, those with the largest differences."""
REASON_CHARS: Final = 200


@dataclass(frozen=True, slots=True)
class Seen:
    """The part of a scored result that a comparison keeps.

    Args:
        score: The score.
        fingerprint: The evaluator's fingerprint.
        reason: The start of the reason.
    """

    score: float
    fingerprint: str
    reason: str

    @classmethod
    def of(cls, result: Scored) -> Seen:
        """Return the part of a result that is kept."""
        return cls(result.amount, result.evaluator.fingerprint, reason_of(result, REASON_CHARS))


@dataclass(frozen=True, slots=True)
class Disagreement:
    """An answer whose scores differ, with the reason of each run."""

    event_id: str
    before: float
    now: float
    why_before: str
    why_now: str

    def as_json(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {
            "event_id": self.event_id,
            "before": self.before,
            "now": self.now,
            "why_before": self.why_before,
            "why_now": self.why_now,
        }


@dataclass(frozen=True, slots=True)
class Comparison:
    """The comparison of one metric.

    Args:
        metric: Its name.
        pairs: Events that both runs scored.
        difference: Mean of now minus before; None without pairs.
        interval: Its 95% interval, by Student's t over the pairs; None with fewer than two.
        better: Events that score higher now.
        worse: Events that score lower now.
        disagreements: Those with the largest differences.
        fallen: Those with the largest decreases.
        evaluators: Fingerprints before and now; if they differ, the judge changed, too.
    """

    metric: str
    pairs: int
    difference: float | None
    interval: tuple[float, float] | None
    better: int
    worse: int
    disagreements: tuple[Disagreement, ...]
    fallen: tuple[Disagreement, ...]
    evaluators: tuple[frozenset[str], frozenset[str]]

    @property
    def is_worse(self) -> bool:
        """Whether the decrease is significant: the whole interval is below 0."""
        return self.interval is not None and self.interval[1] < 0

    def as_json(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {
            "metric": self.metric,
            "pairs": self.pairs,
            "difference": self.difference,
            "interval": None if self.interval is None else list(self.interval),
            "better": self.better,
            "worse": self.worse,
            "is_worse": self.is_worse,
            "same_evaluator": self.evaluators[0] == self.evaluators[1],
            "disagreements": [one.as_json() for one in self.disagreements],
            "fallen": [
                {"event_id": one.event_id, "before": one.before, "now": one.now} for one in self.fallen
            ],
        }

    def text(self) -> str:
        """Return the text form."""
        if self.difference is None:
            return f"{self.metric}: no event was scored in both runs"
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
        metric: The metric; results of others are skipped.
        before: The results of the earlier run.
        now: The results of this run.
    """
    return compare_scores(metric, _scores(metric, before), _scores(metric, now))


def compare_scores(metric: str, before: Mapping[str, Seen], now: Mapping[str, Seen]) -> Comparison:
    """Compare two runs of one metric by event id, as `compare` does."""
    both = [(event_id, before[event_id], new) for event_id, new in now.items() if event_id in before]
    differences = [new.score - old.score for _, old, new in both]
    apart = sorted(
        (
            Disagreement(event_id, old.score, new.score, old.reason, new.reason)
            for event_id, old, new in both
            if old.score != new.score
        ),
        key=lambda one: (-abs(one.now - one.before), one.event_id),
    )
    fallen = [one for one in apart if one.now < one.before]
    return Comparison(
        metric=metric,
        pairs=len(both),
        difference=fmean(differences) if differences else None,
        interval=paired_interval(differences),
        better=len(apart) - len(fallen),
        worse=len(fallen),
        disagreements=tuple(apart[:SHOWN]),
        fallen=tuple(fallen[:SHOWN]),
        evaluators=(
            frozenset(old.fingerprint for _, old, _ in both),
            frozenset(new.fingerprint for _, _, new in both),
        ),
    )


def paired_interval(differences: list[float], confidence: float = 0.95) -> tuple[float, float] | None:
    """Return the interval of a mean difference: d ± t s / sqrt(n), with t of n - 1 degrees of freedom.

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


def _scores(metric: str, results: Iterable[Scored | Unscored | Failed]) -> dict[str, Seen]:
    return {one.event_id: Seen.of(one) for one in results if isinstance(one, Scored) and one.metric == metric}
