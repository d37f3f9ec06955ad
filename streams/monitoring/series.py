"""One series of scores: what is normal for it, and whether it has fallen. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from schemas import Estimate
from streams.monitoring.statistics.changepoints import samples_since_shift
from streams.monitoring.statistics.detectors import Detector, ShiryaevRobertsEDetector
from streams.monitoring.statistics.estimators import WeightedSums
from streams.monitoring.statistics.windows import SlidingSums

HISTORY_SAMPLES = 500
"""Latest scores that a series remembers one by one. A fall that began before them is dated "or earlier"."""

RECENT_SAMPLES = 50
"""Latest scores that `SeriesSnapshot.recent` is about."""

EXAMPLES = 5
"""Events that an alert names."""

BASELINE_CONFIDENCE = 0.99
"""Of the interval whose lower end is tolerated at least; half of what is left over is the chance of a bad baseline."""

RECOVERY_SAMPLES = 500
"""Samples for each false all-clear that is allowed: it costs no more than a second alert, hence far fewer."""

SeriesState = Literal["learning", "watching", "dropped"]
"""learning: the baseline is not full; watching: no drop called; dropped: called, and not recovered since."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One score, as series remember it."""

    event_id: str
    score: float
    probability: float
    occurred_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesRules:
    """By what a series is watched.

    Attributes:
        lowest: Lowest score.
        highest: Highest score.
        target: The lowest mean that is all right, in points; None learns one.
        baseline_samples: Scores to learn it from.
        min_drop: Smallest fall that matters, in points.
        threshold: Scores of this series for each false alarm that is allowed.
        largest_weight: The inverse of the smallest inclusion probability; None learns it.
        window_seconds: Length of the sliding window.
    """

    lowest: float
    highest: float
    target: float | None
    baseline_samples: int
    min_drop: float
    threshold: float
    largest_weight: float | None
    window_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A drop, or a recovery from one.

    Attributes:
        kind: Which.
        baseline: What was normal; of a count of 0 where it is a configured target.
        current: Since the change.
        statistic: Of the test that called it.
        threshold: Of the same test.
        detector: Its name.
        began_at: When the change seems to have begun, by the answers' own time.
        dropped_at: When the drop seems to have begun; `began_at` for a drop.
        or_earlier: The change seems to have begun before the remembered scores, so `began_at` is their first.
        example_event_ids: The worst since, the worst first and the later first among equals.
    """

    kind: Literal["drop", "recovered"]
    baseline: Estimate
    current: Estimate
    statistic: float
    threshold: float
    detector: str
    began_at: datetime
    dropped_at: datetime
    or_earlier: bool
    example_event_ids: tuple[str, ...]


class Series:
    """The scores of one metric, by one evaluator, for one part of the traffic, in order of arrival.

    Args:
        rules: By what it is watched.
    """

    __slots__ = (
        "_baseline",
        "_downward",
        "_dropped_at",
        "_fallen_mean",
        "_history",
        "_largest_weight",
        "_rules",
        "_tolerated",
        "_total",
        "_upward",
        "_usual_mean",
        "_window",
    )

    def __init__(self, rules: SeriesRules) -> None:
        self._rules = rules
        self._total = WeightedSums()
        self._window = SlidingSums(rules.window_seconds)
        self._history: deque[Sample] = deque(maxlen=HISTORY_SAMPLES)
        self._largest_weight = rules.largest_weight or 1.0
        self._tolerated = rules.target
        self._baseline = None if rules.target is None else _target_estimate(rules.target)
        self._downward: Detector | None = None if rules.target is None else self._detector(rules.target)
        self._upward: Detector | None = None
        # Against these the begin of a change is placed. A target alone would not do: where the mean is only a little
        # below it, a few of the worst scores would pass for all of the drop.
        self._usual_mean = 0.0 if rules.target is None else rules.target + rules.min_drop
        self._fallen_mean = rules.lowest
        self._dropped_at: datetime | None = None

    @property
    def state(self) -> SeriesState:
        """Where it stands."""
        if self._baseline is None:
            return "learning"
        return "watching" if self._upward is None else "dropped"

    @property
    def baseline(self) -> Estimate | None:
        """What is normal; None while learning."""
        return self._baseline

    @property
    def tolerated_mean(self) -> float | None:
        """The lowest mean that is all right, in points; None while learning."""
        return self._tolerated

    @property
    def dropped_at(self) -> datetime | None:
        """When the drop seems to have begun; None unless dropped."""
        return self._dropped_at

    @property
    def statistic(self) -> float:
        """Evidence for a drop. While dropped, what it was when the drop was called."""
        return 0.0 if self._downward is None else self._downward.state.statistic

    @property
    def total(self) -> Estimate | None:
        """Over all scores; None without any."""
        return self._estimate(self._total)

    @property
    def recent(self) -> Estimate | None:
        """Over the latest scores; None without any."""
        return self._estimate(_sums(list(self._history)[-RECENT_SAMPLES:]))

    def window(self, now: datetime) -> Estimate | None:
        """Over the answers given lately; None without any."""
        return self._estimate(self._window.total(now))

    def add(self, sample: Sample, now: datetime) -> Change | None:
        """Take one score, and tell if it decides that something changed."""
        self._total = self._total.add(sample.score, sample.probability)
        self._window.add(sample.score, sample.probability, occurred_at=sample.occurred_at, now=now)
        self._history.append(sample)
        weight = 1 / sample.probability
        self._largest_weight = max(self._largest_weight, weight)
        learning = self._baseline is None
        if self._total.count == self._rules.baseline_samples:
            self._learn()
        return None if learning else self._test(sample, weight)

    def _test(self, sample: Sample, weight: float) -> Change | None:
        share = (sample.score - self._rules.lowest) / (self._rules.highest - self._rules.lowest)
        if self._upward is not None:
            return self._recover(self._upward, 1 - share, weight)
        if self._downward is not None:
            return self._drop(self._downward, share, weight)
        return None

    def _learn(self) -> None:
        """Close the baseline and say what is tolerated.

        A mean is tolerated down to the smallest fall that matters, or down to the lower end of the baseline's
        interval where that is lower: a mean that may never have been higher is not a fall.
        """
        rules = self._rules
        mean = self._total.mean
        ends = self._total.interval(
            lowest=rules.lowest, highest=rules.highest, confidence=BASELINE_CONFIDENCE
        )
        if mean is None or ends is None:
            return
        self._usual_mean = max(self._usual_mean, mean)
        if rules.target is not None:
            return
        self._baseline = self._estimate(self._total)
        self._tolerated = max(min(mean - rules.min_drop, ends[0]), rules.lowest)
        if self._tolerated > rules.lowest:
            self._downward = self._detector(self._tolerated)

    def _detector(self, tolerated: float) -> Detector:
        return ShiryaevRobertsEDetector(
            tolerated_mean=(tolerated - self._rules.lowest) / (self._rules.highest - self._rules.lowest),
            threshold=self._rules.threshold,
            largest_weight=self._largest_weight,
        )

    def _drop(self, detector: Detector, share: float, weight: float) -> Change | None:
        if not detector.update(share, weight).alarm:
            return None
        # The same test upside down: for a recovery it has to be shown that the mean is above the tolerated one.
        # Between the two stands the evidence that either needs, so a mean near the limit does not flap.
        tolerated = self._tolerated if self._tolerated is not None else self._rules.lowest
        self._upward = ShiryaevRobertsEDetector(
            tolerated_mean=(self._rules.highest - tolerated) / (self._rules.highest - self._rules.lowest),
            threshold=RECOVERY_SAMPLES,
            largest_weight=self._largest_weight,
        )
        change = self._change("drop", detector)
        self._dropped_at = change.began_at
        self._fallen_mean = change.current.mean
        return change

    def _recover(self, detector: Detector, share: float, weight: float) -> Change | None:
        if not detector.update(share, weight).alarm:
            return None
        change = self._change("recovered", detector)
        self._upward = None
        self._dropped_at = None
        if self._downward is not None:
            self._downward.reset()
        return change

    def _change(self, kind: Literal["drop", "recovered"], detector: Detector) -> Change:
        state = detector.state
        # Before the detector's own samples nothing was in question: they were the baseline, or the state before.
        remembered = list(self._history)[-state.samples :]
        sign, normal_mean = (1, self._usual_mean) if kind == "drop" else (-1, self._fallen_mean)
        suspected = samples_since_shift(
            ((sign * sample.score, 1 / sample.probability) for sample in reversed(remembered)),
            normal_mean=sign * normal_mean,
        )
        since = remembered[-suspected:]  # all of them, should none stand out
        current = self._estimate(_sums(since))
        if current is None or self._baseline is None:
            raise AssertionError("a change is called by a score, and after the baseline")
        began_at = since[0].occurred_at
        latest_first = since[::-1]
        worst = sorted(latest_first, key=lambda sample: sample.score)
        return Change(
            kind=kind,
            baseline=self._baseline,
            current=current,
            statistic=state.statistic,
            threshold=state.threshold,
            detector=detector.name,
            began_at=began_at,
            dropped_at=self._dropped_at or began_at,
            or_earlier=len(since) == len(remembered) < state.samples,
            example_event_ids=tuple(sample.event_id for sample in worst[:EXAMPLES]),
        )

    def _estimate(self, sums: WeightedSums) -> Estimate | None:
        mean = sums.mean
        ends = sums.interval(lowest=self._rules.lowest, highest=self._rules.highest)
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


def _sums(samples: Iterable[Sample]) -> WeightedSums:
    return WeightedSums.of((sample.score, sample.probability) for sample in samples)


def _target_estimate(target: float) -> Estimate:
    """A configured target in the place of a baseline: exact, and resting on no score."""
    return Estimate(mean=target, low=target, high=target, count=0, effective_count=0)
