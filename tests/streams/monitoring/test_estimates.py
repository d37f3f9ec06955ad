"""Estimates and tests hold for strata of different quality, for dependent answers, and with two judges."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta
from random import Random
from statistics import fmean
from typing import Any

import pytest

from benchmarks.two_phase import Kind, estimate
from schemas import Alert, Estimate, FirstPhase, Scored
from streams.monitoring.clusters import IDLE_SECONDS, LONGEST_SECONDS, MOST_KNOWN, MOST_OPEN
from streams.monitoring.config import MonitorConfig
from streams.monitoring.monitor import Monitor
from streams.monitoring.series import Series, SeriesKey
from streams.monitoring.statistics.estimators import WeightedSums
from streams.monitoring.statistics.strata import Traffic, estimate_strata
from streams.monitoring.two_phase import Pair, TwoPhase
from streams.monitoring.watch import Sample
from tests.streams.results import START, at, failed, scored

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


Q = 0.25
PLAIN = MonitorConfig(labels=(), baseline_samples=20, shares={"relevance": ()})


def judged(number: int, cheap: int, strong: int | None) -> Scored:
    """Return the result of an answer that was sampled for certain; the strong judge is drawn with 1/4."""
    drawn = strong is not None
    phase = FirstPhase(fingerprint="cheap", model="small", score=cheap, probability=Q, strong="f1")
    named: dict[str, Any] = {"fingerprint": "f1" if drawn else "cheap", "probability": Q if drawn else 1 - Q}
    result = scored(number, cheap if strong is None else strong, **named)
    evaluator = result.evaluator if drawn else result.evaluator.model_copy(update={"model": "small"})
    return result.model_copy(update={"first_phase": phase, "evaluator": evaluator})


def window_of(monitor: Monitor, seconds: float) -> Estimate:
    """Return the window of the strong judge's series."""
    window = monitor.series[SeriesKey("relevance", "f1", ())].window(at(seconds))
    assert window is not None
    return window


def test_each_judge_has_a_series_of_its_own_and_the_strong_ones_mean_uses_both() -> None:
    """The cheap judge says 3 of all, the strong one 4 of a quarter, at first as if the two agreed.

    The first strong score stands for four answers; with one pair of weight 4, the next ones' prediction is
    3 + 1/11 = 3.0909: the mean is (4 · 4 + 2 · 3.0909) / 6. So is that of a strong verdict which failed.
    """
    monitor = Monitor(PLAIN)
    for number, strong in enumerate([4, None, None]):
        monitor.observe(judged(number, 3, strong), at(number))
    own, cheap = (monitor.series[SeriesKey("relevance", name, ())] for name in ("f1", "cheap"))
    assert [len(one._history) for one in (own, cheap)] == [1, 3]
    assert [(one.score, one.probability) for one in cheap._history] == [(3, 1.0)] * 3
    assert (own._history[0].score, own._history[0].probability, cheap.model) == (4, Q, "small")
    window = window_of(monitor, 3)
    assert window.mean == pytest.approx((4 * 4 + 2 * (3 + 1 / 11)) / 6)
    assert window.count == 1
    assert (window.low, window.high) == (1, 5)  # one strong score says nothing of the spread
    assert Series.load(own.rules, own.dump()).window(at(3)) == window
    lost = failed(3, probability=Q).model_copy(update={"first_phase": judged(3, 3, 3).first_phase})
    monitor.observe(lost, at(3))
    assert window_of(monitor, 3).mean == pytest.approx((4 * 4 + 3 * (3 + 1 / 11)) / 7)


def test_where_two_phases_begin_the_strong_scores_of_the_window_count() -> None:
    """Of 200 answers before, with 2 and 4 in turn, the mean is 3; the cheap judge then says 5 of ten."""
    monitor = Monitor(PLAIN)
    for number in range(200):
        monitor.observe(scored(number, 2 + number % 2 * 2, fingerprint="f1"), at(number))
    before = window_of(monitor, 200)
    for number in range(200, 210):
        monitor.observe(judged(number, 5, None), at(number))
    window = window_of(monitor, 210)
    assert window.mean == pytest.approx((200 * 3 + 10 * 5) / 210)  # before a pair f is the cheap score
    assert window.high - window.low > before.high - before.low


def test_a_cheap_score_off_the_scale_counts_nowhere() -> None:
    """As after a change of the scale, or of another producer."""
    monitor = Monitor(PLAIN)
    phase = FirstPhase(fingerprint="cheap", model="small", score=1e308, probability=Q, strong="f1")
    for one in (scored(1, 4, probability=Q), failed(2, probability=Q)):
        monitor.observe(one.model_copy(update={"first_phase": phase}), at(1))
    assert not monitor.series


def test_a_prediction_is_that_of_the_answers_which_each_pair_stands_for() -> None:
    """The strong judge says 1 of a stratum judged whole and 5 of one judged 1 of 100 times, the cheap one 5.

    Where strong verdicts fail, the prediction stands in for them: (1 + 100 * 5) / 101 = 4.96, and not 3.
    """
    state, measure = TwoPhase(), PLAIN.measures("relevance")[0]
    for strong, probability, stratum in [(1.0, 1.0, "rare"), (5.0, 0.01, "common")] * 100:
        state.add(Pair(5.0, strong, Q, probability, at(0)), measure, stratum, at(0), 3600.0)
    assert state.prediction.of(5.0, 1, 5) == pytest.approx(4.96, abs=0.02)
    assert state.prediction.pairs == pytest.approx(100, abs=5)


def test_a_fall_is_called_by_each_judge_of_its_own_scores() -> None:
    """Alerts name the evaluator; the strong one's series hears a quarter, so it calls later."""
    monitor, alerts = Monitor(PLAIN), list[Alert]()
    for number in range(1_600):
        score = 5 if number < 800 else 2
        drawn = number % 4 == 0
        alerts += monitor.observe(judged(number, score, score if drawn else None), at(number))
    first, second = alerts
    assert [(one.kind, one.fingerprint) for one in (first, second)] == [("drop", "cheap"), ("drop", "f1")]
    assert (first.model, second.model) == ("small", "judge-1")
    assert at(800) < first.raised_at < second.raised_at < at(1_000)
    assert second.current.mean == pytest.approx(2)


@pytest.mark.parametrize(
    "kind", [Kind("constant"), Kind("lies"), Kind("random"), Kind("equal", 0.2, 1.0, fails=0.3)]
)
def test_the_mean_is_unbiased_whatever_the_cheap_judge_says(kind: Kind) -> None:
    """The truth is 1 · 0.03 + 2 · 0.04 + 3 · 0.1 + 4 · 0.28 + 5 · 0.55 = 4.28, by 40 windows of 400."""
    chance = Random(7)
    found = [estimate(kind, 400, 400, chance) for _ in range(40)]
    assert fmean(mean for mean, _, _ in found) == pytest.approx(4.28, abs=0.12)
    assert sum(low <= 4.28 <= high for _, low, high in found) >= 36
