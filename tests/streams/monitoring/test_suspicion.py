"""Suspicion before an alarm, by stratum."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from streams.monitoring.config import MonitorConfig
from streams.monitoring.monitor import Monitor
from streams.monitoring.series import Series, SeriesKey
from streams.monitoring.suspicion import AGAIN_SECONDS, Cusum, Suspicions
from tests.streams.monitoring.test_series import RULES, good, run, sample
from tests.streams.randomness import seeded
from tests.streams.results import START, scored

SUSPICIOUS = replace(RULES, suspects=True)


@pytest.mark.parametrize("seed", range(5))
def test_a_fall_is_suspected_soon_and_hardly_anything_else(seed: int) -> None:
    """A fall of half a standard deviation is suspected after some 32 answers; a calm stream, at most in 15%
    of the time. The mean is learnt from 60 answers, and a mended fall clears the suspicion.
    """
    random, cusum = seeded(seed), Cusum()
    calm = 0
    for _ in range(4_000):
        cusum.add(random.gauss(0.7, 0.17))
        calm += cusum.is_raised
    assert calm < 600
    cusum.clear()
    for delay in range(1, 121):  # noqa: B007 - used after it
        cusum.add(random.gauss(0.612, 0.17))
        if cusum.is_raised:
            break
    assert 8 <= delay < 120
    for _ in range(300):
        cusum.add(random.gauss(0.72, 0.17))
    assert not cusum.is_raised
    assert cusum.mean == pytest.approx(0.7, abs=0.03)


def test_the_stratum_that_fell_is_suspected_until_the_alarm_and_after_a_restart() -> None:
    random, series = seeded(2), Series(SUSPICIOUS)

    def two(number: int, bad: float) -> None:
        stratum = ("default", "gold")[number % 2]
        score = random.choice([5, 5, 4, 4, 3, 1]) - (bad if stratum == "gold" else 0)
        series.add(sample(number, score, stratum=stratum), START + timedelta(seconds=number))

    for number in range(1_200):
        two(number, 0)
    series.suspicions["default"].clear()
    series.suspicions["gold"].clear()
    number = 1_200
    while series.suspected != {"gold"}:
        two(number, 0.6)
        number += 1
    assert number < 1_400
    again = Series.load(SUSPICIOUS, series.dump())
    assert again.suspected == {"gold"}
    told: list[tuple[str, set[str]]] = []
    now = [0.0]
    suspicions = Suspicions(clock=lambda: now[0])

    def look(*, asks: bool = True) -> None:
        own = replace(again, key=SeriesKey("relevance", "f", ()))
        part = replace(again, key=SeriesKey("relevance", "f", (("app", "a"),)))
        suspicions.look([own, part], (lambda *one: told.append((one[0], set(one[1])))) if asks else None)

    look(asks=False)
    look()
    look()
    now[0] = AGAIN_SECONDS + 1
    look()
    again.suspicions["gold"].clear()
    look()
    assert told == [("relevance", {"gold"})] * 2 + [("relevance", set())]
    while series.mean.state != "dropped":
        two(number, 2.5)
        number += 1
    two(number, 2.5)
    assert not series.suspected


def test_without_a_sampling_budget_nothing_is_suspected() -> None:
    """Nor in a part of the traffic."""
    for rules, labels in ((RULES, ()), (SUSPICIOUS, (("app", "a"),))):
        series = Series(rules, SeriesKey("relevance", "f", labels))
        run(series, good, range(200), seeded(1))
        assert not series.suspicions
    monitor = Monitor(MonitorConfig(suspects=True))
    monitor.observe(scored(1, 3), START)
    (series,) = (one for one in monitor.series.values() if not one.key.labels)
    assert list(series.suspicions) == ["default"]
