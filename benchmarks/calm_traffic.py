"""Question-and-answer traffic of many days, invented but with the habits of the real thing.

Volume follows the clock and the week and wanders; each app has its own level of quality, which wanders too; the mix of
apps drifts for hours, and a nightly batch job with poorer answers has the night almost for itself. A share of the
traffic ("gold") is judged always, the rest by a sampling rate, so that weights matter.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from random import Random
from typing import Final

from benchmarks.drop_rule import Sums

BIN_SECONDS: Final = 300
BINS_AN_HOUR: Final = 3600 // BIN_SECONDS
BINS_A_DAY: Final = 24 * BINS_AN_HOUR
SCORES: Final = (1, 2, 3, 4, 5)
_SHAPE: Final = (0.04, 0.06, 0.15, 0.30, 0.45)
"""A usual distribution of relevance scores; other means are reached by tilting it exponentially."""
GOLD_SHARE: Final = 0.1
RATE: Final = 0.2
"""Sampling rate of what is not gold."""


@dataclass(frozen=True, slots=True)
class App:
    """One application that asks.

    Args:
        name: Value of the label.
        mean: Its usual mean score.
        share: Its usual share of the traffic by day.
        night: The factor on its traffic at the dead of night.
    """

    name: str
    mean: float
    share: float
    night: float


APPS: Final = (
    App("support", 4.2, 0.45, 0.05),
    App("search", 3.9, 0.30, 0.08),
    App("legal", 4.4, 0.10, 0.01),
    App("internal", 3.7, 0.10, 0.02),
    App("batch", 3.3, 0.05, 1.0),
)


def _tilted() -> tuple[tuple[float, ...], tuple[tuple[float, ...], ...]]:
    means, cumulative = [], []
    for step in range(-300, 301):
        weights = [share * math.exp(step / 100 * score) for share, score in zip(_SHAPE, SCORES, strict=True)]
        total = sum(weights)
        means.append(sum(w * score for w, score in zip(weights, SCORES, strict=True)) / total)
        cumulative.append(tuple(accumulate(weights)))
    return tuple(means), tuple(cumulative)


_MEANS, _CUMULATIVE = _tilted()


def draw(random: Random, mean: float, count: int) -> list[int]:
    """Draw scores around a mean."""
    place = min(bisect_left(_MEANS, mean), len(_MEANS) - 1)
    return random.choices(SCORES, cum_weights=_CUMULATIVE[place], k=count)


def poisson(random: Random, mean: float) -> int:
    """Draw a Poisson number; a rounded normal one beyond 50."""
    if mean > 50:
        return max(0, round(random.gauss(mean, math.sqrt(mean))))
    limit, product, count = math.exp(-mean), random.random(), 0
    while product > limit:
        product *= random.random()
        count += 1
    return count


def wander(random: Random, deviation: float, hours: float) -> Iterator[float]:
    """Walk around 0 (autoregressive), one value a bin, forgetting within some hours."""
    keep = math.exp(-1 / (hours * BINS_AN_HOUR))
    step = deviation * math.sqrt(1 - keep * keep)
    value = random.gauss(0, deviation)
    while True:
        yield value
        value = keep * value + random.gauss(0, step)


@dataclass(frozen=True, slots=True)
class Climate:
    """What the scores are drawn from, by bin and app.

    Args:
        volume: Expected events.
        mean: Expected score.
    """

    volume: list[list[float]]
    mean: list[list[float]]


def climate(random: Random, days: int, events_a_day: float, *, batch: bool = True) -> Climate:
    """Draw volume and quality of some days, before any score is drawn.

    Args:
        random: Where chance comes from.
        days: How many.
        events_a_day: On average, about.
        batch: Whether the nightly batch job runs.
    """
    tide = wander(random, 0.25, 6)
    mixes = [wander(random, 0.4, 4) for _ in APPS]
    # Half of the wander of quality is common to all apps (what people ask about), half is an app's own.
    common = wander(random, 0.04, 3)
    qualities = [wander(random, 0.06, 3) for _ in APPS]
    # Events an average bin would have, were it not for night and weekend: the mean day has the asked-for volume.
    peak = events_a_day / BINS_A_DAY / 0.47
    volume, mean = [], []
    for index in range(days * BINS_A_DAY):
        hour = (index % BINS_A_DAY) / BINS_AN_HOUR
        light = (0.5 - 0.5 * math.cos((hour - 2) / 24 * 2 * math.pi)) ** 1.5
        weekend = 0.4 if index // BINS_A_DAY % 7 >= 5 else 1.0
        scale = peak * math.exp(next(tide)) * weekend
        volume.append(
            [
                (scale if batch or app.name != "batch" else 0.0)
                * app.share
                * (app.night + (1 - app.night) * light)
                * math.exp(next(mix))
                for app, mix in zip(APPS, mixes, strict=True)
            ]
        )
        shared = next(common)
        mean.append([app.mean + shared + next(own) for app, own in zip(APPS, qualities, strict=True)])
    return Climate(volume, mean)


def judged(random: Random, volume: float, mean: float) -> Sums:
    """Draw the sums of one bin of one app."""
    w = w_x = w2 = w2_x = w2_x2 = 0.0
    for weight, count in (
        (1.0, poisson(random, volume * GOLD_SHARE)),
        (1 / RATE, poisson(random, volume * (1 - GOLD_SHARE) * RATE)),
    ):
        if not count:
            continue
        scores = draw(random, mean, count)
        total, square = sum(scores), sum(score * score for score in scores)
        w += weight * count
        w_x += weight * total
        w2 += weight * weight * count
        w2_x += weight * weight * total
        w2_x2 += weight * weight * square
    return w, w_x, w2, w2_x, w2_x2
