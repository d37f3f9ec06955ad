"""The mean of a population of sampling strata of different quality, with its interval. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from math import exp, log, sqrt
from statistics import NormalDist
from typing import Any

from streams.monitoring.statistics.estimators import WeightedSums

MOST_STRATA = 100
SHARE_COUNT = 3.0
"""Judged answers that the known traffic of a stratum counts as, beside those of the window."""
_KEPT_A_SECOND = log(2) / 86_400
"""Half-life of the known traffic: a day."""


@dataclass(slots=True)
class Stratum:
    """The usual traffic of a stratum: sums of w, wx and w², each halved every day, and its latest answer."""

    weight: float
    weighted: float
    weight_square: float
    latest: float


class Traffic:
    """The usual traffic of each stratum, as judged answers tell it: their weights add up to all answers.

    Args:
        state: Earlier `state`.
    """

    __slots__ = ("_at", "_since", "strata")

    def __init__(self, state: Sequence[Any] = (0.0, 0.0, {})) -> None:
        self._since, self._at = float(state[0]), float(state[1])
        self.strata = {name: Stratum(*map(float, values)) for name, values in state[2].items()}

    @property
    def state(self) -> list[Any]:
        """The whole state as JSON values."""
        return [self._since, self._at, {name: astuple(one) for name, one in self.strata.items()}]

    def add(self, stratum: str, sums: WeightedSums, seconds: float) -> None:
        """Add what an answer adds to the sums; a time before the latest counts as the latest."""
        self._since = self._since or seconds
        kept = exp(-_KEPT_A_SECOND * max(seconds - self._at, 0.0)) if self._at else 1.0
        self._at = max(self._at, seconds)
        if stratum not in self.strata:
            if len(self.strata) >= MOST_STRATA:
                return
            self.strata[stratum] = Stratum(0.0, 0.0, 0.0, seconds)
        for one in self.strata.values():
            one.weight, one.weighted, one.weight_square = (
                kept * one.weight,
                kept * one.weighted,
                kept * one.weight_square,
            )
        one = self.strata[stratum]
        one.weight += sums.weight
        one.weighted += sums.weighted
        one.weight_square += sums.weight_square
        one.latest = max(one.latest, seconds)

    def expected(self, seconds: float) -> dict[str, tuple[float, float, float]]:
        """Return by stratum the expected answers of a stretch of time, their mean and typical weight."""
        span = (1 - exp(_KEPT_A_SECOND * (self._since - self._at))) / _KEPT_A_SECOND
        part = seconds / max(span, seconds, 1.0)
        return {
            name: (one.weight * part, one.weighted / one.weight, one.weight_square / one.weight)
            for name, one in self.strata.items()
            if one.weight > 0
        }


def estimate_strata(
    window: Mapping[str, WeightedSums],
    expected: Mapping[str, tuple[float, float, float]],
    *,
    lowest: float,
    highest: float,
    confidence: float = 0.95,
) -> tuple[float, float, float] | None:
    """Return the mean of the population with the ends of its interval; None without scores.

    With h a stratum, n_h its effective judged answers, w_h their typical weight and E_h its expected answers:

        N_h = (n_h + 3) / (1 / w_h + 3 / E_h),  W_h = N_h / sum of N,  mean = sum of W_h m_h
        mean - low = sqrt(sum of (W_h (m_h - low_h))² + z² sum of (W_h (m_h - mean))² / (n_h + 3))

    and the same for the upper end. m_h, low_h and high_h are the mean and Wilson's interval of the stratum,
    which is the whole scale below an effective count of 3. So N_h is the window's own count where it has
    answers, and the usual one where it has few: a stratum without an answer widens the interval. With one
    stratum, the interval is Wilson's. Source of combining widths: Newcombe, "Interval estimation for the
    difference between independent proportions" (Statistics in Medicine, 1998), method 10; of N_h: the
    posterior mean of a Poisson rate, whose relative variance is 1 / (n_h + 3).
    """
    if not any(sums.count for sums in window.values()):
        return None
    parts = []
    for name in {**expected, **window}:
        sums = window.get(name, WeightedSums())
        n = sums.effective_count
        usual, mean, typical = expected.get(name, (0.0, 0.0, 1.0))
        if n > 0:
            mean, typical = sums.mean or 0.0, sums.weight_square / sums.weight
        ends = sums.interval(lowest=lowest, highest=highest, confidence=confidence) or (lowest, highest)
        size = (n + SHARE_COUNT) / (1 / typical + SHARE_COUNT / usual) if usual > 0 else sums.weight
        parts.append((size, n, mean, ends))
    total = sum(size for size, *_ in parts)
    first = parts[0][2]  # so that one stratum has its own mean, to the last digit
    mean = first + sum(size * (own - first) for size, _, own, _ in parts) / total
    z = NormalDist().inv_cdf(0.5 + confidence / 2)
    shares = sum((z * size * (own - mean)) ** 2 / (n + SHARE_COUNT) for size, n, own, _ in parts)
    down = sqrt(shares + sum((size * (own - ends[0])) ** 2 for size, _, own, ends in parts)) / total
    up = sqrt(shares + sum((size * (ends[1] - own)) ** 2 for size, _, own, ends in parts)) / total
    return mean, max(mean - down, lowest), min(mean + up, highest)
