"""Coverage of the interval of people's mean, over designs, laws and numbers of labels, beside plain PPI++.

The laws of `benchmarks.intervals` are people's scores on the scale [0, 1]; the judge's is people's, or with
the law's probability any score, or a kinder one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from math import sqrt
from random import Random
from typing import Final, NamedTuple

from benchmarks.intervals import GOOD, chance
from benchmarks.report import Line
from streams.monitoring.statistics.estimators import WeightedSums
from streams.monitoring.statistics.people import (
    FEWEST_LABELS,
    LabelledAnswer,
    draw_rates,
    effective_labels,
    is_representative,
    people_mean,
)

GRID: Final = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
HUMPS: Final = (0.3, 0.1, 0.0, 0.0, 0.1, 0.5)


class Law(NamedTuple):
    """Weights of people's scores on the grid; how often the judge errs, and how many steps up."""

    people: tuple[float, ...]
    errs: float
    by: int | None


LAWS: Final[dict[str, Law]] = {
    "mostly good, a judge that guesses in a fifth": Law(GOOD, 0.2, None),
    "mostly good, a kind judge": Law(GOOD, 0.5, 1),
    "97% best, a judge that guesses in a tenth": Law((0.03, 0, 0, 0, 0, 0.97), 0.1, None),
    "95% best, a judge that misses all": Law((0, 0.05, 0, 0, 0, 0.95), 1.0, 5),
    "two humps, a judge that guesses": Law(HUMPS, 1.0, None),
    "flat, a good judge": Law((1, 1, 1, 1, 1, 1), 0.05, None),
    "yes or no, a judge that errs in a fifth": Law((0.2, 0, 0, 0, 0, 0.8), 0.2, None),
    "mostly bad, a judge that is right": Law((0.8, 0.1, 0.05, 0, 0, 0.05), 0.0, None),
}
DESIGNS: Final[dict[str, tuple[tuple[float, ...], tuple[float, ...], str]]] = {
    "all judged, random": ((1.0,), (1.0,), "random"),
    "rates 1, 0.1, random": ((1.0, 0.1), (0.1, 0.9), "random"),
    "rates 1, 0.25, 0.05, random": ((1.0, 0.25, 0.05), (0.3, 0.4, 0.3), "random"),
    "all judged, low scores three times": ((1.0,), (1.0,), "low"),
    "rates 1, 0.25, weight times error": ((1.0, 0.25), (0.5, 0.5), "error"),
}
"""Judging rates of the strata, their shares of the traffic, and how labels are drawn."""
SIZES: Final = (50, 100, 200)
JUDGED: Final = 2_000


class Drawn(NamedTuple):
    """One run: labelled answers, the judge's scores with p_judged, and the strata without a label."""

    labelled: list[LabelledAnswer]
    judged: WeightedSums
    strata: int


def truth(law: Law) -> float:
    """Return the mean that people give, equal in all strata."""
    return sum(x * w for x, w in zip(GRID, law.people, strict=True)) / sum(law.people)


def sample(random: Random, law: Law, design: str, size: int) -> Drawn:
    """Draw judged answers, and labels of them."""
    rates, shares, how = DESIGNS[design]
    chances = [rate * share for rate, share in zip(rates, shares, strict=True)]
    places = random.choices(range(len(rates)), chances, k=JUDGED)
    people = random.choices(range(len(GRID)), law.people, k=JUDGED)
    rows = []
    for place, given in zip(places, people, strict=True):
        judge = given
        if random.random() < law.errs:
            judge = random.randrange(len(GRID)) if law.by is None else min(given + law.by, len(GRID) - 1)
        rows.append((place, GRID[given], GRID[judge]))
    sizes = dict.fromkeys(range(JUDGED), 1.0)
    wants = {number: _wanted(how, rates[place], f) for number, (place, _, f) in enumerate(rows)}
    drawn = draw_rates(sizes, wants, size)
    taken = [number for number in range(JUDGED) if random.random() < drawn[number]]
    labelled = [
        LabelledAnswer(rows[one][1], rows[one][2], 1 / (rates[rows[one][0]] * drawn[one])) for one in taken
    ]
    judged = WeightedSums.of((f, rates[place]) for place, _, f in rows)
    return Drawn(labelled, judged, len(set(places)) - len({places[one] for one in taken}))


def _wanted(how: str, rate: float, judge: float) -> float:
    if how == "error":
        return (0.5 + abs(judge - 0.5)) / rate
    return 3.0 if how == "low" and judge < 0.5 else 1.0


def interval(drawn: Drawn) -> tuple[float, float] | None:
    """Return our interval; None if refused."""
    labelled, judged, missing = drawn
    if missing or effective_labels(labelled) < FEWEST_LABELS:
        return None
    if not is_representative(labelled, judged, lowest=0, highest=1):
        return None
    found = people_mean(labelled, judged, lowest=0, highest=1)
    return found.low, found.high


def plain(drawn: Drawn) -> tuple[float, float]:
    """Return the interval of PPI++ as published, with normalised weights and the normal quantile."""
    labelled, judged, _ = drawn
    n, total = len(labelled), sum(one.weight for one in labelled)
    w = [one.weight * n / total for one in labelled]
    y, f = [one.people for one in labelled], [one.judge for one in labelled]

    def mean(of: Sequence[float]) -> float:
        return sum(a * b for a, b in zip(w, of, strict=True)) / n

    covariance = mean([a * b for a, b in zip(y, f, strict=True)]) - mean(y) * mean(f)
    square = mean([b * b for b in f]) - mean(f) ** 2
    trust = min(max(covariance / square / (1 + n / judged.count), 0.0), 1.0) if square > 0 else 0.0
    rests = [a - trust * b for a, b in zip(y, f, strict=True)]
    parts = [a * (b - mean(rests)) for a, b in zip(w, rests, strict=True)]
    middle = trust * (judged.mean or 0.0) + mean(rests)
    variance = sum(one * one for one in parts) / n**2 + (trust * (judged.standard_error or 0.0)) ** 2
    return middle - 1.96 * sqrt(variance), middle + 1.96 * sqrt(variance)


def cell(random: Random, law: str, design: str, size: int, runs: int) -> tuple[int, int, int]:
    """Return how many runs are refused, how many intervals hold the truth, and how many plain ones do."""
    right = truth(LAWS[law])
    refused = held = simple = 0
    for _ in range(runs):
        drawn = sample(random, LAWS[law], design, size)
        found = interval(drawn)
        refused += found is None
        held += found is not None and found[0] - 1e-9 <= right <= found[1] + 1e-9
        low, high = plain(drawn) if drawn.labelled else (0.0, 0.0)
        simple += low - 1e-9 <= right <= high + 1e-9
    return refused, held, simple


def run(seed: int = 20_261_123, *, runs: int = 400) -> Iterator[dict[str, object]]:
    """Measure; yields one record per number of labels."""
    cells = list(product(DESIGNS, LAWS))
    for size in SIZES:
        worst, plainest, most = (1.0, ""), (1.0, ""), (0.0, "")
        low = 0
        for number, (design, law) in enumerate(cells):
            refused, held, simple = cell(chance(seed, number * 1_000 + size), law, design, size, runs)
            name = f"{design}; {law}"
            share = held / (runs - refused) if refused < runs / 2 else 1.0
            low += share < 0.93
            worst, plainest = min(worst, (share, name)), min(plainest, (simple / runs, name))
            most = max(most, (refused / runs, name))
        yield Line(
            f"people: 95% intervals, {size} labels, {len(cells)} cells of {runs} runs: the worst cell",
            round(worst[0], 4),
            "of the runs",
            baseline=round(plainest[0], 4),
            aim="at least 0.93 of the runs that are not refused",
            met=worst[0] >= 0.93,
            note=f"{worst[1]}; {low} cells below; plain PPI++: {plainest[1]}; refused at most "
            f"{most[0]:.2f} ({most[1]})",
        ).as_json()
