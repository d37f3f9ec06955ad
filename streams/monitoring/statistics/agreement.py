"""Agreement of two raters beyond chance, and its interval. Pure.

Kappa is 1 minus the observed disagreement divided by the expected one, if both chose with the same
frequencies but independently. For names it is Cohen's: each disagreement counts 1 (Cohen, "A coefficient of
agreement for nominal scales", 1960). For numbers a disagreement is the squared distance (Cohen, "Weighted
kappa", 1968); for non-integers that is Lin's concordance coefficient (1989). 1: always the same; 0: as by
chance.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import sqrt
from statistics import fmean
from typing import Any, NamedTuple

from streams.monitoring.statistics.estimators import student_quantile


class SquaredDistance(NamedTuple):
    """The disagreement of pairs: observed and expected means, and each pair's part in both."""

    observed: float
    expected: float
    parts: tuple[tuple[float, float], ...]


def kappa(pairs: Sequence[tuple[Any, Any]]) -> float | None:
    """Return the agreement of two raters, corrected for chance; None if all choices are equal.

    Both choices are numbers, compared by distance, or names, compared by equality.
    """
    found = _disagreement(pairs)
    return None if found is None else 1 - found.observed / found.expected


def kappa_interval(pairs: Sequence[tuple[Any, Any]], confidence: float = 0.95) -> tuple[float, float] | None:
    """Return the interval of kappa, by the delta method: 1 - A / B, with A and B means over pairs.

    Four pairs are added, two of them with the expected disagreement, two without any, as Agresti and Coull
    ("Approximate is better than exact", 1998) do for shares: else few disagreements give too short an
    interval.

    Returns:
        Its ends within -1 and 1; None for fewer than two pairs, or without a kappa.
    """
    found = _disagreement(pairs)
    if found is None or len(pairs) < 2:
        return None
    mean = fmean(chance for _, chance in found.parts)
    parts = [*found.parts, *((apart, mean) for apart in (0.0, 0.0, found.expected, found.expected))]
    n = len(parts)
    observed = fmean(apart for apart, _ in parts)
    ratio = observed / found.expected
    squares = sum(
        ((ratio * (chance - mean) - (apart - observed)) / found.expected) ** 2 for apart, chance in parts
    )
    half = student_quantile(0.5 + confidence / 2, n - 1) * sqrt(squares / (n * (n - 1)))
    return max(-1.0, 1 - ratio - half), min(1.0, 1 - ratio + half)


def _disagreement(pairs: Sequence[tuple[Any, Any]]) -> SquaredDistance | None:
    """Return the disagreement; None if all choices are equal.

    A pair's part in the expected disagreement is its first-order influence on it.
    """
    if not pairs:
        return None
    first, second = ([pair[place] for pair in pairs] for place in (0, 1))
    if any(isinstance(one, str) for one in (*first, *second)):
        n, counts, others = len(pairs), Counter(first), Counter(second)
        parts = tuple((float(one != other), -(others[one] + counts[other]) / n) for one, other in pairs)
        expected = 1 - sum(times * others[name] for name, times in counts.items()) / n**2
    else:
        mean, other_mean = fmean(first), fmean(second)
        parts = tuple(
            ((one - other) ** 2, one**2 + other**2 - 2 * (one * other_mean + other * mean))
            for one, other in pairs
        )
        expected = fmean(part for _, part in parts) + 2 * mean * other_mean
    if expected <= 0:
        return None
    return SquaredDistance(fmean(apart for apart, _ in parts), expected, parts)
