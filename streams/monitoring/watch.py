"""One measure of one series: its baseline, and whether it has fallen. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from math import sqrt
from typing import Final, Literal, NamedTuple

from schemas import Estimate
from streams.monitoring.config import Measure
from streams.monitoring.statistics.baseline import ERRORS_TOLERATED, EVEN, GrowingBaseline, Mix, Season, Waves
from streams.monitoring.statistics.detectors import (
    ShiryaevRobertsEDetector,
    expected_answers,
    samples_since_shift,
)
from streams.monitoring.statistics.estimators import WeightedSums

NOTABLE_FALL: Final = 0.088
"""The fall of the scale [0, 1] whose delay is told: 0.44 points of a scale five wide."""
_LEAST: Final = 1e-6
"""Distance of the tolerated mean from 0 and 1, which the test requires."""

SeriesState = Literal["learning", "watching", "dropped"]
"""learning: falls cannot be detected yet; watching: no drop; dropped: dropped and not recovered."""
_STATES: Final[Mapping[SeriesState, float]] = {"learning": 0.0, "watching": 1.0, "dropped": 2.0}


class Sample(NamedTuple):
    event_id: str
    score: float | tuple[float, ...]
    """Of a cluster of dependent answers, those of all."""
    probability: float
    occurred_at: datetime
    policy: str = ""
    stratum: str = ""
    part: str = ""
    """The part of the traffic in which it is compared."""
    cluster: str | None = None
    """What was sampled together with it; None: it was sampled alone, or a whole cluster."""

    @property
    def scores(self) -> tuple[float, ...]:
        return self.score if isinstance(self.score, tuple) else (self.score,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    kind: Literal["drop", "recovered"]
    measure: Measure
    further: bool
    """Whether it is a further drop; its baseline is then the level since the last drop."""
    baseline: Estimate
    """That of the test; its count is 0 for a configured target."""
    learning: bool
    """Whether the baseline has answers of the drop, which began while it was learned."""
    current: Estimate
    statistic: float
    threshold: float
    detector: str
    began_at: datetime
    """Estimated start of the change, by the answers' own time."""
    dropped_at: datetime
    or_earlier: bool
    """Whether the change may have started before `began_at`."""
    example_event_ids: tuple[str, ...]
    """The worst events since, the worst first, of equals the latest first."""


@dataclass
class Watch:
    measure: Measure
    first: int
    threshold: float
    dropped_at: datetime | None = None
    _baseline: GrowingBaseline = field(default_factory=GrowingBaseline)
    _season: Season = field(default_factory=Season)
    _mix: Mix = field(default_factory=Mix)
    _downward: ShiryaevRobertsEDetector = field(default_factory=ShiryaevRobertsEDetector)
    _upward: ShiryaevRobertsEDetector | None = None
    _fallen: GrowingBaseline = field(default_factory=GrowingBaseline)
    """The level since the drop."""
    _further: ShiryaevRobertsEDetector = field(default_factory=ShiryaevRobertsEDetector)
    _fallen_mean: float = 0.0
    _relief: float = 0.0

    def __post_init__(self) -> None:
        self.configure(self.measure, self.first, self.threshold)

    def configure(self, measure: Measure, first: int, threshold: float) -> None:
        """Continue under these rules, as after a change of the settings."""
        self.measure, self.first, self.threshold = measure, first, threshold
        self._least_drop = measure.min_change / measure.width
        self._target = None if measure.target is None else measure.scaled(measure.target)
        for baseline in (self._baseline, self._fallen):
            baseline.configure(first, self._least_drop)
        for detector in (self._downward, self._upward, self._further):
            if detector is not None:
                detector.threshold = threshold

    @property
    def state(self) -> SeriesState:
        if self._upward is not None:
            return "dropped"
        return "learning" if self._target is None and not self._baseline.learned else "watching"

    @property
    def baseline(self) -> Estimate | None:
        if self.measure.target is not None:
            level = self.measure.target
            return Estimate(mean=level, low=level, high=level, count=0, effective_count=0)
        return self._reported(self._baseline.basis)

    @property
    def tolerated(self) -> float | None:
        """The worst tolerated level, without season and mix; None while learning."""
        if self.measure.target is not None:
            return self.measure.target
        return self.measure.reported(self._baseline.tolerated) if self._baseline.learned else None

    @property
    def statistic(self) -> float:
        """Evidence for a drop; while dropped, the evidence at the alert."""
        return self._downward.statistic

    @property
    def numbers(self) -> Mapping[str, float | None]:
        """By the names of `MONITOR_GAUGES`."""
        return {
            "state": _STATES[self.state],
            "evidence": self.statistic,
            "threshold": self.threshold,
            "baseline": None if self.baseline is None else self.baseline.mean,
            "tolerated": self.tolerated,
        }

    @property
    def expected_answers(self) -> float | None:
        """Judged answers until a fall of 0.088 of the scale would be called; None if not watching."""
        sums, learned = self._baseline.sums, self._baseline
        mean = sums.mean if self._target is not None else learned.mean
        if self.state != "watching" or mean is None or not sums.count:
            return None
        return expected_answers(
            NOTABLE_FALL,
            mean=mean,
            spread=sqrt(max(sums.weighted_square / sums.weight - (sums.weighted / sums.weight) ** 2, 0.0)),
            margin=max(learned.margin if self._target is None else mean - self._target, _LEAST),
            threshold=self.threshold,
            evenness=sums.effective_count / sums.count,
        )

    def add(
        self, sample: Sample, share: float, history: Sequence[Sample], *, may_call: bool = True
    ) -> Change | None:
        """Add the last score of the history, with its share of the largest weight; may it call a drop now?"""
        if self._upward is not None:
            return self._while_dropped(self._upward, sample, share, history)
        value, limit = self.measure.goodness(sample.score), self._limit(self._baseline, sample)
        if limit is not None and self._downward.update(value, tolerated_mean=limit, share=share) and may_call:
            return self._drop(history)
        self.learn(sample)
        return None

    def learn(self, sample: Sample) -> None:
        """Learn from a score without testing it, as from the answers that a new baseline begins with."""
        value = self.measure.goodness(sample.score)
        weight, seconds = 1 / sample.probability, sample.occurred_at.timestamp()
        if self._target is None:
            self._season.add(seconds, value - self._within(sample), weight)
            if self.measure.within_parts:
                usual = value - self._season.swing(seconds, EVEN).offset
                self._mix.add(sample.part, usual, weight, count=self._baseline.sums.count)
        if self._baseline.add(value, sample.probability, seconds, self._season):
            self._mix.refit(self._baseline.sums.count)

    @property
    def usual(self) -> WeightedSums:
        """The sums of goodness that set the baseline."""
        return self._baseline.basis if self._baseline.learned else self._baseline.sums

    def as_usual(self, sample: Sample) -> tuple[float, float]:
        """Return a score's goodness without its offset from the baseline, and that offset's error."""
        usual = self._baseline.usual
        error = 0.0
        if self._target is None:
            error = self._season.swing(sample.occurred_at.timestamp(), usual).error
        return self.measure.goodness(sample.score) - self._offset(sample, usual), error

    def _within(self, sample: Sample) -> float:
        return self._mix.offset(sample.part) if self.measure.within_parts else 0.0

    def _offset(self, sample: Sample, usual: Waves) -> float:
        """Return the offset of such an answer's baseline mean from that of traffic with these mean waves."""
        if self._target is not None:
            return 0.0
        return self._within(sample) + self._season.swing(sample.occurred_at.timestamp(), usual).offset

    def _limit(self, baseline: GrowingBaseline, sample: Sample) -> float | None:
        """Return the mean tolerated for such an answer, lower if the season's error exceeds the margin."""
        if self._target is not None and baseline is self._baseline:
            return self._target
        if not baseline.learned:
            return None
        if self._target is not None:  # without a season
            return max(baseline.tolerated, _LEAST)
        doubt = ERRORS_TOLERATED * self._season.swing(sample.occurred_at.timestamp(), baseline.usual).error
        limit = baseline.tolerated + self._offset(sample, baseline.usual) - max(0.0, doubt - baseline.margin)
        return min(max(limit, _LEAST), 1 - _LEAST)

    def _drop(self, history: Sequence[Sample]) -> Change:
        usual_mean = self._baseline.mean
        if self._target is not None:
            # With a mean just below the target, only a few of the worst scores would seem the drop.
            usual_mean = max(self._target + self._least_drop, self._baseline.looked_at.mean or 0.0)
        change, most = self._change(self._downward, history, usual_mean=usual_mean)
        self._upward = ShiryaevRobertsEDetector(threshold=self.threshold)
        self._fall_to(change, most)
        self._season.forget_open_hour()
        return change

    def _fall_to(self, change: Change, most: float) -> None:
        """Learn the level since a drop, to detect a further fall; it is hardly above `most`."""
        self._relief = 0.0
        self._relieve(most)
        self._fallen = GrowingBaseline(self.first, self._least_drop)
        self._further.reset()
        self._fallen_mean = self.measure.scaled(change.current.mean)
        self.dropped_at = self.dropped_at or change.began_at

    def _while_dropped(
        self, upward: ShiryaevRobertsEDetector, sample: Sample, share: float, history: Sequence[Sample]
    ) -> Change | None:
        value = self.measure.goodness(sample.score)
        # The mirrored test with the same threshold, so that a mean near the limit does not flap.
        limit = max((self._limit(self._baseline, sample) or 0.0) - self._relief, _LEAST)
        if upward.update(1 - value, tolerated_mean=1 - limit, share=share):
            change, _ = self._change(upward, history, usual_mean=self._fallen_mean)
            self._upward = self.dropped_at = None
            self._downward.reset()
            return change
        lower = self._limit(self._fallen, sample)
        if lower is not None and self._further.update(value, tolerated_mean=lower, share=share):
            change, most = self._change(self._further, history, usual_mean=self._fallen.mean)
            self._fall_to(change, most)
            return change
        fallen = self._fallen
        if fallen.add(value, sample.probability, sample.occurred_at.timestamp(), self._season):
            if fallen.learned and self._target is None:
                self._relieve(fallen.mean + self._season.between(fallen.usual, self._baseline.usual).offset)
            elif fallen.looked_at.mean is not None:
                self._relieve(fallen.looked_at.mean)
        return None

    def _relieve(self, level: float) -> None:
        """Let a recovered mean be lower than tolerated, so that it does not flap, given the level since.

        By half of the fall beyond twice the smallest relevant one, to the middle of level and tolerated mean.
        """
        tolerated = self._target or self._baseline.tolerated
        self._relief = max(self._relief, (tolerated - level - 2 * self._least_drop) / 2)

    def _change(
        self, detector: ShiryaevRobertsEDetector, history: Sequence[Sample], *, usual_mean: float
    ) -> tuple[Change, float]:
        """Return the change, and the upper end of the interval of the level since, without season and mix."""
        measure, recovered, further = self.measure, detector is self._upward, detector is self._further
        sign, usual = -1 if recovered else 1, (self._fallen if further else self._baseline).usual
        latest_first = list(history)[::-1]
        values = [
            (measure.goodness(one.score) - self._offset(one, usual), one.probability) for one in latest_first
        ]

        def samples_since(most: int) -> int:
            weighted = ((sign * value, 1 / probability) for value, probability in values[:most])
            return samples_since_shift(weighted, normal_mean=sign * usual_mean)

        # Samples before the detector's own belong to the baseline or the previous state.
        remembered = min(detector.samples, len(values))
        count = samples_since(remembered) or remembered
        since = latest_first[:count]
        ends = WeightedSums.of(values[:count]).interval(lowest=0, highest=1)
        amounts = WeightedSums.of((measure.amount(one.score), one.probability) for one in since[::-1])
        current = estimate(amounts, lowest=measure.lowest, highest=measure.highest)
        baseline = self._reported(self._fallen.basis) if further else self.baseline
        if current is None or baseline is None or ends is None:
            raise AssertionError("a change is detected on a score, after the baseline")
        learning = detector is self._downward and self._has_learned_drop(latest_first, count, samples_since)
        worst = sorted(since, key=lambda one: measure.goodness(one.score))
        began_at = since[-1].occurred_at
        change = Change(
            kind="recovered" if recovered else "drop",
            measure=measure,
            further=further,
            baseline=baseline,
            learning=learning,
            current=current,
            statistic=detector.statistic,
            threshold=detector.threshold,
            detector=detector.name,
            began_at=began_at,
            dropped_at=began_at if further else self.dropped_at or began_at,
            or_earlier=count == remembered and (learning or remembered < detector.samples),
            example_event_ids=tuple(one.event_id for one in worst[:5]),
        )
        return change, ends[1]

    def _has_learned_drop(
        self, latest_first: Sequence[Sample], count: int, samples_since: Callable[[int], int]
    ) -> bool:
        """Whether the look that set the baseline has answers of the drop: just before it, or as late."""
        sums, stretch = self._baseline.sums, self._downward.samples
        if sums.count < stretch + self.first:  # the first drop: answers of the first look may belong to it
            stretch += self.first
        after = sums.count - self._baseline.basis.count + 1
        middle = sorted(one.occurred_at for one in latest_first[:count])[count // 2]
        late = any(one.occurred_at > middle for one in latest_first[after:stretch])
        return self._target is None and (late or samples_since(stretch) > after)

    def _reported(self, sums: WeightedSums) -> Estimate | None:
        found = estimate(sums, lowest=0, highest=1)
        if found is None:
            return None
        mean, *ends = map(self.measure.reported, (found.mean, found.low, found.high))
        return found.model_copy(update={"mean": mean, "low": min(ends), "high": max(ends)})


def estimate(sums: WeightedSums, *, lowest: float, highest: float) -> Estimate | None:
    mean, ends = sums.mean, sums.interval(lowest=lowest, highest=highest)
    return None if mean is None or ends is None else reported((mean, *ends), sums)


def reported(found: tuple[float, float, float], sums: WeightedSums, *, clustered: bool = False) -> Estimate:
    """Return mean and ends of an interval with the number of scores."""
    mean, low, high = found
    return Estimate(
        mean=min(max(mean, low), high),  # rounding may put it slightly outside the scale
        low=low,
        high=high,
        count=sums.count,
        effective_count=sums.effective_count,
        clustered=clustered,
    )
