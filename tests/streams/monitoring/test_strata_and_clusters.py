"""Estimates and tests hold for strata of different quality and for dependent answers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta
from random import Random

import pytest

from streams.monitoring.clusters import IDLE_SECONDS, LONGEST_SECONDS, MOST_KNOWN, MOST_OPEN
from streams.monitoring.config import MonitorConfig
from streams.monitoring.monitor import Monitor
from streams.monitoring.series import Series, SeriesKey
from streams.monitoring.statistics.estimators import WeightedSums
from streams.monitoring.statistics.strata import Traffic, estimate_strata
from streams.monitoring.watch import Sample
from tests.streams.results import START, at, scored

Law = dict[int, float]
GOOD: Law = {5: 0.65, 4: 0.25, 2: 0.1}
BAD: Law = {1: 0.6, 3: 0.3, 5: 0.1}
CONFIG = MonitorConfig(labels=(), score_ranges={"tone": (1, 5)})


def draw(random: Random, law: Law) -> int:
    return random.choices(list(law), list(law.values()))[0]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("strata", "an_hour"),
    [
        pytest.param([(0.07, 1.0, BAD), (0.93, 0.006, GOOD)], 150, id="complaints always, the rest rarely"),
        pytest.param([(0.4, 1.0, GOOD), (0.6, 0.015, BAD)], 110, id="a rare stratum is worse"),
        pytest.param([(0.2, 0.5, BAD), (0.3, 0.1, GOOD), (0.5, 0.01, {3: 1.0})], 240, id="three rates"),
    ],
)
def test_the_interval_of_the_window_holds_with_strata_of_different_quality(
    strata: Sequence[tuple[float, float, Law]], an_hour: int
) -> None:
    """In 19 of 20 hours, though a stratum may have no answer."""
    random, series = Random(15), Series(CONFIG.rules("tone"))
    truth = sum(share * score * chance for share, _, law in strata for score, chance in law.items())
    hours = hit = 0
    for hour in range(120):
        for second in sorted(random.uniform(0, 3600) for _ in range(an_hour)):
            number = random.choices(range(len(strata)), [share for share, _, _ in strata])[0]
            _, rate, law = strata[number]
            if random.random() < rate:
                moment = START + timedelta(hours=hour, seconds=second)
                sample = Sample(f"e{hour}", draw(random, law), rate, moment, "p", f"s{number}")
                series.add(sample, moment)
        found = series.window(START + timedelta(hours=hour + 1))
        if hour >= 6 and found is not None:
            hours, hit = hours + 1, hit + (found.low <= truth <= found.high)
    assert hours > 100
    assert hit / hours > 0.94


def test_one_stratum_has_the_interval_of_wilson() -> None:
    sums = WeightedSums.of([(4, 0.5), (5, 0.5), (2, 0.5), (5, 0.5), (3, 0.5)])
    traffic = Traffic()
    traffic.add("only", sums, 7200.0)
    found = estimate_strata({"only": sums}, traffic.expected(3600), lowest=1, highest=5)
    assert found == pytest.approx((sums.mean, *(sums.interval(lowest=1, highest=5) or ())))


def test_a_stratum_without_an_answer_widens_the_interval() -> None:
    """Its usual share counts with the whole scale."""
    traffic = Traffic()
    for number in range(20):
        traffic.add("rare", WeightedSums().add(4, 0.01), number * 600.0)
        traffic.add("often", WeightedSums().add(1, 1.0), number * 600.0)
    seen = {"often": WeightedSums.of([(1, 1.0)] * 10)}
    found = estimate_strata(seen, traffic.expected(1200), lowest=1, highest=5)
    assert found == pytest.approx((3.9, 1.0, 5.0), abs=0.2)
    assert estimate_strata({}, traffic.expected(1200), lowest=1, highest=5) is None


def conversations(
    random: Random, law: Law, *, correlation: float, size: int = 8
) -> Iterator[tuple[str, int]]:
    """Yield answers of clusters, two at a time interleaved, each with its cluster's name."""
    number = 0
    while True:
        pair = [(f"{number + k:014x}", draw(random, law)) for k in range(2)]
        number += 2
        for turn in range(2 * size):
            name, common = pair[turn % 2]
            yield name, common if random.random() < correlation**0.5 else draw(random, law)


def test_a_drop_of_dependent_answers_is_called() -> None:
    random, series = Random(5), Series(CONFIG.rules("tone"))
    good, bad = (conversations(random, law, correlation=0.3) for law in (GOOD, BAD))
    called = None
    for number in range(6_000):
        name, score = next(good if number < 4_000 else bad)
        moment = START + timedelta(minutes=number)
        name = name if number < 4_000 else f"f{name[1:]}"
        changes = series.add(Sample(f"e{number}", score, 1.0, moment, cluster=name), moment)
        if number < 4_000:
            assert not changes
        called = called or next((one for one in changes if one.measure.name == "mean"), None)
    assert called is not None
    assert called.current.mean < called.baseline.mean - 1
    assert called.baseline.count <= 500  # clusters


def test_dependent_answers_count_once() -> None:
    """20 conversations of 8 answers are 20 effective ones."""
    answers, series = conversations(Random(8), GOOD, correlation=0.6), Series(CONFIG.rules("tone"))
    for number in range(160):
        moment = START + timedelta(seconds=20 * number)
        name, score = next(answers)
        series.add(Sample("e", score, 0.5, moment, cluster=name), moment)
    found = series.window(START + timedelta(minutes=58))
    assert found is not None
    assert (found.count, found.clustered) == (160, True)
    assert found.effective_count == pytest.approx(20)


def test_a_resumed_cluster_counts_once_and_memory_is_bounded() -> None:
    series = Series(CONFIG.rules("tone"))

    def add(name: str, seconds: float) -> int:
        moment = START + timedelta(seconds=seconds)
        series.add(Sample("e", 4, 1.0, moment, cluster=name), moment)
        return len(series._history)

    assert add("a", 0) == 0
    assert add("a", 100) == 0
    assert add("b", IDLE_SECONDS + 101) == 1  # a is complete
    assert add("a", IDLE_SECONDS + 102) == 1  # resumed
    assert add("c", 3 * IDLE_SECONDS) == 2  # b is complete, a was
    assert add("a", 3 * IDLE_SECONDS + LONGEST_SECONDS) == 3  # c is complete; a begins anew
    assert add("d", 5 * IDLE_SECONDS + LONGEST_SECONDS) == 4
    start = 2 * LONGEST_SECONDS
    for number in range(MOST_KNOWN + 100):
        add(f"n{number}", start + number / 100)
    assert len(series._clusters.opened) == MOST_OPEN
    assert len(series._clusters.known) == MOST_KNOWN


def test_a_part_without_a_baseline_before_the_drop_shows_none_from_it() -> None:
    """An app with 30 answers before everything fell is new: it learns after the recovery."""
    config = MonitorConfig(labels=("app",), baseline_samples=60)
    monitor, random = Monitor(config), Random(4)
    alerts = []
    for number in range(1_600):
        app = "late" if number >= 270 and number % 2 else "old"
        score = draw(random, {1: 0.5, 2: 0.5} if 330 <= number < 700 else GOOD)
        alerts += monitor.observe(scored(number, score, labels={"app": app}), at(number))
        if 400 <= number < 700:
            late = monitor.series[SeriesKey("relevance", "f1", (("app", "late"),))]
            assert late.mean.state == "learning"
            assert late.mean.baseline is None
    assert any(one.kind == "recovered" and not one.labels for one in alerts)
    assert late.mean.baseline is not None
    assert late.mean.baseline.mean > 3.9
    assert not [one for one in alerts if one.labels.get("app") == "late" and one.measure == "mean"]
