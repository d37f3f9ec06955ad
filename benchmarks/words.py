"""The word on an alarm: how often it is right when the judge, the product, both or neither moved.

Answers have a quality of their own; a judge's score of one is that quality plus noise, rounded at random
to a whole point of 1 to 5, so that it scores an answer again differently. Then the quality of new
answers falls, or the judge becomes stricter, or both. The monitor is the worker's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from math import floor, pi, sin
from random import Random
from typing import Final

from benchmarks.report import Line
from schemas import Alert, Evaluator, Sampling, Scored, Source, Times, Word
from streams.monitoring.config import MonitorConfig
from streams.monitoring.monitor import Monitor

START: Final = datetime(2026, 9, 2, tzinfo=UTC)
CONFIG: Final = MonitorConfig(labels=(), score_ranges={"m": (1.0, 5.0)})
EVALUATOR: Final = Evaluator.model_validate(
    {"fingerprint": "f", "prompt": "p", "schema": "s", "scoring": "1", "model": "judge-1"}
)
LONGEST: Final = 4_000
"""Answers after the change until an alarm and its word."""
DELAY: Final = 30
"""Live answers until the old ones are judged again."""


@dataclass(frozen=True)
class Case:
    """What moves, in points; `part`: the judge moves on one of two label values only, by twice as much."""

    name: str
    right: str
    product: float = 0.0
    judge: float = 0.0
    part: bool = False
    season: bool = False
    weights: bool = False
    learned: int = 900

    def said(self, word: Word | None) -> str:
        if word is None:
            return "no alarm"
        return f"{word.said}, product fine" if word.product_is_fine else word.said


CASES: Final = (
    *(Case(f"judge -{size:g}", "judge", judge=size) for size in (0.25, 0.5, 1.0)),
    *(Case(f"product -{size:g}", "product", product=size) for size in (0.25, 0.5, 1.0)),
    Case("both -0.5", "both", product=0.5, judge=0.5),
    Case("neither", "unclear"),
    Case("judge -1 on one of two label values", "judge", judge=0.5, part=True),
    *(
        Case(f"{what} -0.5, {how}", what, **{what: 0.5}, **further)  # type: ignore[arg-type]
        for what in ("judge", "product")
        for how, further in (
            ("unequal weights", {"weights": True}),
            ("season", {"season": True, "learned": 2_400}),
            ("season and weights", {"season": True, "weights": True, "learned": 2_400}),
        )
    ),
)


@dataclass
class Run:
    """One simulation of a case."""

    case: Case
    random: Random
    monitor: Monitor = field(default_factory=lambda: Monitor(CONFIG))
    qualities: dict[str, tuple[float, str]] = field(default_factory=dict)

    def word(self) -> tuple[Alert | None, Word | None]:
        """Return the first alarm of the mean or of a share after the change, and its word."""
        learned = self.case.learned + self.random.randrange(300)
        for number in range(learned):
            self.live(number, moved=False)
        if any(one.state == "dropped" for one in next(iter(self.monitor.series.values())).watches):
            return None, None  # a false alarm before the change
        asked: dict[str, int] = {}
        first: Alert | None = None
        for number in range(learned, learned + LONGEST):
            alerts = [*self.live(number, moved=True), *self.again(number, asked)]
            first = first or next(iter(alerts), None)
            for alert in alerts:
                if alert.word is not None:
                    return first, alert.word
        return first, None

    def again(self, number: int, asked: dict[str, int]) -> Iterator[Alert]:
        """Judge the old answers again that were asked for some answers ago."""
        for burst in list(next(iter(self.monitor.series.values())).bursts.values()):
            if number - asked.setdefault(burst.replay_id, number) == DELAY:
                for pick in burst.missing:
                    score = self.judged(*self.qualities[pick.event_id], moved=True)
                    one = self.result(pick.event_id, score, number, burst.replay_id, pick.probability)
                    yield from self.monitor.observe(one, one.times.judged_at)

    def live(self, number: int, *, moved: bool) -> list[Alert]:
        part = self.random.choice("ab")
        low = self.case.weights and self.random.random() < 0.2
        swing = 0.25 * sin(2 * pi * number / 720) if self.case.season else 0.0
        quality = self.random.gauss(3.4 if low else 3.8, 0.7) + swing - (self.case.product if moved else 0.0)
        rate = 1.0 if low or not self.case.weights else 0.2
        event_id = f"e{number}"
        self.qualities[event_id] = (quality, part)
        score = self.judged(quality, part, moved=moved)
        one = self.result(event_id, score, number, None, rate)
        return self.monitor.observe(one, one.times.judged_at)

    def judged(self, quality: float, part: str, *, moved: bool) -> int:
        stricter = self.case.judge if moved else 0.0
        if self.case.part:
            stricter *= 2 * (part == "a")
        return min(max(floor(quality - stricter + self.random.gauss(0, 0.3) + self.random.random()), 1), 5)

    def result(self, event_id: str, score: int, number: int, replay_id: str | None, rate: float) -> Scored:
        moment = START + timedelta(seconds=(120 if self.case.season else 2) * number)
        return Scored.model_construct(
            result_id=sha256(f"{self.random.random()} {event_id} {replay_id}".encode()).hexdigest()[:32],
            event_id=event_id,
            replay_id=replay_id,
            labels={},
            metric="m",
            source=Source(topic="t", partition=0, offset=number),
            task=Source(topic="judge.tasks.m", partition=0, offset=number),
            evaluator=EVALUATOR,
            judge=None,
            sampling=Sampling(probability=rate, stratum="default" if rate < 1 else "low", policy="p"),
            times=Times(occurred_at=moment, sampled_at=moment, judged_at=moment),
            status="scored",
            verdict={"score": score},
            score=score,
            kind="integer",
            value=None,
        )


def words(case: Case, runs: int, *, seed: int = 202611) -> Counter[str]:
    """Return how often each word was said of runs whose alarm came after the change."""
    random = Random(f"{case.name} {seed}")  # noqa: S311 - repeatable
    found: Counter[str] = Counter()
    for _ in range(runs):
        alert, word = Run(case, random).word()
        if alert is None and word is None:
            found["no alarm"] += 1
        else:
            found[case.said(word)] += 1
    return found


def run(runs: int = 200) -> Iterator[dict[str, object]]:
    """Measure; yields one record a case."""
    for case in CASES:
        found = words(case, runs)
        alarms = runs - found["no alarm"]
        right = sum(number for word, number in found.items() if word.split(",")[0] == case.right)
        fine = sum(number for word, number in found.items() if word.endswith("fine") and case.product)
        aimed = "-0.25" not in case.name and case.right != "unclear"
        yield Line(
            f"word: {case.name}",
            right / alarms if alarms else None,
            "of the alarms",
            aim="at least 0.95; product falsely fine in at most 0.025" if aimed else None,
            met=right >= 0.95 * alarms and fine <= 0.025 * alarms if aimed else None,
            note="; ".join(f"{number} {word}" for word, number in found.most_common()),
        ).as_json()
