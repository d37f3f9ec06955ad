"""A series of scores: estimates and monitored measures. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from schemas import Estimate
from schemas.base import CLUSTERED_POLICY
from streams.monitoring.clusters import Clusters
from streams.monitoring.measures import MIX, Measure
from streams.monitoring.sample import Sample
from streams.monitoring.statistics.estimators import WeightedSums
from streams.monitoring.statistics.strata import Traffic, estimate_strata
from streams.monitoring.statistics.weights import RelativeWeights
from streams.monitoring.statistics.windows import SlidingSums
from streams.monitoring.watch import Change, SeriesState, Watch

HISTORY_SAMPLES = 500
"""Number of latest scores a series stores. A fall that started before them is dated "or earlier"."""

RECENT_SAMPLES = 50
"""Number of latest scores in `SeriesSnapshot.recent`."""

WINDOW_SECONDS = 3_600.0
"""Length of the sliding window, that of the recording rules."""

KNOWN_STRATUM_SECONDS = 7 * 86_400
"""A stratum without an answer for this long is not reported as missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesRules:
    """The rules of a series.

    Attributes:
        measures: Its measures, the mean first.
        baseline_samples: Number of scores for the first baseline.
        thresholds: For each measure, scores of this series per allowed false alarm.
    """

    measures: tuple[Measure, ...]
    baseline_samples: int
    thresholds: tuple[float, ...]


class Series:
    """The scores of one metric, by one evaluator, for one part of the traffic, in order of arrival."""

    def __init__(self, rules: SeriesRules) -> None:
        self._rules = rules
        self._mean = rules.measures[0]
        self._windows: dict[str, SlidingSums] = {}  # by stratum
        self._history: deque[Sample] = deque(maxlen=HISTORY_SAMPLES)
        self._weights = RelativeWeights()
        self._traffic = Traffic()
        self._clusters = Clusters()
        self._clustered = False
        self._learned_at: dict[str, float] = {}
        self.watches: list[Watch] = [self._watch(number) for number in range(len(rules.measures))]

    def _watch(self, number: int) -> Watch:
        rules = self._rules
        return Watch(rules.measures[number], first=rules.baseline_samples, threshold=rules.thresholds[number])

    @property
    def mean(self) -> Watch:
        """The watch of the mean."""
        return self.watches[0]

    @property
    def state(self) -> SeriesState:
        """The state of the mean."""
        return self.mean.state

    @property
    def recent(self) -> Estimate | None:
        """The estimate over the latest scores, of clusters their means; None without any."""
        latest = list(self._history)[-RECENT_SAMPLES:]
        if not latest:
            return None
        strata: dict[str, WeightedSums] = {}
        for one in latest:
            sums = strata.get(one.stratum, WeightedSums())
            strata[one.stratum] = sums.add(self._mean.amount(one.score), one.probability)
        times = [one.occurred_at for one in latest]
        return self._estimate(strata, (max(times) - min(times)).total_seconds())

    def window(self, now: datetime) -> Estimate | None:
        """The estimate over the answers in the window; None without any."""
        strata = {name: window.total(now) for name, window in self._windows.items()}
        found = self._estimate(strata, WINDOW_SECONDS)
        missing = self.missing_strata(now)
        return found if found is None else found.model_copy(update={"missing_strata": missing})

    def _estimate(self, strata: Mapping[str, WeightedSums], seconds: float) -> Estimate | None:
        found = estimate_strata(
            strata, self._traffic.expected(seconds), lowest=self._mean.lowest, highest=self._mean.highest
        )
        if found is None:
            return None
        mean, low, high = found
        return Estimate(
            mean=min(max(mean, low), high),  # rounding may put it slightly outside the scale
            low=low,
            high=high,
            count=sum(sums.count for sums in strata.values()),
            effective_count=WeightedSums.merged(strata.values()).effective_count,
            clustered=self._clustered,
        )

    @property
    def answers_a_day(self) -> float | None:
        """Judged answers a day, of the stored ones; None without two."""
        moments = [one.occurred_at.timestamp() for one in self._history]
        seconds = max(moments) - min(moments) if moments else 0.0
        return (len(moments) - 1) * 86_400 / seconds if seconds > 0 else None

    def missing_strata(self, now: datetime) -> tuple[str, ...]:
        """Return the sampling strata with answers in the past week but none in the window."""
        seconds = now.timestamp()
        silent = (
            name
            for name, stratum in self._traffic.strata.items()
            if WINDOW_SECONDS < seconds - stratum.latest <= KNOWN_STRATUM_SECONDS
        )
        return tuple(sorted(silent))

    def add(self, sample: Sample, now: datetime, *, held: Collection[str] = ()) -> list[Change]:
        """Add one score; return the changes it triggered."""
        amount = self._mean.amount(sample.score)
        if sample.cluster is None:
            sums, bets = WeightedSums().add(amount, sample.probability), [sample]
        else:
            sums, bets = self._clusters.add(sample.cluster, sample, amount, now.timestamp())
        self._clustered = sample.cluster is not None or sample.policy.startswith(CLUSTERED_POLICY)
        self._traffic.add(sample.stratum, sums, sample.occurred_at.timestamp())
        stratum = sample.stratum if sample.stratum in self._traffic.strata else ""
        window = self._windows.setdefault(stratum, SlidingSums(WINDOW_SECONDS))
        window.add(sums, occurred_at=sample.occurred_at, now=now)
        return [change for bet in bets for change in self._bet(bet, held)]

    def _bet(self, sample: Sample, held: Collection[str]) -> list[Change]:
        self._history.append(sample)
        share = self._weights.share(sample.policy, sample.stratum, 1 / sample.probability)
        changes = []
        for watch in self.watches:
            may_call = True
            if watch.measure.name == MIX:
                if self.mean.state == "dropped":
                    continue  # the fall is already reported
                # A fall that the mean within parts also shows is not due to the mix.
                may_call = self.mean.statistic < self.mean.threshold**0.5
            learning = watch.state == "learning"
            if learning and watch.measure.name in held:
                continue
            change = watch.add(sample, share, self._history, may_call=may_call)
            if change is not None:
                changes.append(change)
            if learning and watch.state != "learning":
                self._learned_at[watch.measure.name] = sample.occurred_at.timestamp()
        return changes

    def start_over(self, measure: str, since: datetime) -> None:
        """Forget what a measure has learned since the whole traffic fell, unless it was learned before."""
        for number, watch in enumerate(self.watches):
            if watch.measure.name == measure and (
                watch.state == "learning" or self._learned_at.get(measure, 0.0) >= since.timestamp()
            ):
                self.watches[number] = self._watch(number)

    def dump(self) -> dict[str, Any]:
        """Return the whole state as JSON values."""
        return {
            "windows": {name: window.dump() for name, window in self._windows.items()},
            "history": [one.dump() for one in self._history],
            "weights": self._weights.dump(),
            "traffic": self._traffic.state,
            "clusters": self._clusters.dump(),
            "clustered": self._clustered,
            "learned_at": self._learned_at,
            "watches": {watch.measure.name: watch.dump() for watch in self.watches},
        }

    def load(self, state: Mapping[str, Any]) -> None:
        """Restore the state that `dump` returned; new measures start to learn.

        Raises:
            ValueError, KeyError, TypeError, IndexError: The state has another form.
        """
        # Earlier releases have one window for all strata, and the latest time of each stratum.
        windows = state["windows"] if "windows" in state else {"": state["window"]}
        self._windows = {name: SlidingSums(WINDOW_SECONDS) for name in windows}
        for name, window in self._windows.items():
            window.load(windows[name])
        self._history.clear()
        self._history.extend(map(Sample.load, state["history"]))
        strata = {name: (0.0, 0.0, 0.0, latest) for name, latest in state.get("strata", {}).items()}
        self._traffic = Traffic(state.get("traffic", (0.0, 0.0, strata)))
        self._clusters.load(state.get("clusters", {"known": (), "open": ()}))
        self._learned_at = {name: float(at) for name, at in state.get("learned_at", {}).items()}
        self._weights.load(state["weights"])
        self._clustered = bool(state["clustered"])
        for watch in self.watches:
            known = state["watches"].get(watch.measure.name)
            if known is not None:
                watch.load(known)
