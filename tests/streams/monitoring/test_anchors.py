"""Shifts of the judge itself: what is tolerated, whose turn it is, and what is found of simulated judges."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from math import sqrt
from statistics import median

import pytest

from benchmarks import anchors as simulation
from schemas import Anchor, Evaluator
from streams.monitoring.anchors import EVERY, AnchorWatch, clipped_mean, first_error, valid_anchors
from tests.streams.randomness import seeded
from tests.streams.results import START, at, scored, task_of

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


def watched(anchors: Sequence[Anchor], **options: bool) -> AnchorWatch:
    watch = AnchorWatch("f1", START)
    watch.configure(anchors, width=4.0, min_change=0.1, **options)
    return watch


def test_the_error_of_the_first_means() -> None:
    """Of two anchors, one with scores 3, 4, 5 (variance 1), on a scale four wide.

    sum of s² / (K² n) = 1 / (4 * 3) = 1/12; imagined: 0.75 * 16 / 36 = 1/3; together 5/12.
    """
    assert first_error([(3, 4, 5), (2, 2, 2)], 4.0) == pytest.approx(sqrt(5 / 12))


def test_the_shift_by_clipping() -> None:
    """5, 5, 2 against their others' means 3.5, 3.5, 5: differences 1.5, 1.5, -3; beyond 1 are 0.5 and 0.5."""
    assert clipped_mean([(5, 5, 2)], 1.0) == pytest.approx(1 / 3)
    assert clipped_mean([(-5, -5, -2)], 1.0) == pytest.approx(2 / 3)


def test_what_is_tolerated() -> None:
    """A hundred equal anchors: 2.6 * sqrt(0.75) * 4 / 300 = 0.03, less than the smallest relevant change.

    Twenty that vary by a variance of 1: 2.6 * sqrt(1 / 60 + 0.75 * 16 / 3600) = 0.368.
    """
    assert watched([anchor(number, (4, 4, 4)) for number in range(100)]).tolerated == pytest.approx(0.1)
    assert watched([anchor(number, (3, 4, 5)) for number in range(20)]).tolerated == pytest.approx(
        0.3677, abs=1e-4
    )


def test_one_anchor_is_due_with_every_twentieth_live_result_in_turn() -> None:
    """The turn is that of the ids, and results of another evaluator do not count."""
    anchors = valid_anchors([anchor(number, (4, 4, 4)) for number in range(3)])
    assert [one.anchor_id for one in anchors] == sorted(one.anchor_id for one in anchors)
    watch, due = watched(anchors), []
    for number in range(4 * EVERY):
        assert watch.due("f2", anchors, START) is None
        if (found := watch.due("f1", anchors, START)) is not None:
            due.append((number + 1, found))
    assert due == [(20, anchors[0]), (40, anchors[1]), (60, anchors[2]), (80, anchors[0])]


def test_only_the_evaluator_enrolled_last_is_valid() -> None:
    """Anchors of an earlier prompt or model are void."""
    old = [anchor(number, (4, 4, 4)) for number in range(3)]
    new = anchor(9, (4, 4, 4), fingerprint="f2", seconds=60)
    assert valid_anchors([*old, new]) == [new]
    assert valid_anchors([]) == []


@pytest.mark.parametrize("rising", [False, True])
def test_a_shift_is_named_with_its_size_and_start_and_its_end_is_found(rising: bool) -> None:
    """Scores fall by one point after 100 calls: stricter, or kinder if low scores are good; later steady."""
    anchors = valid_anchors([anchor(number, (3, 3, 3)) for number in range(50)])
    watch = watched(anchors, rising=rising)
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
    anchors = valid_anchors([anchor(number, (3, 4, 5)) for number in range(20)])
    watch, random = watched(anchors), seeded(1)
    for number in range(5_000):
        watch.add(anchors[number % 20], random.choice((3, 4, 4, 4)), at(number))
    assert watch.error == pytest.approx(0.141, abs=1e-3)
    assert watch.shift == shift


def test_the_interval_has_the_error_of_the_first_means() -> None:
    """Of 400 calls that all equal the first means it is not narrower than 1.96 of their errors."""
    anchors = valid_anchors([anchor(number, (3, 4, 5)) for number in range(20)])
    watch = watched(anchors)
    for number in range(400):
        watch.add(anchors[number % 20], 4.0, START + timedelta(seconds=number))
    found = watch.difference
    assert found is not None
    assert found.mean == 0
    assert found.high == pytest.approx(-found.low)
    assert found.high >= 1.96 * watch.error
