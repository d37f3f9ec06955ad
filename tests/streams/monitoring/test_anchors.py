"""Shifts of the judge itself: what is tolerated, whose turn it is, and what is found of simulated judges."""

from __future__ import annotations

import json
from collections.abc import Sequence
from math import sqrt
from random import Random
from statistics import median
from typing import Literal

import pytest
from pydantic import TypeAdapter

from benchmarks import anchors as simulation
from schemas import Alert, Anchor, Evaluator, FirstPhase, Scored
from streams.monitoring.anchors import EVERY, AnchorWatch, Enrolment, anchor_id, clipped_mean, first_error
from streams.monitoring.config import MonitorConfig, mean_of
from streams.monitoring.monitor import Monitor, MonitorSnapshot, gauges_of
from tests.streams.results import at, scored, task_of

LITTLE, MUCH, UNEQUAL, SKEWED = simulation.LAWS


def anchor(number: int, scores: Sequence[float], *, fingerprint: str = "f1", seconds: float = 0) -> Anchor:
    task = task_of(scored(number, 4))
    return Anchor(
        anchor_id=task.result_id,
        metric="relevance",
        task=task,
        evaluator=Evaluator(fingerprint=fingerprint, prompt="p", schema_="s", scoring="v1", model="m"),
        scores=tuple(scores),
        known_bad=False,
        enrolled_at=at(seconds),
    )


def enrolled(count: int, *scores: float) -> Enrolment:
    return Enrolment.of([anchor(number, scores) for number in range(count)])


def watched(enrolment: Enrolment, worse: Literal["down", "up"] = "down") -> AnchorWatch:
    """Return a watch as after a restart."""
    state = TypeAdapter(AnchorWatch)
    watch = state.validate_json(state.dump_json(AnchorWatch(enrolment.since)))
    watch.configure(enrolment, mean_of(1, 5, min_drop=0.1, worse=worse))
    return watch


def test_the_error_of_the_first_means_and_the_shift_by_clipping() -> None:
    """Of two anchors, one with scores 3, 4, 5 (variance 1), on a scale four wide.

    sum of s² / (K² n) = 1 / (4 * 3) = 1/12; imagined: 0.75 * 16 / 36 = 1/3; together 5/12.
    5, 5, 2 against their others' means 3.5, 3.5, 5: differences 1.5, 1.5, -3; beyond 1 are 0.5 and 0.5.
    """
    assert first_error([(3, 4, 5), (2, 2, 2)], 4.0) == pytest.approx(sqrt(5 / 12))
    assert clipped_mean([(5, 5, 2)], 1.0) == pytest.approx(1 / 3)
    assert clipped_mean([(-5, -5, -2)], 1.0) == pytest.approx(2 / 3)


def test_what_is_tolerated() -> None:
    """A hundred equal anchors: 2.6 * sqrt(0.75) * 4 / 300 = 0.03, less than the smallest relevant change.

    Twenty that vary by a variance of 1: 2.6 * sqrt(1 / 60 + 0.75 * 16 / 3600) = 0.368.
    """
    equal = enrolled(100, 4, 4, 4)
    assert watched(equal).tests["stricter"].measure.target == pytest.approx(-0.1)
    varying = enrolled(20, 3, 4, 5)
    assert watched(varying).tests["kinder"].measure.target == pytest.approx(0.3677, abs=1e-4)


def test_the_turn_is_that_of_the_ids_and_begins_again() -> None:
    enrolment = enrolled(3, 4, 4, 4)
    turns = [enrolment.turn(number + 1) for number in range(4)]
    ids = sorted(enrolment.anchors)
    assert [anchor_id(task) for task, _ in turns] == [*ids, ids[0]]
    assert [name for _, name in turns][::3] == [
        "anchor-20250314T140000.000000Z-1",
        "anchor-20250314T140000.000000Z-4",
    ]


def test_no_anchor_is_due_with_the_cheap_judge_of_two() -> None:
    """Anchors are judged by the strong one: those enrolled before two-phase judging would be paid in vain."""
    phase = FirstPhase(fingerprint="f1", model="judge-1", score=4, probability=0.1, strong="f2")
    monitor = Monitor(MonitorConfig(), {"relevance": enrolled(3, 4, 4, 4)})
    for number in range(2 * EVERY):
        monitor.observe(scored(number, 4).model_copy(update={"first_phase": phase}), at(number))
    assert monitor.due == []


def test_only_what_was_enrolled_last_is_valid() -> None:
    old = [anchor(number, (4, 4, 4)) for number in range(3)]
    new = anchor(9, (4, 4, 4), fingerprint="f2", seconds=60)
    assert Enrolment.of([*old, new]) == Enrolment(new.evaluator, at(60), {new.anchor_id: new})


@pytest.mark.parametrize("rising", [False, True])
def test_a_shift_is_named_with_its_size_and_start_and_its_end_is_found(rising: bool) -> None:
    """Scores fall by one point after 100 calls: stricter, or kinder if low scores are good; later steady."""
    enrolment = enrolled(50, 3, 3, 3)
    anchors, watch = list(enrolment.anchors.values()), watched(enrolment, "up" if rising else "down")
    changed = []
    for number in range(400):
        score = 2.0 if 100 <= number < 250 else 3.0
        if watch.add(anchors[number % 50], score, at(number)):
            changed.append((number, watch.words))
            estimate = watch.difference
            assert watch.shift == "steady" or (estimate is not None and estimate.low <= -1 <= estimate.high)
    (found, words), (over, steady) = changed
    assert 100 < found < 170
    assert words == f"{'kinder' if rising else 'stricter'} by 1.00 since 2025-03-14 14:01 UTC"
    assert 250 < over < 400
    assert steady == "steady"


def test_a_judge_that_varies_is_steady_until_it_shifts() -> None:
    """Medians over simulated runs; more of them, and more laws, in `python -m benchmarks anchors`."""
    assert median(simulation.delays(1, LITTLE, 100, -0.5, 10)) <= 110
    assert median(simulation.delays(1, LITTLE, 100, 0.5, 10)) <= 110
    assert median(simulation.delays(1, LITTLE, 100, -0.25, 8)) <= 420
    assert median(simulation.delays(1, UNEQUAL, 100, 0.5, 8)) <= 150


@pytest.mark.parametrize(("law", "count"), [(LITTLE, 100), (MUCH, 20), (UNEQUAL, 20), (SKEWED, 20)])
def test_an_unchanged_judge_is_not_called(law: str, count: int) -> None:
    """The first means' errors stay for all calls; they are tolerated, also of few and unequal anchors."""
    assert simulation.false_calls(1, law, count, 4, 2_000) == 0


@pytest.mark.parametrize(("errors", "shift"), [(2.6, "steady"), (0.0, "stricter")])
def test_first_means_that_are_too_high_by_chance_are_no_shift(
    monkeypatch: pytest.MonkeyPatch, errors: float, shift: str
) -> None:
    """The true mean is 0.25 below the first means: 1.8 errors of 20 anchors with a variance of 1, 0.141."""
    monkeypatch.setattr("streams.monitoring.anchors.ERRORS_TOLERATED", errors)
    enrolment = enrolled(20, 3, 4, 5)
    anchors, watch, random = list(enrolment.anchors.values()), watched(enrolment), Random(1)
    for number in range(5_000):
        watch.add(anchors[number % 20], random.choice((3, 4, 4, 4)), at(number))
    assert watch.error == pytest.approx(0.141, abs=1e-3)
    assert (watch.shift, len(watch.history)) == (shift, 500)


def test_the_interval_has_the_error_of_the_first_means() -> None:
    """Of 400 calls that all equal the first means it is not narrower than 1.96 of their errors."""
    enrolment = enrolled(20, 3, 4, 5)
    anchors, watch = list(enrolment.anchors.values()), watched(enrolment)
    for number in range(400):
        watch.add(anchors[number % 20], 4.0, at(number))
    found = watch.difference
    assert found is not None
    assert found.mean == 0
    assert found.high == pytest.approx(-found.low)
    assert found.high >= 1.96 * watch.error


def replayed(enrolment: Enrolment, number: int, score: int) -> Scored:
    """The new judgement of the anchor whose turn it is."""
    task, name = enrolment.turn(number)
    return scored(int(task.event_id.removeprefix("e")), score, replay_id=name, seconds=10_000 + number)


def test_new_judgements_are_in_no_series_and_are_noted_on_alerts() -> None:
    """The series are as without them; the summary of a drop says what the judge did on its anchors."""
    enrolment = enrolled(30, 5, 5, 5)
    config = MonitorConfig(labels=(), baseline_samples=20)
    with_anchors, without = Monitor(config, {"relevance": enrolment}), Monitor(config)
    noted, plain = list[Alert](), list[Alert]()
    number = 0
    for count in range(400):
        live = scored(1_000 + count, 5 if count < 300 else 3)
        noted += with_anchors.observe(live, at(count))
        plain += without.observe(live, at(count))
        if count < 300 and count % 4 == 0:
            number += 1
            with_anchors.observe(replayed(enrolment, number, 4), at(count))
    assert len(with_anchors.due) == 400 // EVERY
    assert with_anchors.shifts == [
        "the judge of relevance on its anchors: stricter by 1.00 since 2025-03-14 14:00 UTC"
    ]
    assert with_anchors.last_results == without.last_results
    (key,) = with_anchors.series
    ours, others = (json.loads(one.series[key].dump()) for one in (with_anchors, without))
    assert ours.pop("anchors")["calls"] == number
    assert others.pop("anchors") is None
    assert ours == others
    note = "; on its anchors the judge is stricter by 1.00 since 2025-03-14 14:00 UTC"
    assert noted[0].summary == plain[0].summary + note
    gauges = {one.name: one.value for one in gauges_of(MonitorSnapshot([with_anchors], at(400)))}
    assert (gauges["anchors_mean"], gauges["anchors_calls"], gauges["anchors_shifted"]) == (-1, number, -1)


def test_other_evaluators_earlier_enrolments_and_repeats_do_not_count_and_a_later_one_starts_over() -> None:
    """Also after the state was saved and restored."""
    enrolment = enrolled(30, 5, 5, 5)
    enrolments = {"relevance": enrolment}
    monitor = Monitor(MonitorConfig(labels=()), enrolments)
    monitor.observe(scored(1, 5), at(0))
    first = replayed(enrolment, 1, 4)
    fallback = first.evaluator.model_copy(update={"fingerprint": "f2"})
    earlier = (first.replay_id or "").replace("2025", "2024")
    for result in (
        first,
        first,
        replayed(enrolment, 2, 4).model_copy(update={"evaluator": fallback}),
        replayed(enrolment, 3, 4).model_copy(update={"replay_id": earlier}),
    ):
        monitor.observe(result, at(1))
    (key,) = monitor.series
    again = Monitor(MonitorConfig(labels=()), enrolments)
    again.load(key, monitor.series[key].dump())
    counts = []
    for number, seconds in ((2, 2), (3, 61)):
        again.observe(scored(number, 5), at(seconds))
        watch = again.series[key].anchors
        counts.append(watch and (watch.calls, watch.live))
        later = [anchor(number, (4, 4, 4), seconds=60) for number in range(30)]
        enrolments["relevance"] = Enrolment.of(later)
    assert counts == [(1, 2), (0, 1)]
