"""Two-phase judging: bias, coverage and cost of the strong judge's mean, for cheap judges of every kind."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from math import sqrt
from random import Random
from statistics import fmean, stdev
from typing import Final

from benchmarks.report import Line
from judge.endpoints.panel import best_share, cost_ratio, draw
from streams.monitoring.config import MonitorConfig
from streams.monitoring.statistics.estimators import WeightedSums
from streams.monitoring.statistics.strata import estimate_strata
from streams.monitoring.two_phase import Pair, TwoPhase, as_strong

START: Final = datetime(2026, 3, 2, 12, tzinfo=UTC)
SCALE: Final = (1, 2, 3, 4, 5)
GOOD: Final = (3, 4, 10, 28, 55)
PRICE_RATIO: Final = 0.05
MEASURE: Final = MonitorConfig(score_ranges={"relevance": (1, 5)}).measures("relevance")[0]


@dataclass(frozen=True)
class Kind:
    """A cheap judge: what it says of an answer to which the strong one gives `score`."""

    name: str
    share: float = 0.1
    correlation: float | None = None
    fails: float = 0.0
    """Share of the strong judge's answers without a verdict."""

    def says(self, score: int, chance: Random) -> float:
        if self.name == "constant":
            return 4.0
        if self.name == "lies":
            return 6.0 - score
        if self.name == "kinder by 1":
            return min(score + 1.0, 5.0)
        same = self.correlation or 0.0  # else another answer's score: the two correlate so much
        return float(score if chance.random() < same else chance.choices(SCALE, GOOD)[0])


KINDS: Final = (
    Kind("constant"),
    Kind("lies"),
    Kind("kinder by 1"),
    Kind("random"),
    Kind("lies, 30%", share=0.3),
    *(Kind("equal or random", best_share(rho, PRICE_RATIO), rho) for rho in (0.6, 0.8, 0.9)),
    Kind("equal or random, failing", fails=0.3, correlation=0.8),
)


def answers(kind: Kind, count: int, chance: Random, at: datetime) -> Iterator[Pair]:
    """Yield what the monitor gets of so many sampled answers."""
    for _ in range(count):
        score = chance.choices(SCALE, GOOD)[0]
        is_drawn = draw(f"{chance.getrandbits(128):032x}") < kind.share
        is_given = is_drawn and chance.random() >= kind.fails
        if is_drawn and not is_given:
            continue
        strong = float(score) if is_drawn else None
        yield Pair(kind.says(score, chance), strong, kind.share, 0.25, at)


def estimate(kind: Kind, count: int, warm: int, chance: Random) -> tuple[float, float, float]:
    """Return mean and interval of a window of so many answers, after others before it."""
    state, strong = TwoPhase(), WeightedSums()
    for pair in answers(kind, warm, chance, START - timedelta(days=1)):
        state.add(pair, MEASURE, "", START, 3600.0)
    for pair in answers(kind, count, chance, START):
        state.add(pair, MEASURE, "", START, 3600.0)
        if pair.strong is not None:
            strong = strong.add(pair.strong, pair.probability * pair.drawn)
    found = estimate_strata({"": as_strong(state.windows[""].total(START), strong)}, {}, lowest=1, highest=5)
    if found is None:
        raise ValueError("a window without answers")
    return found


def benchmark(*, runs: int = 300) -> list[Line]:
    """Compare with the strong judge alone on its part, and with the formula at the best share."""
    total = sum(GOOD)
    truth = sum(score * n for score, n in zip(SCALE, GOOD, strict=True)) / total
    variance = sum((score - truth) ** 2 * n for score, n in zip(SCALE, GOOD, strict=True)) / total
    lines = []
    for kind in KINDS:
        for count, warm in ((200, 0), (1_000, 0), (1_000, 4_000)):
            chance = Random(f"{kind}{count}{warm}")  # noqa: S311
            found = [estimate(kind, count, warm, chance) for _ in range(runs)]
            means = [mean for mean, _, _ in found]
            error, held = stdev(means), fmean(low <= truth <= high for _, low, high in found)
            cost = (PRICE_RATIO + kind.share) * count * error**2 / variance
            where = f"two-phase, {kind.name}, share {kind.share}, {count:,} answers after {warm:,}"
            where += f", {kind.fails:.0%} strong verdicts missing" if kind.fails else ""
            bias, bound = fmean(means) - truth, 3 * error / sqrt(runs)
            lines += [
                Line(f"{where}: bias", bias, "points", aim=f"0 within {bound:.3f}", met=abs(bias) <= bound),
                Line(f"{where}: intervals that hold", held, "1", aim="at least 0.93", met=held >= 0.93),
            ]
            formula = None if kind.correlation is None else cost_ratio(kind.correlation, PRICE_RATIO)
            lines.append(Line(f"{where}: cost against the strong judge alone", cost, "1", baseline=formula))
    return lines
