from __future__ import annotations

from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from judge.evaluate.prices import ModelPrice, PriceTable
from schemas import Usage
from streams.judging.watch import JudgeWatch
from streams.telemetry.instruments import Metrics


def test_calls_and_outages_are_counted_and_logged() -> None:
    """Calls in flight, call seconds and the breaker are metrics; an outage is logged at start and end."""
    registry, clock = CollectorRegistry(), [10.0]
    watch = JudgeWatch(Metrics(registry), now=lambda: clock[0])
    endpoint = {"endpoint": "primary"}
    with capture_logs() as lines:
        watch.down("primary", None)
        assert registry.get_sample_value("judgestream_judge_breaker_open", endpoint) == 0
        watch.in_flight("primary", 3)
        watch.asked("primary", "m", "timeout", 30.0)
        watch.down("primary", "connection refused")
        assert registry.get_sample_value("judgestream_judge_breaker_open", endpoint) == 1
        clock[0] = 72.5
        watch.down("primary", None)
    assert registry.get_sample_value("judgestream_judge_breaker_open", endpoint) == 0
    assert registry.get_sample_value("judgestream_judge_in_flight", endpoint) == 3
    labels = {**endpoint, "model": "m", "outcome": "timeout"}
    assert registry.get_sample_value("judgestream_judge_call_seconds_sum", labels) == 30
    assert [(line["log_level"], line.get("error"), line.get("down_seconds")) for line in lines] == [
        ("error", "connection refused", None),
        ("info", None, 62.5),
    ]


def test_failures_of_the_cache_are_counted() -> None:
    registry = CollectorRegistry()
    JudgeWatch(Metrics(registry)).cache_failed()
    assert registry.get_sample_value("judgestream_verdict_cache_failures_total") == 1


def test_tokens_are_priced_and_what_no_result_carries_is_booked() -> None:
    """Tokens of each call are priced; only calls without a verdict are booked.

    1,000 tokens at 2 USD per million are 0.002 USD.
    """
    registry, booked = CollectorRegistry(), list[float | None]()
    prices = PriceTable(endpoints={"primary": ModelPrice(2.0, 8.0)})
    watch = JudgeWatch(Metrics(registry), prices=prices, book=booked.append)
    watch.used("primary", "m", Usage(input_tokens=1_000), for_verdict=True)
    watch.used("primary", "m", Usage(input_tokens=1_000), for_verdict=False)
    watch.used("spare", "n", Usage(input_tokens=1_000), for_verdict=False)
    labels = {"endpoint": "primary", "model": "m"}
    assert registry.get_sample_value("judgestream_judge_cost_usd_total", labels) == 0.004
    assert registry.get_sample_value("judgestream_judge_tokens_total", {**labels, "kind": "input"}) == 2_000
    assert booked == [0.002, None]
