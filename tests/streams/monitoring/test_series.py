"""The measures of a series, its delay and false alarms over simulated streams, and suspicions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from math import cos, pi
from random import Random

import pytest

from streams.monitoring.config import MonitorConfig
from streams.monitoring.monitor import Monitor, build_alert
from streams.monitoring.partitions import AGAIN_SECONDS, Suspicions
from streams.monitoring.series import Series, SeriesKey
from streams.monitoring.statistics.detectors import Cusum
from streams.monitoring.watch import Change, Sample
from tests.streams.results import START, at, scored

GOOD = [5] * 14 + [4] * 4 + [3, 1]  # mean 4.5, 5% of at most 2
RULES = MonitorConfig(labels=("app",)).rules("relevance")
MEAN_ALONE = MonitorConfig(labels=(), shares={"relevance": ()}).rules("relevance")
Draw = Callable[[Random, int], Sample]


def sample(number: int, score: float, **fields: object) -> Sample:
    return Sample(f"e{number}", score, 1.0, START + timedelta(seconds=number), **fields)  # type: ignore[arg-type]


def run(series: Series, draw: Draw, numbers: range, random: Random) -> list[tuple[int, Change]]:
    """Add samples; return each change with the number of its sample."""
    out = []
    for number in numbers:
        one = draw(random, number)
        out += [(number, change) for change in series.add(one, one.occurred_at)]
    return out


def level(*scores: int) -> Draw:
    return lambda random, number: sample(number, random.choice(scores))


good = level(*GOOD)


def test_a_changed_share_is_a_drop_at_an_equal_mean() -> None:
    random, series = Random(1), Series(RULES)
    assert run(series, level(4, 5), range(1000), random) == []
    changes = run(series, level(*[5] * 7, 1), range(1000, 1400), random)
    assert [(change.kind, change.measure.name) for _, change in changes] == [("drop", "share_at_most_2")]
    change = changes[0][1]
    assert change.baseline.mean == 0
    assert 0.05 < change.current.mean < 0.3
    assert change.current.low < 0.125 < change.current.high


def test_a_further_fall_of_what_has_dropped_is_an_alert_of_its_own() -> None:
    """The mean falls from 4.5 to 3, and after 500 answers to 1.5."""
    random, series = Random(2), Series(MEAN_ALONE)
    assert run(series, good, range(500), random) == []
    changes = run(series, level(2, 3, 4), range(500, 1000), random)
    changes += run(series, level(1, 2), range(1000, 1300), random)
    assert [(change.kind, change.further) for _, change in changes] == [("drop", False), ("drop", True)]
    first, second = (change for _, change in changes)
    assert first.current.mean == pytest.approx(3, abs=0.5)
    assert second.baseline.mean == pytest.approx(3, abs=0.2)
    assert second.began_at >= START + timedelta(seconds=990)
    assert series.mean.dropped_at == first.began_at


def test_a_change_of_the_mix_is_not_a_drop() -> None:
    """App "weak" always has 3 and the other 4.75; the share of "weak" goes from a fifth to four fifths."""
    random, series = Random(3), Series(RULES)

    def mixed(share: float) -> Draw:
        def draw(random: Random, number: int) -> Sample:
            weak = random.random() < share
            return sample(number, random.choice([2, 3, 4] if weak else [5, 5, 5, 4]), part=f"app={weak}")

        return draw

    assert run(series, mixed(0.2), range(2000), random) == []
    changes = run(series, mixed(0.8), range(2000, 2600), random)
    assert {change.measure.name for _, change in changes} == {"mix"}
    alert = build_alert(changes[0][1], SeriesKey("relevance", "f", ()), scored(1, 5), at(9_999))
    assert "UTC, because the mix of labels changed, not within any label value; judge" in alert.summary
    assert series.mean.state == "watching"

    # Both apps lower by a point: this is a drop.
    def lower(random: Random, number: int) -> Sample:
        scores = [1, 2, 3] if number % 5 else [4, 4, 4, 3]
        return sample(number, random.choice(scores), part=f"app={bool(number % 5)}")

    worse = run(series, lower, range(2600, 3000), random)
    assert ("drop", "mean") in {(change.kind, change.measure.name) for _, change in worse}


def test_a_stratum_without_answers_in_the_window_is_named_and_samples_by_key_are_clustered() -> None:
    series = Series(RULES)
    series.add(sample(0, 5, stratum="gold"), START)
    series.add(sample(1, 5, stratum="default"), START)
    late = START + timedelta(hours=2)
    one = Sample("e2", 4, 1.0, late, stratum="default")
    series.add(one, late)
    window = series.window(late)
    assert window is not None
    assert (window.missing_strata, window.clustered) == (("gold",), False)
    assert series.missing_strata(late + timedelta(days=8)) == ()
    series.add(sample(3, 5, policy="by-key-1234"), START)
    assert series.recent is not None
    assert series.recent.clustered


@pytest.mark.slow
def test_a_restored_series_gives_the_same_alerts() -> None:
    """Restored while learning, watching and dropped, amid conversations of two strata, it says the same."""

    def draw(random: Random, number: int) -> Sample:
        scores = GOOD if number < 1000 or number >= 1600 else [2, 3, 4] if number < 1300 else [1, 2]
        moment = START + timedelta(minutes=3 * number)
        labels = {"stratum": f"s{number % 2}", "policy": "p", "part": f"app={number % 3}"}
        labels["cluster"] = f"{number // 4:014x}"
        return Sample(f"e{number}", random.choice(scores), (0.2, 1.0)[number % 2], moment, **labels)

    series = Series(RULES)
    undisturbed = run(series, draw, range(3000), Random(6))
    random, after, changes = Random(6), Series(RULES), []
    for stretch in (range(30), range(30, 701), range(701, 1202), range(1202, 3000)):
        after = Series.load(RULES, after.dump())
        changes += run(after, draw, stretch, random)
    assert changes == undisturbed
    assert {change.kind for _, change in changes} == {"drop", "recovered"}
    assert after == series


def test_the_state_of_a_measure_that_is_new_is_not_needed() -> None:
    few = Series(MEAN_ALONE)
    run(few, good, range(200), Random(7))
    more = Series.load(RULES, few.dump())
    states = {watch.measure.name: watch.state for watch in more.watches}
    assert states == {"mean": "watching", "share_at_most_2": "learning", "mix": "learning"}


def edited(policy: str, rate: float) -> Draw:
    """An eighth of the answers are disliked and all judged, the rest at a rate."""

    def draw(random: Random, number: int) -> Sample:
        if random.random() < 1 / (1 + 7 * rate):
            return sample(number, random.choice((1, 2, 2, 3, 4)), policy=policy, stratum="disliked")
        score = random.choice((3, 4, 4, 5, 5, 5))
        return Sample(f"e{number}", score, rate, START, policy, "default")

    return draw


def swinging(random: Random, number: int) -> Sample:
    """Begin when a daily swing of 0.4 is at its highest."""
    moment = START + timedelta(minutes=1.5 * number)
    bad = random.random() < 0.16 - 0.4 / 2.6 * cos(2 * pi * number * 1.5 / 1440)
    return Sample(f"e{number}", random.choice([1, 2, 3] if bad else [4, 5, 5, 5]), 1.0, moment)


def enormous(_: Random, number: int) -> Sample:
    return Sample(f"e{number}", 5, 1 / 7.2e16, START)


def tiny(_: Random, number: int) -> Sample:
    return Sample(f"e{number}", 5, 0.002, START, policy="tiny")


@pytest.mark.parametrize(
    ("stretches", "changes"),
    [
        # The rest is judged at 0.05, then at 0.004: before its first answer only disliked ones are seen.
        pytest.param([(800, edited("before", 0.05)), (1200, edited("after", 0.004))], [], id="edited rule"),
        pytest.param([(1000, good), (1, enormous), (300, level(1, 2, 3))], ["drop"], id="enormous weight"),
        # A policy with a tiny rate does not deafen the one before it.
        pytest.param([(1000, good), (20, tiny), (40, level(1, 2, 3))], ["drop"], id="tiny rate"),
        pytest.param([(3000, swinging)], [], id="a start in a good morning"),
        # A fall of 1.5 is repaired at its alert, or 300 answers later: the mean is back within 400.
        pytest.param([(2000, good), (40, level(2, 3, 4)), (400, good)], ["drop", "recovered"], id="repaired"),
        pytest.param([(2000, good), (340, level(2, 3, 4)), (400, good)], ["drop", "recovered"], id="later"),
    ],
)
def test_what_the_mean_is_said_to_do(stretches: list[tuple[int, Draw]], changes: list[str]) -> None:
    for seed in range(3):
        random, series, begin, found = Random(seed), Series(MEAN_ALONE), 0, []
        for count, draw in stretches:
            found += run(series, draw, range(begin, begin + count), random)
            begin += count
        assert [change.kind for _, change in found] == changes


SUSPICIOUS = replace(RULES, suspects=True)


@pytest.mark.parametrize("seed", range(5))
def test_a_fall_is_suspected_soon_and_hardly_anything_else(seed: int) -> None:
    """Half a standard deviation after some 32 answers; a calm stream in at most 15% of the time."""
    random, cusum = Random(seed), Cusum()
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
    random, series = Random(2), Series(SUSPICIOUS)

    def two(number: int, bad: float) -> None:
        stratum = ("default", "gold")[number % 2]
        score = random.choice([5, 5, 4, 4, 3, 1]) - (bad if stratum == "gold" else 0)
        series.add(sample(number, score, stratum=stratum), START + timedelta(seconds=number))

    for number in range(1_200):
        two(number, 0)
    for one in series.suspicions.values():
        one.clear()
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
        run(series, good, range(200), Random(1))
        assert not series.suspicions
    monitor = Monitor(MonitorConfig(suspects=True))
    monitor.observe(scored(1, 3), START)
    (series,) = (one for one in monitor.series.values() if not one.key.labels)
    assert list(series.suspicions) == ["default"]
