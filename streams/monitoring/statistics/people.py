"""The mean that people would give, from few labels and many verdicts, and how raters agree. Pure.

Sources: Angelopoulos, Duchi, Zrnic, "PPI++" (2023) for the estimate; Rogan, Gladen, "Estimating prevalence
from the results of a screening test" (1978); Krippendorff, "Computing alpha-reliability" (2011).

Kappa is 1 minus the observed disagreement divided by the expected one, if both chose with the same
frequencies but independently. For names it is Cohen's: each disagreement counts 1 (Cohen, "A coefficient of
agreement for nominal scales", 1960). For numbers a disagreement is the squared distance (Cohen, "Weighted
kappa", 1968); for non-integers that is Lin's concordance coefficient (1989).
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from math import ceil, inf, sqrt
from statistics import fmean
from typing import Any, Final, NamedTuple

from streams.monitoring.statistics.estimators import IMAGINED_SQUARE, WeightedSums, student_quantile

FEWEST_LABELS: Final = 30.0
"""Effective labels below which no estimate is given."""
SHRINKING: Final = 10.0
"""Effective labels at which the judge counts half as much as the labels say that it should."""
MOST_ERRORS: Final = 4.0
"""Standard errors between the judge's mean of the labelled answers and of all."""
MOST_MORE: Final = 100_000
_MORE: Final = range(MOST_MORE + 1)
UNSEEN: Final = 2.66
"""n labels miss errors of a share of 2.66 / n in 7% of the draws, exp(-2.66), however alike they are."""


class LabelledAnswer(NamedTuple):
    """An answer with people's mean, the judge's score, and w = 1 / (p_judged p_label)."""

    people: float
    judge: float
    weight: float


@dataclass(frozen=True, slots=True)
class PeopleMean:
    mean: float
    low: float
    high: float
    judge: float
    """The judge's own mean."""
    trust: float
    """The factor lambda of the judge's scores, from 0 to 1."""
    labels: int
    effective: float
    """The labels' effective number n, after Kish."""
    least: float
    """Their number m if all weighed as much as the heaviest; n if all weigh the same."""
    half: float
    spread: float
    """Variance of one effective label's residual."""
    floor: float
    """Variance that further labels do not reduce: that of the judge's mean."""
    imagined: float
    """Sum of the imagined squares, 12 for a scale from 1 to 5."""
    spread_alone: float
    """Variance of one effective label."""

    def half_after(self, more: float, *, alone: bool = False) -> float:
        """Return half of the interval after this many more labels; `alone`: without the judge."""
        growth = 1 + more / self.labels
        spread, floor = (self.spread_alone, 0.0) if alone else (self.spread, self.floor)
        return _half(spread, floor, self.imagined, self.effective * growth, self.least * growth)

    @property
    def alone(self) -> float:
        """Half of the interval from the labels alone."""
        return self.half_after(0, alone=True)

    def more_for(self, half: float, *, alone: bool = False) -> int | None:
        """Return how many more labels make half of the interval this wide; None if none do."""
        found = bisect_left(_MORE, True, key=lambda more: self.half_after(more, alone=alone) <= half)  # noqa: FBT003
        return found if found < len(_MORE) else None

    @property
    def saved(self) -> int:
        """The labels that labels alone would need more, for the same interval."""
        found = self.more_for(self.half * (1 + 1e-9), alone=True)
        return MOST_MORE if found is None else found


def _half(spread: float, floor: float, imagined: float, n: float, m: float) -> float:
    half = student_quantile(0.975, n - 2) * sqrt(spread / n + floor + imagined / (m * m))
    return max(half, UNSEEN * sqrt(imagined / IMAGINED_SQUARE) / m)


def effective_labels(labelled: Iterable[LabelledAnswer]) -> float:
    """Return n = (sum w)² / sum w²; 0 without labels."""
    weights = [one.weight for one in labelled]
    return sum(weights) ** 2 / sum(w * w for w in weights) if weights else 0.0


def people_mean(
    labelled: Sequence[LabelledAnswer], judged: WeightedSums | None, *, lowest: float, highest: float
) -> PeopleMean:
    """Estimate the mean that people would give to all answers.

    With y people's and f the judge's scores of the labelled answers, w their weights, F all scores of the
    judge with V = 1 / p_judged, and variances those of the means:

        lambda   = clip(cov_w(y, f) / (var_w(f) + var_V(F)), 0, 1) n / (n + 10),  n = (sum w)² / sum w²
        estimate = lambda mean_V(F) + mean_w(y - lambda f)
        variance = var_w(y - lambda f) + lambda max(2 b - lambda, lambda) var_V(F) + 12 / m²

    with b = cov_w(y, f) / var_w(f), m = sum w / max w, and t of n - 2 degrees of freedom. Deviations from
    PPI++: weights; lambda shrunk, because few labels overestimate it; the labelled answers are among F, which
    adds twice the covariance lambda (b - lambda) var_V(F) of both parts; 12 / m² imagined squares (for a
    scale from 1 to 5; 0.75 squares of any scale), because few labels that agree hide the spread; t; half an
    interval of at least 2.66 scales / m, for errors that no label shows.

    Args:
        labelled: At least three answers, each once; dependent labels of one are averaged before.
        judged: All scores of the judge; None: labels alone, because they are of a part that is not known.
    """
    n = effective_labels(labelled)
    total = sum(one.weight for one in labelled)
    y_mean, f_mean = (sum(one[place] * one.weight for one in labelled) / total for place in (0, 1))

    def spread(first: float, second: float) -> float:
        """Return the (co)variance of the weighted means of combinations a y + b f: a, b; times n/(n-1)."""
        squares = ((one.weight * (first * (one.people - y_mean) + second * (one.judge - f_mean))) ** 2
                   for one in labelled)  # fmt: skip
        return sum(squares) / total**2 * n / (n - 1)

    known = None if judged is None else judged.mean
    floor = 0.0 if judged is None else (judged.standard_error or 0.0) ** 2
    covariance = (spread(1, 1) - spread(1, -1)) / 4
    divisor = spread(0, 1) + floor
    trust = min(max(covariance / divisor, 0.0), 1.0) * n / (n + SHRINKING) if divisor > 0 else 0.0
    judge, trust = (f_mean, 0.0) if known is None else (known, trust)
    mean = trust * judge + y_mean - trust * f_mean
    imagined = IMAGINED_SQUARE * (highest - lowest) ** 2
    slope = covariance / spread(0, 1) if spread(0, 1) > 0 else 0.0
    residual, floor = spread(1, -trust) * n, trust * max(2 * slope - trust, trust) * floor
    m = total / max(one.weight for one in labelled)
    half = _half(residual, floor, imagined, n, m)
    return PeopleMean(
        mean=min(max(mean, lowest), highest), low=max(mean - half, lowest), high=min(mean + half, highest),
        judge=judge, trust=trust, labels=len(labelled), effective=n, least=m, half=half,
        spread=residual, floor=floor, imagined=imagined, spread_alone=spread(1, 0) * n,
    )  # fmt: skip


def is_representative(
    labelled: Sequence[LabelledAnswer], judged: WeightedSums, *, lowest: float, highest: float
) -> bool:
    """Return whether the judge's mean of the labelled answers is that of all, within four standard errors.

    Otherwise the labels' probabilities are wrong, or are of another population.
    """
    least = min(one.weight for one in labelled)
    sums = WeightedSums.of((one.judge, least / one.weight) for one in labelled)
    n = sums.effective_count
    if sums.mean is None or judged.mean is None:
        return True
    error = (sums.standard_error or 0.0) ** 2 + (judged.standard_error or 0.0) ** 2
    error += IMAGINED_SQUARE * ((highest - lowest) / n) ** 2
    return abs(sums.mean - judged.mean) <= MOST_ERRORS * sqrt(error)


def rogan_gladen(labelled: Sequence[LabelledAnswer], share: float) -> float | None:
    """Return the share of true answers, (share + specificity - 1) / (sensitivity + specificity - 1).

    None if the labels are all alike, or the judge is no better than chance. `people` and `judge` are 0 to 1.
    """
    positive = sum(one.weight * one.people for one in labelled)
    negative = sum(one.weight * (1 - one.people) for one in labelled)
    if positive <= 0 or negative <= 0:
        return None
    sensitivity = sum(one.weight * one.people * one.judge for one in labelled) / positive
    specificity = sum(one.weight * (1 - one.people) * (1 - one.judge) for one in labelled) / negative
    skill = sensitivity + specificity - 1
    return min(max((share + specificity - 1) / skill, 0.0), 1.0) if skill > 0 else None


def alpha(items: Iterable[Sequence[float | str]]) -> float | None:
    """Return Krippendorff's alpha of several reviewers: 1 - observed / expected disagreement.

    1: always the same; 0: as by chance; None without two choices that differ. The choices of an item are
    numbers (squared distance) or names; items with one do not count.
    """
    units = [list(one) for one in items if len(one) > 1]
    every = [one for unit in units for one in unit]
    if len(every) < 2:
        return None
    observed = sum(_apart(unit) / (len(unit) - 1) for unit in units) / len(every)
    expected = _apart(every) / (len(every) * (len(every) - 1))
    return 1 - observed / expected if expected > 0 else None


def _apart(choices: Sequence[float | str]) -> float:
    """Return the sum of the disagreements of all ordered pairs."""
    n = len(choices)
    numbers = [one for one in choices if not isinstance(one, str)]
    if len(numbers) == n:
        mean = fmean(numbers)
        return 2 * n * sum((one - mean) ** 2 for one in numbers)
    counts = {one: choices.count(one) for one in set(choices)}
    return float(n * n - sum(count * count for count in counts.values()))


def draw_rates(sizes: Mapping[int, float], wants: Mapping[int, float], size: float) -> dict[int, float]:
    """Return the probability of each answer of a group: min(1, c want), with c such that `size` are drawn."""
    sure: set[int] = set()
    while True:
        left = sum(sizes[one] * wants[one] for one in sizes if one not in sure)
        c = max(size - sum(sizes[one] for one in sure), 0.0) / left if left else inf
        over = {one for one in sizes if one not in sure and c * wants[one] >= 1}
        if not over:
            return {one: 1.0 if one in sure else c * wants[one] for one in sizes}
        sure |= over


def systematic(expected: Sequence[float], start: float) -> list[tuple[int, float]]:
    """Draw from groups in order, with one start in [0, 1): pairs of group and place within it, in [0, 1).

    Each whole number plus the start on the line of the summed expectations is a draw, so neighbouring
    groups (of score and label value) get their share of each sample.
    """
    ends = [0.0, *accumulate(expected)]
    found = []
    for group, (low, high) in enumerate(pairwise(ends)):
        first = max(ceil(low - start - 1e-9), 0)
        mark = first + start
        while mark < high - 1e-9:
            found.append((group, max(mark - low, 0.0) / (high - low)))
            mark += 1
    return found


def kappa(pairs: Sequence[tuple[Any, Any]]) -> float | None:
    """Return the agreement of two raters, 0 as by chance and 1 in all; None if all choices are equal."""
    expected, parts = _disagreement(pairs)
    return 1 - fmean(apart for apart, _ in parts) / expected if expected > 0 else None


def kappa_interval(pairs: Sequence[tuple[Any, Any]], confidence: float = 0.95) -> tuple[float, float] | None:
    """Return the interval of kappa, by the delta method: 1 - A / B, with A and B means over pairs.

    Four pairs are added, two of them with the expected disagreement, two without any, as Agresti and Coull
    ("Approximate is better than exact", 1998) do for shares: else few disagreements give too short an
    interval. None for fewer than two pairs, or without a kappa.
    """
    expected, parts = _disagreement(pairs)
    if expected <= 0 or len(pairs) < 2:
        return None
    mean = fmean(chance for _, chance in parts)
    parts += [(apart, mean) for apart in (0.0, 0.0, expected, expected)]
    n = len(parts)
    observed = fmean(apart for apart, _ in parts)
    ratio = observed / expected
    squares = sum(((ratio * (chance - mean) - (apart - observed)) / expected) ** 2 for apart, chance in parts)
    half = student_quantile(0.5 + confidence / 2, n - 1) * sqrt(squares / (n * (n - 1)))
    return max(-1.0, 1 - ratio - half), min(1.0, 1 - ratio + half)


def _disagreement(pairs: Sequence[tuple[Any, Any]]) -> tuple[float, list[tuple[float, float]]]:
    """Return the expected disagreement, and of each pair the observed one and its influence on that."""
    if not pairs:
        return 0.0, []
    first, second = ([pair[place] for pair in pairs] for place in (0, 1))
    if any(isinstance(one, str) for one in (*first, *second)):
        n, counts, others = len(pairs), Counter(first), Counter(second)
        parts = [(float(one != other), -(others[one] + counts[other]) / n) for one, other in pairs]
        expected = 1 - sum(times * others[name] for name, times in counts.items()) / n**2
    else:
        mean, other_mean = fmean(first), fmean(second)
        parts = [
            ((one - other) ** 2, one**2 + other**2 - 2 * (one * other_mean + other * mean))
            for one, other in pairs
        ]
        expected = fmean(part for _, part in parts) + 2 * mean * other_mean
    return expected, parts
