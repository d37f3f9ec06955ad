"""The scores of one series: estimates of its mean, and one watch for each measure. Pure."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final, NamedTuple

import structlog
from pydantic import TypeAdapter

from schemas import BURST, Alert, Estimate, Result, Scored, Word
from schemas.base import CLUSTERED_POLICY
from streams.monitoring.anchors import AnchorWatch
from streams.monitoring.burst import FEWEST, LEFT_OUT, REJUDGED, Burst, Names, OldAnswers, has_word, told
from streams.monitoring.clusters import Clusters
from streams.monitoring.config import MEAN, MIX, SeriesRules
from streams.monitoring.statistics.detectors import Cusum
from streams.monitoring.statistics.estimators import SlidingSums, WeightedSums
from streams.monitoring.statistics.strata import MOST_STRATA, RelativeWeights, Traffic, estimate_strata
from streams.monitoring.two_phase import TwoPhase, as_strong, pair_of
from streams.monitoring.watch import Change, Sample, Watch, reported

_log = structlog.stdlib.get_logger(__name__)

HISTORY_SAMPLES: Final = 500
"""Number of latest scores a series stores. A fall that started before them is dated "or earlier"."""
WINDOW_SECONDS: Final = 3_600.0
"""That of the recording rules."""
KNOWN_STRATUM_SECONDS: Final = 7 * 86_400
"""A stratum without an answer for this long is not reported as missing."""

Labels = tuple[tuple[str, str], ...]
"""The part of the traffic of a series: names and values; empty for all of it."""


class SeriesKey(NamedTuple):
    metric: str
    fingerprint: str
    labels: Labels


_NO_KEY: Final = SeriesKey("", "", ())
_NEVER: Final = datetime.min.replace(tzinfo=UTC)


@dataclass
class Series:
    """The results of one metric, by one evaluator, for one part of the traffic, in order of arrival.

    Counts are since the start. Estimates are None without data, never zero.
    """

    rules: SeriesRules
    key: SeriesKey = _NO_KEY
    model: str = ""
    heard_at: datetime = _NEVER
    statuses: Counter[str] = field(default_factory=Counter)
    watches: list[Watch] = field(default_factory=list)
    anchors: AnchorWatch | None = None
    """For the whole traffic: the evaluator's anchors, judged again."""
    _windows: dict[str, SlidingSums] = field(default_factory=dict)
    """By stratum."""
    _history: deque[Sample] = field(default_factory=deque)
    _weights: RelativeWeights = field(default_factory=RelativeWeights)
    _traffic: Traffic = field(default_factory=Traffic)
    _clusters: Clusters = field(default_factory=Clusters)
    _clustered: bool = False
    _learned_at: dict[str, float] = field(default_factory=dict)
    old: OldAnswers = field(default_factory=OldAnswers)
    """Of the whole traffic: answers that can be judged again."""
    bursts: dict[str, Burst] = field(default_factory=dict)
    """Of the whole traffic: what is being judged again, by replay id."""
    names: Names = field(default_factory=Names)
    two_phase: TwoPhase | None = None
    """Of the strong judge; None without two-phase judging."""
    suspicions: dict[str, Cusum] = field(default_factory=dict)
    """Of the whole traffic, by stratum; with `sampling.budget`."""
    spent: tuple[str, int] = ("", 0)
    """A day, and the old answers that were to be judged again on it."""

    def __post_init__(self) -> None:
        self.configure(self.rules)

    def configure(self, rules: SeriesRules) -> None:
        """Continue under these rules; new measures start to learn."""
        self.rules = rules
        known = {watch.measure.name: watch for watch in self.watches}
        self.watches = []
        for measure, threshold in zip(rules.measures, rules.thresholds, strict=True):
            watch = known.get(measure.name) or Watch(measure, rules.baseline_samples, threshold)
            watch.configure(measure, rules.baseline_samples, threshold)
            self.watches.append(watch)
        self._mean = rules.measures[0]
        self._history = deque(self._history, maxlen=HISTORY_SAMPLES)

    @property
    def mean(self) -> Watch:
        return self.watches[0]

    def watch(self, measure: str) -> Watch:
        """Return the watch of a measure; of one that the settings no longer have, that of the mean."""
        return next((one for one in self.watches if one.measure.name == measure), self.mean)

    @property
    def recent(self) -> Estimate | None:
        """The estimate over the latest scores, of clusters their means; None without any."""
        latest = list(self._history)[-50:]
        if not latest:
            return None
        strata: dict[str, WeightedSums] = {}
        for one in latest:
            sums = strata.get(one.stratum, WeightedSums())
            strata[one.stratum] = sums.add(self._mean.amount(one.score), one.probability)
        times = [one.occurred_at for one in latest]
        return self._estimate(strata, (max(times) - min(times)).total_seconds())

    def window(self, now: datetime) -> Estimate | None:
        strata = {name: window.total(now) for name, window in self._windows.items()}
        for name, window in self.two_phase.windows.items() if self.two_phase is not None else ():
            strata[name] = as_strong(window.total(now), strata.get(name, WeightedSums()))
        found = self._estimate(strata, WINDOW_SECONDS)
        missing = self.missing_strata(now)
        return found if found is None else found.model_copy(update={"missing_strata": missing})

    def _estimate(self, strata: Mapping[str, WeightedSums], seconds: float) -> Estimate | None:
        found = estimate_strata(
            strata, self._traffic.expected(seconds), lowest=self._mean.lowest, highest=self._mean.highest
        )
        merged = WeightedSums.merged(strata.values())
        return None if found is None else reported(found, merged, clustered=self._clustered)

    @property
    def expected_days(self) -> float | None:
        """The mean's `expected_answers` in days, at the rate of the stored ones."""
        moments = [one.occurred_at.timestamp() for one in self._history]
        seconds, answers = max(moments, default=0.0) - min(moments, default=0.0), self.mean.expected_answers
        return None if answers is None or seconds <= 0 else answers * seconds / (len(moments) - 1) / 86_400

    def missing_strata(self, now: datetime) -> tuple[str, ...]:
        """Return the sampling strata with answers in the past week but none in the window."""
        silent = ((name, now.timestamp() - stratum.latest) for name, stratum in self._traffic.strata.items())
        return tuple(sorted(name for name, one in silent if WINDOW_SECONDS < one <= KNOWN_STRATUM_SECONDS))

    def add(self, sample: Sample, now: datetime, *, held: Collection[str] = ()) -> list[Change]:
        """Add one score; return the changes it triggered. Measures in `held` do not start to learn."""
        amount = self._mean.amount(sample.score)
        if sample.cluster is None:
            sums, bets = WeightedSums().add(amount, sample.probability), [sample]
        else:
            sums, bets = self._clusters.add(sample.cluster, sample, amount, now.timestamp())
        self._clustered = sample.cluster is not None or sample.policy.startswith(CLUSTERED_POLICY)
        self._traffic.add(sample.stratum, sums, sample.occurred_at.timestamp())
        stratum = self._known(sample.stratum)
        window = self._windows.setdefault(stratum, SlidingSums(WINDOW_SECONDS))
        window.add(sums, occurred_at=sample.occurred_at, now=now)
        return [change for bet in bets for change in self._bet(bet, held)]

    def _known(self, stratum: str) -> str:
        return stratum if stratum in self._traffic.strata else ""

    def add_pair(self, result: Result, now: datetime) -> None:
        pair = pair_of(result)
        if self.two_phase is None:
            # Until now, in this window too, the strong judge's own answers stand for all.
            self.two_phase = TwoPhase(windows=deepcopy(self._windows))
            if pair.strong is not None:
                self.two_phase.learn(pair)
                return
        stratum = self._known(result.sampling.stratum)
        self.two_phase.add(pair, self._mean, stratum, now, WINDOW_SECONDS)

    @property
    def suspected(self) -> set[str]:
        return {name for name, one in self.suspicions.items() if one.is_raised}

    def _suspect(self, sample: Sample) -> None:
        if self.key.labels or not self.rules.suspects:
            return
        if len(self.suspicions) >= MOST_STRATA and sample.stratum not in self.suspicions:
            return
        one = self.suspicions.setdefault(sample.stratum, Cusum())
        value, _ = self.mean.as_usual(sample)
        if self.mean.state == "watching":
            one.add(value)
            return
        for other in self.suspicions.values():
            other.clear()  # the fall is called
        if self.mean.state == "learning":
            one.learn(value)

    def _bet(self, sample: Sample, held: Collection[str]) -> list[Change]:
        self._history.append(sample)
        self._suspect(sample)
        share = self._weights.share(sample.policy, sample.stratum, 1 / sample.probability)
        changes = []
        for watch in self.watches:
            if watch.measure.name == MIX and self.mean.state == "dropped":
                continue  # the fall is already reported
            # A fall that the mean within parts also shows is not due to the mix.
            may_call = watch.measure.name != MIX or self.mean.statistic < self.mean.threshold**0.5
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
        is_after = self._learned_at.get(measure, 0.0) >= since.timestamp()
        for place, watch in enumerate(self.watches):
            if watch.measure.name == measure and (watch.state == "learning" or is_after):
                self.watches[place] = Watch(watch.measure, watch.first, watch.threshold)

    def learn_anew(self, since: datetime) -> None:
        """Forget the baseline, and learn from the stored scores since a time."""
        self.watches = [Watch(one.measure, one.first, one.threshold) for one in self.watches]
        self.old, self._learned_at = OldAnswers(), {}
        for sample in self._history:
            if sample.occurred_at >= since:
                for watch in self.watches:
                    watch.learn(sample)

    def judged_again(self, result: Result, now: datetime) -> list[Alert]:
        """Add an old answer that was judged again; return the alerts with a word that it completes."""
        burst = self.bursts.get(result.replay_id or "")
        if burst is None:
            return []
        burst.add_again(result, self.watch(burst.measure).measure)
        return self._end_bursts(now)

    def explain(
        self, alerts: Sequence[Alert], result: Scored, sample: Sample, now: datetime, *, most: int
    ) -> list[Alert]:
        """Return a live answer's alerts and those that now have a word; `most` may be judged again a day."""
        said = []
        if most:
            for burst in self.bursts.values():
                burst.add_live(*self.watch(burst.measure).as_usual(sample), sample.probability)
            said = self._end_bursts(now)
            if self.names.is_new(result.judge, now) and not self.bursts:
                self._begin(f"{BURST}{result.result_id}", now, most)
            if all(watch.state != "dropped" for watch in self.watches):
                self.old.add(result)
        notes = [note for note in (self.anchors and self.anchors.note, self.names.note) if note]
        for alert in alerts:
            update: dict[str, object] = {"summary": "; ".join([alert.summary, *notes])}
            if most and has_word(alert) and not self._is_explaining():
                why = self._begin(f"{BURST}{alert.alert_id}", now, most, alert.model_copy(update=update))
                if why is not None:
                    nothing = {"said": "unclear", "judge": None, "product": None, "product_is_fine": False}
                    update["word"] = Word.model_validate(
                        nothing | {"decided_at": now, "text": f"unclear: {why}"}
                    )
            said.append(alert.model_copy(update=update))
        return said

    def explain_again(self, alert: Alert, now: datetime, *, most: int) -> None:
        """Begin another burst about a drop that lasts: of other old answers and later live ones."""
        if not has_word(alert) or self.watch(alert.measure).state != "dropped":
            why: str | None = "it is of no drop of all answers that lasts"
        elif self._is_explaining():
            why = "old answers are being judged again already"
        else:
            why = self._begin(f"{BURST}{alert.alert_id}-{now:%m%dT%H%M%S}", now, most, alert)
        if why is not None:
            _log.warning("an alert gets no other word", alert=alert.alert_id, detail=why)

    def _is_explaining(self) -> bool:
        return any(one.alert is not None for one in self.bursts.values())

    def _begin(self, name: str, now: datetime, most: int, alert: Alert | None = None) -> str | None:
        """Draw a burst's answers from those before an alert; return why it cannot be, if so."""
        day, newest, burst = f"{now:%F}", self.old.seen, Burst(name, MEAN, now)
        if alert is not None:
            burst = Burst(name, alert.measure, now, alert, self.watch(alert.measure).usual)
            newest -= alert.current.count + LEFT_OUT
        spent = self.spent[1] if self.spent[0] == day else 0
        left = max(most - spent, 0)
        burst.picks = self.old.draw(name, min(REJUDGED, left), newest=newest)
        if left < FEWEST:
            return "the answers that may be judged again on this day (monitor.rejudge_per_day) are used up"
        if len(burst.picks) < FEWEST:
            return f"fewer than {FEWEST} answers from before can be judged again"
        self.spent = (day, spent + len(burst.picks))
        self.bursts[name] = burst
        return None

    def _end_bursts(self, now: datetime) -> list[Alert]:
        said = []
        for burst in list(self.bursts.values()):
            watch = self.watch(burst.measure)
            is_over = burst.alert is not None and watch.state != "dropped"
            if not (is_over or burst.is_due(now)):
                continue
            del self.bursts[burst.replay_id]
            if burst.alert is not None:
                said.append(burst.alert.model_copy(update={"word": burst.word(watch.measure, now)}))
                continue
            self.names.said = told(burst.judge(), watch.measure)
            _log.warning("the judge changed its name", metric=self.key.metric, detail=self.names.note)
        return said

    def dump(self) -> bytes:
        return _STATE.dump_json(self)

    @classmethod
    def load(cls, rules: SeriesRules, state: bytes) -> Series:
        """Return the series whose state `dump` returned, under rules that may have changed since."""
        series = _STATE.validate_json(state)
        series.configure(rules)
        return series


_STATE: Final = TypeAdapter(Series)
