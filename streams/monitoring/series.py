"""A series of scores: estimates and monitored measures. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from schemas import Estimate
from schemas.base import CLUSTERED_POLICY
from streams.monitoring.measures import MIX, Measure
from streams.monitoring.sample import Sample, estimate, estimate_of
from streams.monitoring.statistics.estimators import WeightedSums
from streams.monitoring.statistics.weights import RelativeWeights
from streams.monitoring.statistics.windows import SlidingSums
from streams.monitoring.watch import Change, SeriesState, Watch

HISTORY_SAMPLES = 500
"""Number of latest scores a series stores. A fall that started before them is dated "or earlier"."""

RECENT_SAMPLES = 50
"""Number of latest scores in `SeriesSnapshot.recent`."""

KNOWN_STRATUM_SECONDS = 7 * 86_400
"""A stratum without an answer for this long is not reported as missing."""

MOST_STRATA = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesRules:
    """The rules of a series.

    Attributes:
        measures: Its measures, the mean first.
        baseline_samples: Number of scores for the first baseline.
        thresholds: For each measure, scores of this series per allowed false alarm.
        window_seconds: Length of the sliding window.
    """

    measures: tuple[Measure, ...]
    baseline_samples: int
    thresholds: tuple[float, ...]
    window_seconds: float


class Series:
    """The scores of one metric, by one evaluator, for one part of the traffic, in order of arrival.

    Args:
        rules: Its rules.
    """

    def __init__(self, rules: SeriesRules) -> None:
        self._rules = rules
        self._mean = rules.measures[0]
        self._total = WeightedSums()
        self._window = SlidingSums(rules.window_seconds)
        self._history: deque[Sample] = deque(maxlen=HISTORY_SAMPLES)
        self._weights = RelativeWeights()
        self._strata: dict[str, float] = {}
        self._clustered = False
        self.watches: tuple[Watch, ...] = tuple(
            Watch(measure, first=rules.baseline_samples, threshold=threshold)
            for measure, threshold in zip(rules.measures, rules.thresholds, strict=True)
        )

    @property
    def mean(self) -> Watch:
        """The watch of the mean."""
        return self.watches[0]

    @property
    def state(self) -> SeriesState:
        """The state of the mean."""
        return self.mean.state

    @property
    def total(self) -> Estimate | None:
        """The estimate over all scores; None without any."""
        return self._estimate(self._total)

    @property
    def recent(self) -> Estimate | None:
        """The estimate over the latest scores; None without any."""
        found = estimate_of(self._mean, list(self._history)[-RECENT_SAMPLES:])
        return found if found is None else found.model_copy(update={"clustered": self._clustered})

    def window(self, now: datetime) -> Estimate | None:
        """The estimate over the answers in the window; None without any."""
        found = self._estimate(self._window.total(now))
        missing = self.missing_strata(now)
        return found if found is None else found.model_copy(update={"missing_strata": missing})

    def missing_strata(self, now: datetime) -> tuple[str, ...]:
        """Return the sampling strata with answers in the past week but none in the window."""
        seconds = now.timestamp()
        silent = (
            name
            for name, latest in self._strata.items()
            if self._rules.window_seconds < seconds - latest <= KNOWN_STRATUM_SECONDS
        )
        return tuple(sorted(silent))

    def add(self, sample: Sample, now: datetime) -> list[Change]:
        """Add one score; return the changes it triggered."""
        amount = self._mean.amount(sample.score)
        self._total = self._total.add(amount, sample.probability)
        self._window.add(amount, sample.probability, occurred_at=sample.occurred_at, now=now)
        self._history.append(sample)
        self._note_stratum(sample)
        share = self._weights.share(sample.policy, sample.stratum, 1 / sample.probability)
        changes = []
        for watch in self.watches:
            may_call = True
            if watch.measure.name == MIX:
                if self.mean.state == "dropped":
                    continue  # the fall is already reported
                # A fall that the mean within parts also shows is not due to the mix.
                may_call = self.mean.statistic < self.mean.threshold**0.5
            change = watch.add(sample, share, self._history, may_call=may_call)
            if change is not None:
                changes.append(change)
        return changes

    def _note_stratum(self, sample: Sample) -> None:
        self._clustered = sample.policy.startswith(CLUSTERED_POLICY)
        seconds = sample.occurred_at.timestamp()
        if sample.stratum in self._strata or len(self._strata) < MOST_STRATA:
            self._strata[sample.stratum] = max(self._strata.get(sample.stratum, 0.0), seconds)

    def _estimate(self, sums: WeightedSums) -> Estimate | None:
        found = estimate(sums, lowest=self._mean.lowest, highest=self._mean.highest)
        return found if found is None else found.model_copy(update={"clustered": self._clustered})

    def dump(self) -> dict[str, Any]:
        """Return the whole state as JSON values."""
        return {
            "total": self._total.numbers,
            "window": self._window.dump(),
            "history": [
                [
                    one.event_id,
                    one.score,
                    one.probability,
                    one.occurred_at.isoformat(),
                    one.policy,
                    one.stratum,
                    one.part,
                ]
                for one in self._history
            ],
            "weights": self._weights.dump(),
            "strata": self._strata,
            "clustered": self._clustered,
            "watches": {watch.measure.name: watch.dump() for watch in self.watches},
        }

    def load(self, state: Mapping[str, Any]) -> None:
        """Restore the state that `dump` returned; new measures start to learn.

        Raises:
            ValueError, KeyError, TypeError, IndexError: The state has another form.
        """
        self._total = WeightedSums.from_numbers(state["total"])
        self._window.load(state["window"])
        self._history.clear()
        for event_id, score, probability, occurred_at, policy, stratum, part in state["history"]:
            moment = datetime.fromisoformat(occurred_at)
            self._history.append(Sample(event_id, score, float(probability), moment, policy, stratum, part))
        self._weights.load(state["weights"])
        self._strata = {name: float(seconds) for name, seconds in state["strata"].items()}
        self._clustered = bool(state["clustered"])
        for watch in self.watches:
            known = state["watches"].get(watch.measure.name)
            if known is not None:
                watch.load(known)
