from __future__ import annotations

from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from streams.judge_watch import JudgeWatch
from streams.metrics import Metrics


def test_calls_and_outages_are_counted_and_logged() -> None:
    """In flight, seconds by outcome, the breaker; one line when an endpoint goes and one when it is back."""
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
