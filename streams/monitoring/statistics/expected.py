"""How many judged answers a drop takes until it is called. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from math import inf, log1p, sqrt
from statistics import NormalDist

from streams.monitoring.statistics.baseline import CHANCE_OF_HARM
from streams.monitoring.statistics.detectors import SIZES, WEIGHTS


def expected_margin(
    spread: float, *, known: float, first: int, min_drop: float, evenness: float = 1.0
) -> float:
    """Return the smallest fall that a baseline can show after some answers.

    Args:
        spread: Standard deviation of the scores, on the scale [0, 1].
        known: Judged answers before the fall.
        first: Those of the first look.
        min_drop: Smallest relevant fall.
        evenness: See `evenness_of`.
    """
    if known < first:
        return inf
    looked, chance = float(first), CHANCE_OF_HARM / 2
    while 2 * looked <= known:
        looked, chance = 2 * looked, chance / 2
    return max(min_drop, NormalDist().inv_cdf(1 - chance) * spread / sqrt(looked * evenness))


def expected_answers(
    fall: float, *, mean: float, spread: float, margin: float, threshold: float, evenness: float = 1.0
) -> float:
    """Return about how many judged answers a fall of the mean takes until it is called.

    With x one of two scores of the fallen mean and this spread, the bet of size s grows by r = E log(1 + s (m
    - x) / (1 - m)) an answer; it had (1 - m) / (s margin) before the fall, the expectation of a calm series.
    So it brings its part w of the threshold T to an alarm after log(1 + T / w / (1 / r + that)) / r answers;
    the first bet counts. Of unequal weights only the effective answers do.

    Simulated medians are 0.8 to 1.1 of this for falls of several margins; 0.4 to 4 for falls hardly beyond
    it, where the error of the learned mean decides (`python -m benchmarks monitor`).

    Args:
        fall: Of the mean, on the scale [0, 1].
        mean: Before the fall.
        spread: Standard deviation of the scores, after the fall.
        margin: Difference of mean and tolerated mean; above 0.
        threshold: Of the test.
        evenness: See `evenness_of`.

    Returns:
        Infinity if it is not called.
    """
    tolerated, fallen = mean - margin, mean - fall
    if not 0 < tolerated < 1 or fallen >= tolerated:
        return inf
    law = [(share, (tolerated - x) / (1 - tolerated)) for share, x in _two_points(max(fallen, 0.0), spread)]
    least = inf
    for size, weight in zip(SIZES, WEIGHTS, strict=True):
        growth = sum(share * log1p(size * gain) for share, gain in law)
        if growth > 0:
            before = (1 - tolerated) / (size * margin)
            least = min(least, log1p(threshold / weight / (1 / growth + before)) / growth)
    return least / evenness


def _two_points(mean: float, spread: float) -> tuple[tuple[float, float], ...]:
    """Return two scores in [0, 1] with their shares; the spread is less if the scale ends before."""
    high = min(mean + spread, 1.0)
    low = max(mean - spread * spread / max(high - mean, 1e-9), 0.0)
    share = (mean - low) / max(high - low, 1e-9)
    return (share, high), (1 - share, low)


def evenness_of(strata: Iterable[tuple[float, float]]) -> float:
    """Return the effective answers per judged one (Kish): 1 / (sum of b p, times sum of b / p).

    Args:
        strata: Share b of the traffic and sampling rate p, above 0, of each.
    """
    rows = [(share, rate) for share, rate in strata if share > 0]
    whole = sum(share for share, _ in rows)
    return whole * whole / (sum(b * p for b, p in rows) * sum(b / p for b, p in rows))
