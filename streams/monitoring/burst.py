"""Tell whether the product or the judge moved: old answers, drawn at random, are judged again. Pure.

D is by how much the judge of today scores old answers worse than it did; F by how much live answers score
worse than usual; R = F - D by how much the answers themselves are worse. All on the scale [0, 1], where
more is worse.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from hashlib import blake2b
from math import sqrt
from random import Random
from typing import Final, Literal, NamedTuple

from judge.text.printable import printable
from schemas import Alert, JudgeCall, Result, Scored, Shift, Word
from streams.monitoring.config import MIX, Measure
from streams.monitoring.statistics.estimators import WeightedSums

REJUDGED: Final = 160
"""Old answers that a burst judges again."""
KEPT: Final = 400
"""Old answers whose places are kept per metric."""
SPAN: Final = 2_000
"""Beyond this many answers the kept ones are mostly of the last ones, which their topic still has."""
LEFT_OUT: Final = 100
"""Answers just before a fall that are not judged again: the start of the fall is an estimate."""
LIVE: Final = 250
"""Live answers after an alert that are compared with the usual ones."""
LONGEST: Final = timedelta(hours=12)
"""After this time the word is said with what is known."""
NAMES: Final = 20
"""Names of a judge that are remembered; a further one begins no burst."""
ERRORS: Final = 2.24
"""Half the length of an interval in standard errors: 97.5% each, so that both hold with 95%."""
NOTABLE: Final = 0.05
"""The smallest shift worth a word: 0.25 points of a scale five wide."""
FEWEST: Final = 30
"""Answers of either kind below which nothing is said."""

Verdict = Literal["product", "judge", "both", "unclear"]


@dataclass(frozen=True, slots=True)
class Difference:
    """A mean difference, its variance, and the number of answers it is from."""

    mean: float
    variance: float
    count: int

    @property
    def low(self) -> float:
        return self.mean - ERRORS * sqrt(self.variance)

    @property
    def high(self) -> float:
        return self.mean + ERRORS * sqrt(self.variance)

    def minus(self, other: Difference) -> Difference:
        """Return the difference of two, as if independent: the answers they share only lower its variance."""
        return Difference(self.mean - other.mean, self.variance + other.variance, self.count)


def difference_of(sums: WeightedSums) -> Difference | None:
    """Return a mean with its variance; None of too few answers."""
    mean, variance = sums.mean, sums.cautious_variance()
    if sums.count < FEWEST or mean is None or variance is None:
        return None
    return Difference(mean, variance, sums.count)


def fall(usual: WeightedSums, since: WeightedSums, *, season_error: float = 0.0) -> Difference | None:
    """Return F, the usual mean minus that of live answers; None if there are too few.

    `since` is without the answers' offsets from the baseline, whose standard error, which the answers of one
    time share, is `season_error`.
    """
    before, after = difference_of(usual), difference_of(since)
    if before is None or after is None:
        return None
    moved = before.minus(after)
    return Difference(moved.mean, moved.variance + season_error * season_error, after.count)


def verdict(judge: Difference | None, product: Difference | None) -> Verdict:
    """Return what moved: the judge by a notable and certain D, the product by a certain R."""
    moved = judge is not None and judge.low > 0 and judge.mean > NOTABLE
    fell = product is not None and product.low > 0
    return "both" if moved and fell else "judge" if moved else "product" if fell else "unclear"


def is_fine(product: Difference | None) -> bool:
    """Whether the product's answers are certainly not notably worse."""
    return product is not None and product.high < NOTABLE


class Pick(NamedTuple):
    """An old answer: its number in the series, its task's place, and its score."""

    number: int
    partition: int
    offset: int
    event_id: str
    score: float
    probability: float


@dataclass
class OldAnswers:
    """A random sample of a series' answers. The randomness is a hash of the result, so it is repeatable."""

    seen: int = 0
    picks: list[Pick] = field(default_factory=list)

    def add(self, result: Scored) -> None:
        self.seen += 1
        if result.task is None:  # of a release that did not say it
            return
        task, probability = result.task, result.sampling.probability
        one = Pick(self.seen, task.partition, task.offset, result.event_id, result.amount, probability)
        chance = int.from_bytes(blake2b(result.result_id.encode(), digest_size=8).digest())
        if len(self.picks) < KEPT:
            self.picks.append(one)
        elif chance % min(self.seen, SPAN) < KEPT:
            self.picks[(chance >> 32) % KEPT] = one

    def draw(self, replay_id: str, most: int, *, newest: int) -> list[Pick]:
        old = {one.event_id: one for one in self.picks if one.number <= newest}
        drawn = Random(replay_id).sample(sorted(old), min(most, len(old)))  # noqa: S311 - repeatable
        return sorted(old[name] for name in drawn)


@dataclass
class Burst:
    """Old answers that are being judged again, and the live ones since: all observations, so repeatable."""

    replay_id: str
    measure: str
    since: datetime
    alert: Alert | None = None
    """The alert that the word is about; None: the judge changed its name."""
    usual: WeightedSums = field(default_factory=WeightedSums)
    """Of the baseline's goodness."""
    picks: list[Pick] = field(default_factory=list)
    changes: dict[str, float | None] = field(default_factory=dict)
    """By event id, old minus new goodness; None: it could not be judged again."""
    live: WeightedSums = field(default_factory=WeightedSums)
    """Goodness of live answers, without their offsets; `errors` sums their weighted errors."""
    errors: float = 0.0

    @property
    def missing(self) -> list[Pick]:
        return [one for one in self.picks if one.event_id not in self.changes]

    def add_live(self, goodness: float, error: float, probability: float) -> None:
        if self.alert is not None and self.live.count < LIVE:
            self.live = self.live.add(goodness, probability)
            self.errors += error / probability

    def add_again(self, result: Result, measure: Measure) -> None:
        old = next((one for one in self.picks if one.event_id == result.event_id), None)
        if old is not None:
            score = result.amount if isinstance(result, Scored) else None
            again = None if score is None else measure.goodness(old.score) - measure.goodness(score)
            self.changes.setdefault(old.event_id, again)

    def is_due(self, now: datetime) -> bool:
        complete = not self.missing and (self.alert is None or self.live.count >= LIVE)
        return complete or now - self.since >= LONGEST

    def judge(self) -> Difference | None:
        known = ((one.probability, self.changes.get(one.event_id)) for one in self.picks)
        return difference_of(
            WeightedSums.of((change, probability) for probability, change in known if change is not None)
        )

    def word(self, measure: Measure, now: datetime) -> Word:
        judge = self.judge()
        error = self.errors / self.live.weight if self.live.count else 0.0
        fell = fall(self.usual, self.live, season_error=error)
        product = None if judge is None or fell is None else fell.minus(judge)
        said = verdict(judge, product)
        return Word(
            said=said,
            judge=_shift(judge, measure),
            product=_shift(product, measure),
            product_is_fine=is_fine(product),
            decided_at=now,
            text=_text(said, judge, product, measure),
        )


@dataclass
class Names:
    """The names under which a judge answered, and what a burst said of the latest."""

    first_at: dict[str, datetime] = field(default_factory=dict)
    said: str = ""

    def is_new(self, call: JudgeCall | None, now: datetime) -> bool:
        """Remember a call's model and build; return whether they are others than the first."""
        if call is None or call.cached:
            return False
        build = "" if call.system_fingerprint is None else f" ({printable(call.system_fingerprint, 80)})"
        name = printable(call.model_answered, 80) + build
        if name in self.first_at or len(self.first_at) >= NAMES:
            return False
        self.first_at[name] = now
        self.said = ""
        return len(self.first_at) > 1

    @property
    def note(self) -> str | None:
        if len(self.first_at) < 2:
            return None
        *_, (before, _), (name, first_at) = self.first_at.items()
        since = f"the judge answers as {name} since {first_at:%Y-%m-%d %H:%M} UTC, before as {before}"
        return f"{since}: {self.said}" if self.said else since


def told(judge: Difference | None, measure: Measure) -> str:
    if judge is None:
        return "too few old answers could be judged again"
    same = "" if judge.low > 0 or judge.high < 0 else "the same, "
    return f"it scores {judge.count} old answers {same}{_points(judge, measure)}"


def _shift(one: Difference | None, measure: Measure) -> Shift | None:
    if one is None:
        return None
    mean, low, high = (measure.width * value for value in (one.mean, one.low, one.high))
    return Shift(mean=mean, low=low, high=high, count=one.count)


def _points(one: Difference, measure: Measure) -> str:
    """Return a difference as "0.50 lower (97.5% interval 0.31 to 0.69)"."""
    mean, low, high = (measure.width * value for value in (one.mean, one.low, one.high))
    words = ("lower", "higher") if measure.worse == "down" else ("higher", "lower")
    if mean < 0:
        mean, low, high, words = -mean, -high, -low, words[::-1]
    of = "with a share " if measure.is_share else ""
    return f"{of}{mean:.2f} {words[0]} (97.5% interval {low:.2f} to {high:.2f})"


_WORDS: Final[Mapping[Verdict, str]] = {
    "judge": "the judge moved",
    "product": "the product moved, not the judge",
    "both": "both the judge and the product moved",
    "unclear": "unclear whether the product or the judge moved",
}


def _text(said: Verdict, judge: Difference | None, product: Difference | None, measure: Measure) -> str:
    if judge is None or product is None:
        few = f"fewer than {FEWEST} {'old' if judge is None else 'live'} answers were judged"
        rest = "" if judge is None else f"; the judge {told(judge, measure).removeprefix('it ')}"
        return f"{_WORDS[said]}{rest}; of the product nothing is known: {few}"
    word = _WORDS[said]
    if said == "unclear" and is_fine(product) and judge.high < NOTABLE:
        word = "neither moved notably"
    elif said in ("judge", "unclear") and is_fine(product):
        word = f"{word}; the product is fine"
    elif said == "judge":
        word = f"{word}; whether the product did, too, is unclear"
    return (
        f"{word}: the judge scores {judge.count} old answers {_points(judge, measure)}, and without that "
        f"{product.count} live answers are {_points(product, measure)}"
    )


def has_word(alert: Alert) -> bool:
    """Whether an alert gets a word: a first drop of all traffic, not by its mix of labels."""
    return alert.kind == "drop" and not (alert.labels or alert.further or alert.measure == MIX)
