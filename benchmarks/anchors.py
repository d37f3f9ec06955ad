"""Anchors: calls until a shift of the judge is found, and false calls, with unequal items and few of them.

A judge's scores of one item are drawn from the item's own law; a shift of d moves each score one point with
the probability that shifts the mean of all items by d.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from statistics import fmean, median
from typing import Final

from benchmarks.report import Line
from schemas import Anchor
from schemas.anchor import FIRST_JUDGEMENTS
from streams.monitoring.anchors import AnchorWatch, Enrolment
from streams.monitoring.config import mean_of

START: Final = datetime(2026, 9, 2, tzinfo=UTC)
SCORES: Final = (1, 2, 3, 4, 5)
MIN_CHANGE: Final = 0.08
"""Of the default `monitor.min_drop` of 0.1 on a scale five wide."""
LONGEST: Final = 3_000
EXAMPLE: Final = Anchor.model_validate_json(
    (Path(__file__).parents[1] / "schemas/examples/anchor/valid/bad.json").read_bytes()
)
Law = tuple[float, ...]
"""Weights of the scores of one item."""


def _around(score: int, step: float) -> Law:
    """Return a law that gives the score, or a neighbour with the probability `step` each."""
    return tuple(1 - 2 * step if one == score else step if abs(one - score) == 1 else 0.0 for one in SCORES)


LAWS: Final[dict[str, tuple[Law, ...]]] = {
    "a judge that varies little": tuple(_around(score, 0.08) for score in (1, 2, 3, 4, 4, 5, 5)),
    "a judge that varies much": tuple(_around(score, 0.3) for score in SCORES),
    "unequal: a fifth at random, the rest fixed": (
        (1, 0, 0, 0, 0), (0, 0, 1, 0, 0), (0, 0, 0, 1, 0), (0, 0, 0, 0, 1), (1, 1, 1, 1, 1),
    ),
    "skewed: good answers fall by 3 in 5%": (
        (0, 0.05, 0, 0, 0.95), (0, 0.05, 0, 0, 0.95), (0, 0.05, 0, 0, 0.95), (1, 0, 0, 0, 0),
    ),
}  # fmt: skip
"""The laws of the items, in equal shares."""


class Run:
    """One metric's anchors, enrolled and judged again in turn."""

    def __init__(self, random: Random, law: str, count: int) -> None:
        some = LAWS[law]
        self._random = random
        self._laws = random.choices(some, k=count)
        self._cumulated = [_cumulated(one) for one in self._laws]
        drawn = [[self._draw(place) for _ in range(FIRST_JUDGEMENTS)] for place in range(count)]
        self._anchors = [
            EXAMPLE.model_copy(update={"anchor_id": f"{place:032x}", "scores": tuple(map(float, scores))})
            for place, scores in enumerate(drawn)
        ]
        self.watch = AnchorWatch()
        enrolment = Enrolment(EXAMPLE.evaluator, START, {one.anchor_id: one for one in self._anchors})
        self.watch.configure(enrolment, mean_of(SCORES[0], SCORES[-1], min_drop=MIN_CHANGE))

    def _draw(self, place: int) -> int:
        return self._random.choices(SCORES, cum_weights=self._cumulated[place])[0]

    def calls(self, shift: float, most: int) -> int:
        """Return the calls until the judge's shift changes; the most without."""
        end, step = (1, -1) if shift < 0 else (5, 1)
        movable = fmean(1 - law[end - 1] / sum(law) for law in self._laws)
        chance, given = abs(shift) / movable, self.watch.calls
        for number in range(most):
            place = (given + number) % len(self._anchors)
            score = self._draw(place)
            if shift and score != end and self._random.random() < chance:
                score += step
            now = START + timedelta(seconds=given + number)
            if self.watch.add(self._anchors[place], float(score), now):
                return number + 1
        return most


def _cumulated(law: Law) -> list[float]:
    return [sum(law[: place + 1]) for place in range(len(law))]


def delays(seed: int, law: str, count: int, shift: float, runs: int, *, calm: int = 300) -> list[int]:
    """Return the calls until each run's shift is found, sorted; `LONGEST` if it is missed or misread."""
    found = []
    for number in range(runs):
        run = Run(Random(f"{seed} {law} {count} {shift} {number}"), law, count)  # noqa: S311 - repeatable
        steady = run.calls(0.0, calm) == calm and run.watch.shift == "steady"
        called = run.calls(shift, LONGEST)
        right = run.watch.shift == ("stricter" if shift < 0 else "kinder")
        found.append(called if steady and right else LONGEST)
    return sorted(found)


def false_calls(seed: int, law: str, count: int, runs: int, calls: int) -> int:
    """Return how many runs of an unchanged judge have a false call."""
    shifted = 0
    for number in range(runs):
        run = Run(Random(f"{seed} {law} {count} calm {number}"), law, count)  # noqa: S311 - repeatable
        run.calls(0.0, calls)
        shifted += run.watch.shift != "steady"
    return shifted


def run(
    seed: int = 20_260_902, *, runs: int = 40, calm_runs: int = 90, calls: int = 20_000
) -> Iterator[dict[str, object]]:
    """Measure; yields one record per number."""
    aims: Sequence[tuple[float, int | None]] = ((-0.5, 90), (0.5, 90), (-0.25, 420), (0.25, 420))
    for law in LAWS:
        for count in (100, 20):
            for shift, aim in aims:
                found = delays(seed, law, count, shift, runs)
                name = f"anchors: {count}, {law}: calls until a shift of {shift:+} is found, median"
                note = f"nine in ten within {found[len(found) * 9 // 10]}, first {found[0]}"
                typical = count == 100 and law == next(iter(LAWS))
                yield Line(
                    name,
                    median(found),
                    "calls",
                    aim=f"at most {aim}" if typical else None,
                    met=median(found) <= aim if typical and aim else None,
                    note=note,
                ).as_json()
            false = false_calls(seed, law, count, calm_runs, calls)
            yield Line(
                f"anchors: {count}, {law}: runs of {calls} calls without a shift that have a false call",
                false / calm_runs,
                "of the runs",
                aim="at most 0.02",
                met=false / calm_runs <= 0.02,
                note=f"{false} of {calm_runs}",
            ).as_json()
