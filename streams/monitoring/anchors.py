"""Whether the judge has shifted: frozen answers, judged again and compared with their first scores. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from math import sqrt
from statistics import fmean, variance
from typing import Final, Literal, Self

from schemas import ANCHOR, Anchor, Estimate, Evaluator, JudgeTask, Result, result_id
from streams.monitoring.config import Measure
from streams.monitoring.statistics.estimators import IMAGINED_SQUARE, WeightedSums
from streams.monitoring.watch import Sample, Watch, estimate

EVERY: Final = 20
"""Live results of a metric for each anchor that is judged again."""
FEWEST: Final = 20
"""Fewest anchors of a metric: the error of fewer first means hides any relevant shift."""
CALLS_PER_FALSE_ALARM: Final = 20_000
REMEMBERED: Final = 500
"""Latest calls that are kept, for the start of a shift and the mean difference."""
ERRORS_TOLERATED: Final = 2.6
"""Standard errors of the first means that are tolerated; one-sided 0.5%."""
ERRORS_SHOWN: Final = 1.96
LARGEST_TOLERATED: Final = 0.45
"""Largest tolerated mean difference, as a share of the scale; the test's range ends at a half."""

Shift = Literal["stricter", "steady", "kinder"]
SHIFTS: Final[Mapping[Shift, float]] = {"stricter": -1.0, "steady": 0.0, "kinder": 1.0}
_NEVER: Final = datetime.min.replace(tzinfo=UTC)


def first_error(scores: Sequence[Sequence[float]], width: float) -> float:
    """Return the standard error of the mean of all anchors' first means.

    With K anchors, s² the variance among the n first scores of each, and w the width of the scale:

        sqrt(sum of s² / (K² n) + 0.75 w² / (K n)²)

    The second term is that of `WeightedSums.interval`.
    """
    count = sum(map(len, scores))
    of_mean = sum(variance(one) * len(one) for one in scores) / count**2
    return sqrt(of_mean + IMAGINED_SQUARE * (width / count) ** 2)


def clipped_mean(scores: Sequence[Sequence[float]], reach: float) -> float:
    """Estimate, from each anchor's first scores, how clipping differences at the reach lowers their mean."""
    others = (
        one - (sum(group) - one) / (len(group) - 1) for group in scores for one in group if len(group) > 1
    )
    return fmean(max(difference - reach, 0.0) for difference in others)


@dataclass(frozen=True, slots=True)
class Enrolment:
    """The valid anchors of a metric: those enrolled last, together; by id, in their turn."""

    evaluator: Evaluator
    since: datetime
    anchors: Mapping[str, Anchor]

    @classmethod
    def of(cls, anchors: Iterable[Anchor]) -> Self:
        known = sorted(anchors, key=lambda one: one.anchor_id)
        latest = max(known, key=lambda one: one.enrolled_at)
        valid = {one.anchor_id: one for one in known if one.enrolled_at == latest.enrolled_at}
        return cls(latest.evaluator, latest.enrolled_at, valid)

    @property
    def name(self) -> str:
        """The beginning of the replay ids of its tasks."""
        return f"{ANCHOR}{self.since.astimezone(UTC):%Y%m%dT%H%M%S.%fZ}-"

    def turn(self, number: int) -> tuple[JudgeTask, str]:
        """Return the task whose turn it is at this number, from 1, and the replay id to judge it under."""
        anchors = list(self.anchors.values())
        return anchors[(number - 1) % len(anchors)].task, f"{self.name}{number}"


def anchor_id(answer: Result | JudgeTask) -> str:
    """Return the id of an answer's anchor: that of its live result."""
    topic, event_id = answer.source.topic, answer.event_id
    return result_id(topic=topic, event_id=event_id, metric=answer.metric, replay_id=None)


@dataclass
class AnchorWatch:
    """The anchors of one metric and evaluator: which is due, and a test of their differences per direction.

    A difference is that of the new score from the anchor's first mean. Both tests are the monitor's, with a
    fixed target.

    **What is tolerated.** An anchor's first mean misses its true one by an error that stays. So the mean
    difference of an unchanged judge over all anchors is minus the mean of these errors instead of 0: 2.6 of
    its standard errors are tolerated, and at least the smallest relevant change. With unequal errors the
    expectation of the next difference depends on whose turn it is. The test's bound needs only that the mean
    product of k factors is at most 1, over the order of the turn, that of the ids, which are hashes: by
    Maclaurin's inequality the mean product of k out of K positive numbers is at most the k-th power of their
    mean.

    **Range.** Few differences exceed half the width of the scale. So a test counts those in the direction
    that it does not look for up to half of it, which doubles its bets; by how much this shifts the mean of an
    unchanged judge is added to what is tolerated.
    """

    since: datetime = _NEVER
    """That of the enrolment; a later one starts over."""
    live: int = 0
    """Live results since an anchor was given out."""
    given: int = 0
    """Anchors given out to be judged again."""
    calls: int = 0
    """Those that were scored."""
    error: float = 0.0
    width: float = 1.0
    tests: dict[Shift, Watch] = field(default_factory=dict)
    history: deque[Sample] = field(default_factory=deque)

    def configure(self, enrolment: Enrolment, mean: Measure) -> None:
        """Continue with these anchors; a stricter judge moves the mean to the worse."""
        self.history = deque(self.history, maxlen=REMEMBERED)
        scores: list[Sequence[float]] = [one.scores for one in enrolment.anchors.values()]
        mirrored = [[-one for one in some] for some in scores]
        width = self.width = mean.width
        self.error = first_error(scores, width)
        tolerated = max(mean.min_change, ERRORS_TOLERATED * self.error)
        lower: tuple[Shift, Shift] = ("kinder", "stricter") if mean.worse == "up" else ("stricter", "kinder")
        for name, sign in zip(lower, (-1, 1), strict=True):
            clipped = clipped_mean(scores if sign < 0 else mirrored, width / 2)
            target = sign * min(tolerated + clipped, LARGEST_TOLERATED * width)
            measure = Measure(
                name=name,
                lowest=-width / 2,
                highest=width / 2,
                worse="down" if sign < 0 else "up",
                min_change=tolerated,
                target=target,
                within_parts=False,
            )
            test = self.tests.setdefault(name, Watch(measure, FEWEST, 2 * CALLS_PER_FALSE_ALARM))
            test.configure(measure, FEWEST, 2 * CALLS_PER_FALSE_ALARM)

    def is_due(self) -> bool:
        """Count a live result; return whether an anchor is due."""
        self.live += 1
        if self.live < EVERY:
            return False
        self.live, self.given = 0, self.given + 1
        return True

    def add(self, anchor: Anchor, score: float, now: datetime) -> bool:
        """Add the score of an anchor that was judged again; return whether the judge's `shift` changed."""
        before, difference = self.shift, score - fmean(anchor.scores)
        sample = Sample(anchor.anchor_id, difference, 1.0, now)
        self.history.append(sample)
        self.calls += 1
        for test in self.tests.values():
            end = self.width / 2
            counted = min(difference, end) if test.measure.worse == "down" else max(difference, -end)
            test.add(sample._replace(score=counted), 1.0, self.history)
        return self.shift != before

    @property
    def shift(self) -> Shift:
        """In which direction the judge has shifted; of both the later."""
        found = [(test.dropped_at, name) for name, test in self.tests.items() if test.dropped_at is not None]
        return max(found)[1] if found else "steady"

    @property
    def shifted_at(self) -> datetime | None:
        return None if self.shift == "steady" else self.tests[self.shift].dropped_at

    @property
    def difference(self) -> Estimate | None:
        """Of the latest calls since the shift; the 95% interval includes the first means' error."""
        since = self.shifted_at or _NEVER
        sums = WeightedSums.of((fmean(one.scores), 1.0) for one in self.history if one.occurred_at >= since)
        found = estimate(sums, lowest=-self.width, highest=self.width)
        if found is None:
            return None
        first = ERRORS_SHOWN * self.error
        low = found.mean - sqrt((found.mean - found.low) ** 2 + first**2)
        high = found.mean + sqrt((found.high - found.mean) ** 2 + first**2)
        return found.model_copy(update={"low": max(low, -self.width), "high": min(high, self.width)})

    @property
    def numbers(self) -> Mapping[str, float]:
        found = self.difference
        ends = {} if found is None else {"mean": found.mean, "low": found.low, "high": found.high}
        return {"calls": self.calls, "shifted": SHIFTS[self.shift], **ends}

    @property
    def words(self) -> str:
        """What is known of the judge, such as "stricter by 0.41 since 2026-03-14 12:00 UTC"."""
        found, since = self.difference, self.shifted_at
        if found is None or since is None:
            return "steady" if self.calls else "no calls yet"
        return f"{self.shift} by {abs(found.mean):.2f} since {since.astimezone(UTC):%Y-%m-%d %H:%M UTC}"

    @property
    def note(self) -> str | None:
        return None if self.shift == "steady" else f"on its anchors the judge is {self.words}"
