"""A score as a series stores it, and estimates from several. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Self

from schemas import Estimate
from streams.monitoring.measures import Measure
from streams.monitoring.statistics.estimators import WeightedSums


@dataclass(frozen=True, slots=True)
class Sample:
    """A score as series store it.

    Attributes:
        score: The score; of a cluster of dependent answers, those of all.
        part: The part of the traffic in which it is compared.
        cluster: What was sampled together with it; None: it was sampled alone, or a whole cluster.
    """

    event_id: str
    score: float | tuple[float, ...]
    probability: float
    occurred_at: datetime
    policy: str = ""
    stratum: str = ""
    part: str = ""
    cluster: str | None = None

    @property
    def scores(self) -> tuple[float, ...]:
        """The score, or those of a cluster."""
        return self.score if isinstance(self.score, tuple) else (self.score,)

    def dump(self) -> list[Any]:
        """Return it as JSON values."""
        when = self.occurred_at.isoformat()
        return [self.event_id, self.score, self.probability, when, self.policy, self.stratum, self.part]

    @classmethod
    def load(cls, state: Sequence[Any]) -> Self:
        """Restore what `dump` returned."""
        event_id, score, probability, when, *rest = state
        scores = tuple(score) if isinstance(score, list) else score
        return cls(event_id, scores, float(probability), datetime.fromisoformat(when), *rest)


def estimate(sums: WeightedSums, *, lowest: float, highest: float) -> Estimate | None:
    """Return mean and interval; None without scores."""
    mean = sums.mean
    ends = sums.interval(lowest=lowest, highest=highest)
    if mean is None or ends is None:
        return None
    low, high = ends
    return Estimate(
        mean=min(max(mean, low), high),  # rounding may put it slightly outside the scale
        low=low,
        high=high,
        count=sums.count,
        effective_count=sums.effective_count,
    )


def estimate_of(measure: Measure, samples: Sequence[Sample]) -> Estimate | None:
    """Estimate a measure from samples; None without any."""
    sums = WeightedSums.of((measure.amount(one.score), one.probability) for one in samples)
    return estimate(sums, lowest=measure.lowest, highest=measure.highest)
