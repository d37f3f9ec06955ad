from __future__ import annotations

from prometheus_client import CollectorRegistry

from streams.telemetry.instruments import Metrics
from streams.worker.status import totals_of


def test_totals_of_nothing_are_empty() -> None:
    """Without results the totals are empty, not 0."""
    names = ("results", "scores", "dead_letters", "corrections", "suspicions")
    totals = totals_of(Metrics(CollectorRegistry()).registry.collect())
    assert totals == {name: {} for name in names} | {"judges": []}


def test_calls_of_an_endpoint_are_added_up_over_outcomes() -> None:
    """Calls of an endpoint are summed over outcomes.

    19 calls of 0.3 s and one failed of 3 s: 5% failed, mean 8.7 / 20 = 0.435 s, 95% in the bucket up to 0.5
    s.
    """
    metrics = Metrics(CollectorRegistry())
    for _ in range(19):
        metrics.observe_call("primary", "m", "scored", 0.3)
    metrics.observe_call("primary", "m", "reply_cut", 3.0)
    (judge,) = totals_of(metrics.registry.collect())["judges"]
    assert (judge["endpoint"], judge["model"], judge["calls"], judge["failed"]) == ("primary", "m", 20, 1)
    assert round(judge["mean_seconds"], 6) == 0.435
    assert judge["p95_below_seconds"] == 0.5
    assert judge["cost_usd"] is None


def test_calls_beyond_the_last_bucket_have_no_known_bound() -> None:
    """Calls longer than 120 s, the last bucket, have no upper bound."""
    metrics = Metrics(CollectorRegistry())
    metrics.observe_call("primary", "m", "scored", 500.0)
    (judge,) = totals_of(metrics.registry.collect())["judges"]
    assert judge["p95_below_seconds"] is None


def test_dead_letters_by_reason() -> None:
    metrics = Metrics(CollectorRegistry())
    metrics.count("judgestream_dead_letters_total", "undecodable")
    assert totals_of(metrics.registry.collect())["dead_letters"] == {"undecodable": 1}
