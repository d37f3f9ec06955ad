"""A score as a series stores it, and estimates from several. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from schemas import Estimate
from streams.monitoring.measures import Measure, Score
from streams.monitoring.statistics.estimators import WeightedSums


@dataclass(frozen=True, slots=True)
class Sample:
    """A score as series store it.

    Attributes:
        event_id: The answer's event.
        score: The score.
        probability: Its inclusion probability.
        occurred_at: Time of the answer.
        policy: The sampling policy.
        stratum: The sampling rule.
        part: The part of the traffic in which it is compared.
    """

    event_id: str
    score: Score
    probability: float
    occurred_at: datetime
    policy: str = ""
    stratum: str = ""
    part: str = ""


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
