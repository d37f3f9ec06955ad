from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from streams.telemetry.instruments import Metrics
from streams.worker.status import LONGEST_STEP_SECONDS, MAX_POINTS, STEP_SECONDS, History, Point, totals_of


def _point(at: float) -> Point:
    return Point(at=at, events={"sampled": int(at)}, lag=1, lines={"relevance f": (4.0, 3.0, 5.0)})


def test_points_come_at_even_distances() -> None:
    """A point that is earlier than one step after the last is dropped."""
    history = History()
    for at in (100.0, 100.5, 102.0, 103.0, 104.0):
        history.add(_point(at))
    assert history.as_values() == {
        "step": 2.0,
        "at": [100.0, 102.0, 104.0],
        "lag": [1, 1, 1],
        "events": {"sampled": [100, 102, 104]},
        "lines": {"relevance f": [(4.0, 3.0, 5.0)] * 3},
    }


def test_a_line_that_begins_late_has_gaps_before() -> None:
    """Missing values are None, not 0."""
    history = History()
    history.add(Point(at=0.0, events={}, lag=0))
    history.add(_point(2.0))
    assert history.as_values()["lines"] == {"relevance f": [None, (4.0, 3.0, 5.0)]}


@given(st.integers(min_value=1, max_value=6 * MAX_POINTS))
def test_it_stays_small_and_keeps_the_newest(count: int) -> None:
    """There are at most MAX_POINTS points with equal distances, including the newest."""
    history = History()
    for number in range(count):
        history.add(_point(number * STEP_SECONDS))
    at = history.as_values()["at"]
    assert len(at) <= MAX_POINTS
    assert (count - 1) * STEP_SECONDS - at[-1] < history.step_seconds
    assert len({b - a for a, b in pairwise(at)}) <= 1
    assert history.step_seconds <= LONGEST_STEP_SECONDS


def test_a_long_run_covers_more_than_an_hour() -> None:
    """256 points with steps of 16 seconds cover 68 minutes."""
    history = History()
    for number in range(10_000):
        history.add(_point(number * STEP_SECONDS))
    at = history.as_values()["at"]
    assert at[-1] - at[0] == (MAX_POINTS - 1) * LONGEST_STEP_SECONDS > 3600


def test_totals_add_up_over_labels_and_outcomes() -> None:
    """Without results they are empty, not 0.

    19 calls of 0.3 s and one failed of 3 s: mean 8.7 / 20 = 0.435 s, 95% in the bucket up to 0.5 s. A call
    longer than 120 s, the last bucket, has no known bound.
    """
    metrics = Metrics(CollectorRegistry())
    names = ("results", "scores", "dead_letters", "corrections", "suspicions")
    assert totals_of(metrics.registry.collect()) == {name: {} for name in names} | {"judges": []}
    for _ in range(19):
        metrics.observe_call("primary", "m", "scored", 0.3)
    metrics.observe_call("primary", "m", "reply_cut", 3.0)
    metrics.observe_call("spare", "m", "scored", 500.0)
    metrics.count("judgestream_dead_letters_total", "undecodable")
    totals = totals_of(metrics.registry.collect())
    primary, spare = totals["judges"]
    assert [primary[name] for name in ("endpoint", "model", "calls", "failed")] == ["primary", "m", 20, 1]
    assert round(primary["mean_seconds"], 6) == 0.435
    assert (primary["p95_below_seconds"], spare["p95_below_seconds"]) == (0.5, None)
    assert primary["cost_usd"] is None
    assert totals["dead_letters"] == {"undecodable": 1}
