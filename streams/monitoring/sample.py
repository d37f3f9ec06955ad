"""One score as a series remembers it, and what is estimated from several. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from schemas import Estimate
from streams.monitoring.measures import Measure, Score
from streams.monitoring.statistics.estimators import WeightedSums


@dataclass(frozen=True, slots=True)
class Sample:
    """One score, as series remember it.

    Attributes:
        event_id: The answer's event.
        score: The score.
        probability: Its inclusion probability.
        occurred_at: When the answer was given.
        policy: The sampling policy.
        stratum: The sampling rule.
        part: The part of the traffic within which it is compared.
    """

    event_id: str
    score: Score
    probability: float
    occurred_at: datetime
    policy: str = ""
    stratum: str = ""
    part: str = ""


def estimate(sums: WeightedSums, *, lowest: float, highest: float) -> Estimate | None:
    """Give mean and interval; None without scores."""
    mean = sums.mean
    ends = sums.interval(lowest=lowest, highest=highest)
    if mean is None or ends is None:
        return None
    low, high = ends
    return Estimate(
        mean=min(max(mean, low), high),  # rounding may put it a hair outside the scale
        low=low,
        high=high,
        count=sums.count,
        effective_count=sums.effective_count,
    )


def estimate_of(measure: Measure, samples: Sequence[Sample]) -> Estimate | None:
    """Estimate a measure from samples; None without any."""
    sums = WeightedSums.of((measure.amount(one.score), one.probability) for one in samples)
    return estimate(sums, lowest=measure.lowest, highest=measure.highest)
