"""The estimate of a replay and of `config check`."""

from __future__ import annotations

from typing import Any

import pytest

from judge.evaluate.evaluator import request_tokens
from schemas import Times
from streams.batch.estimate import REPLY_TOKENS, Estimate, MeanReply, request_of
from streams.judging.endpoints import judge_endpoints
from streams.judging.metrics import build_metrics
from streams.settings.tree import Settings
from tests.judge.built_tasks import task_for
from tests.streams.results import START, scored

PRICED = {"name": "a", "model": "m", "usd_per_million_tokens": {"input": 1.0, "output": 10.0}}


def estimated(
    metric: dict[str, Any], *, count: int = 10, reply: MeanReply | None = None, **endpoint: Any
) -> tuple[Estimate, int]:
    """Return the estimate of so many tasks of a metric, and the input tokens of one."""
    judge = {"endpoints": [PRICED | endpoint]}
    name = "own" if metric else "tone"
    settings = Settings.model_validate({"metrics": {name: metric}, "judge": judge})
    metrics = build_metrics(settings)
    endpoints = judge_endpoints(settings.judge, {}, settings.metrics)
    found = Estimate(metrics, settings.metrics, endpoints, {} if reply is None else {name: reply})
    task = task_for(metrics[name])
    for _ in range(count):
        found.add(task)
    request = request_of(metrics[name], task)
    return found, 0 if request is None else request_tokens(request)


def live(tokens: int, seconds: float | None) -> Any:
    result = scored(1, 3)
    usage = result.usage.model_copy(update={"output_tokens": tokens})
    times = Times(**dict(result.times) | {"judge_seconds": seconds, "judged_at": START})
    return result.model_copy(update={"usage": usage, "times": times})


def test_live_results_tell_replies_and_seconds() -> None:
    """Live replies had 10 tokens and took 2 s on average: ten answers have 100; four at once take 5 s."""
    reply = MeanReply()
    for tokens, seconds in ((5, 1.0), (15, 3.0), (99, None)):  # the last without a call
        reply.add(live(tokens, seconds))
    found, tokens = estimated({}, reply=reply)
    assert (found.total.calls, found.total.input_tokens, found.total.output_tokens) == (10, 10 * tokens, 100)
    assert found.seconds(4) == 5.0
    assert found.cost_usd == pytest.approx(10 * tokens * 1e-6 + 100 * 10e-6)


def test_code_costs_nothing() -> None:
    found, tokens = estimated({"code": "latency"})
    assert (found.total.calls, tokens, found.cost_usd, found.seconds(10)) == (0, 0, 0.0, 0.0)


@pytest.mark.parametrize(
    ("limits", "seconds"),
    [
        ({}, 5.0),
        ({"max_in_flight": 2}, 10.0),
        ({"requests_per_minute": 20}, 30.0),
        ({"tokens_per_minute": 600}, None),
    ],
)
def test_the_slowest_limit_says_how_long_it_takes(limits: dict[str, Any], seconds: float | None) -> None:
    """Ten calls of 2 s: four at once, two at once, at 20 requests a minute; at 600 tokens a minute."""
    found, tokens = estimated({}, **limits)
    if seconds is None:
        seconds = (tokens + REPLY_TOKENS) * 10 / 600 * 60
    assert found.seconds(4) == pytest.approx(seconds)
