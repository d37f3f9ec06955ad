"""The strong judge's mean from few of its scores and the cheap judge's of all answers."""

from __future__ import annotations

from random import Random
from statistics import fmean
from typing import Any

import pytest

from benchmarks.two_phase import Kind, estimate
from schemas import Alert, Estimate, FirstPhase, Scored
from streams.monitoring.config import MonitorConfig
from streams.monitoring.monitor import Monitor
from streams.monitoring.series import Series, SeriesKey
from streams.monitoring.two_phase import Pair, TwoPhase
from tests.streams.results import at, failed, scored

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
