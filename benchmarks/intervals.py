"""Coverage of the 95% interval over sampling designs, score distributions and sample sizes.

A part of `python -m benchmarks monitor`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from random import Random
from typing import Final

from benchmarks.report import Line
from streams.monitoring.statistics.estimators import WeightedSums

GOOD: Final = (0.02, 0.03, 0.05, 0.12, 0.28, 0.50)
DESIGNS: Final = {  # sampling rates of strata, and their shares of the traffic
    "all judged": ((1.0,), (1.0,)),
    "1, 0.1, 0.01": ((1.0, 0.1, 0.01), (0.2, 0.4, 0.4)),
    "gold 1, rest 0.1": ((1.0, 0.1), (0.05, 0.95)),
    "0.4, 0.05": ((0.4, 0.05), (0.4, 0.6)),
    "1, 0.25, 0.05": ((1.0, 0.25, 0.05), (0.3, 0.4, 0.3)),
}
LAWS: Final = {  # scores on the scale [0, 1], and their shares
    "mostly good": ((0.0, 0.2, 0.4, 0.6, 0.8, 1.0), GOOD),
    "97% fives": ((0.0, 1.0), (0.03, 0.97)),
    "95% fives, some twos": ((0.25, 1.0), (0.05, 0.95)),
    "two humps": ((0.0, 0.25, 0.75, 1.0), (0.3, 0.1, 0.1, 0.5)),
    "flat": ((0.0, 0.25, 0.5, 0.75, 1.0), (0.2, 0.2, 0.2, 0.2, 0.2)),
    "middle": ((0.25, 0.5, 0.75), (0.2, 0.6, 0.2)),
    "mostly bad": ((0.0, 0.25, 0.5, 1.0), (0.8, 0.1, 0.05, 0.05)),
    "yes or no, 80%": ((0.0, 1.0), (0.2, 0.8)),
}
SIZES: Final = (5, 10, 20, 30, 50, 75, 100, 200, 300, 500, 1000)


def chance(seed: int, number: int) -> Random:
    """Return the random stream of run `number`."""
    return Random(seed * 1_000_003 + number)  # noqa: S311 - a simulation


def coverage(seed: int, runs: int) -> Iterator[dict[str, object]]:
    """Measure how often intervals contain the true mean; yields one record per number.

    Args:
        seed: Seed of the random streams.
        runs: Runs per cell.
    """
    cells = []
    for number, ((design, (rates, shares)), (law, (values, weights)), size) in enumerate(
        product(DESIGNS.items(), LAWS.items(), SIZES)
    ):
        random = chance(seed, number)
        chances = [rate * share for rate, share in zip(rates, shares, strict=True)]
        fewest = size * min(chances) / sum(chances)
        held = _held(random, rates, chances, values, weights, size, runs)
        cells.append((held, fewest >= 5, f"{design}; {law}; {size}"))
    low = sum(held < 0.93 for held, _, _ in cells) / len(cells)
    worst = min((held, name) for held, enough, name in cells if enough)
    yield Line(
        (
            f"monitor: 95% intervals, {len(cells)} cells of {runs} runs: share that contain the mean in "
            "less than 93%"
        ),
        round(low, 4),
        "of the cells",
        aim="at most 5%",
        met=low <= 0.05,
    ).as_json()
    yield Line(
        "monitor: 95% intervals, the worst cell with 5 answers of every stratum: share that contain the mean",
        round(worst[0], 4),
        "of the runs",
        aim="at least 87%",
        met=worst[0] >= 0.87,
        note=worst[1],
    ).as_json()
    for what, design, size, today in (
        ("97% fives, 100 answers", "all judged", 100, 0.867),
        ("97% fives, rates 1, 0.1 and 0.01, 500 answers", "1, 0.1, 0.01", 500, 0.732),
    ):
        rates, shares = DESIGNS[design]
        chances = [rate * share for rate, share in zip(rates, shares, strict=True)]
        values, weights = LAWS["97% fives"]
        held = _held(chance(seed, size), rates, chances, values, weights, size, 5 * runs)
        yield Line(
            f"monitor: 95% intervals of {what}: share that contain the mean",
            round(held, 4),
            "of the runs",
            baseline=today,
            aim="at least 93%",
            met=held >= 0.93,
        ).as_json()


def _held(
    random: Random,
    rates: Sequence[float],
    chances: Sequence[float],
    values: Sequence[float],
    weights: Sequence[float],
    size: int,
    runs: int,
) -> float:
    truth = sum(value * weight for value, weight in zip(values, weights, strict=True)) / sum(weights)
    held = 0
    for _ in range(runs):
        drawn = zip(
            random.choices(values, weights, k=size), random.choices(rates, chances, k=size), strict=True
        )
        ends = _sums(drawn).interval(lowest=0, highest=1)
        held += ends is not None and ends[0] <= truth + 1e-12 and truth <= ends[1] + 1e-12
    return held / runs


def _sums(drawn: Iterator[tuple[float, float]]) -> WeightedSums:
    """As `WeightedSums.of`, without an object per sample."""
    count, sums = 0, [0.0] * 6
    for value, rate in drawn:
        w = 1 / rate
        wx, ww = w * value, w * w
        count += 1
        for place, amount in enumerate((w, wx, wx * value, ww, ww * value, wx * wx)):
            sums[place] += amount
    return WeightedSums.from_numbers([count, *sums])
