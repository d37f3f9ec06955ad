"""The estimate of a replay and of `config check`."""

from __future__ import annotations

from typing import Any

import pytest

from judge.evaluate.evaluator import request_tokens
from streams.batch.estimate import Estimate, MeanReply, request_of
from streams.judging.endpoints import judge_endpoints
from streams.judging.metrics import build_metrics
from streams.settings.tree import Settings
from tests.judge.built_tasks import task_for
from tests.streams.results import scored

PRICED = {"name": "a", "model": "m", "usd_per_million_tokens": {"input": 1.0, "output": 10.0}}


def estimated(
    metric: dict[str, Any],
    *,
    name: str = "tone",
    count: int = 10,
    reply: MeanReply | None = None,
    **endpoint: Any,
) -> tuple[Estimate, int]:
    """Return the estimate of so many tasks of a metric, and the input tokens of one."""
    judge = {"endpoints": [PRICED | endpoint], "budget": "none"}
    settings = Settings.model_validate({"metrics": {name: metric}, "judge": judge})
    metrics = build_metrics(settings)
    endpoints = judge_endpoints(settings.judge, {}, settings.metrics)
    found = Estimate(metrics, settings.metrics, endpoints, {} if reply is None else {name: reply})
    task = task_for(metrics[name], reference="Since 1889.")
    for _ in range(count):
        found.add(task)
    request = request_of(metrics[name], task)
    return found, 0 if request is None else request_tokens(request)


def test_calls_of_many_tasks_add_up() -> None:
    """Ten replies of 400 tokens at 10 USD per million, and the requests at 1 USD."""
    found, tokens = estimated({})
    assert (found.total.calls, found.total.input_tokens) == (10, 10 * tokens)
    assert found.total.output_tokens == 4000
    assert found.cost_usd == pytest.approx(10 * tokens * 1e-6 + 4000 * 10e-6)


def test_live_results_tell_the_length_of_replies() -> None:
    """Replies of 10 and 20 tokens are 15 on average; a result without a call does not count."""
    reply = MeanReply()
    for tokens, seconds in ((10, 1.0), (20, 1.0), (99, None)):
        result = scored(1, 3)
        usage = result.usage.model_copy(update={"output_tokens": tokens})
        times = result.times.model_copy(update={"judge_seconds": seconds})
        reply.add(result.model_copy(update={"usage": usage, "times": times}))
    assert reply.tokens == 15.0
    assert estimated({}, reply=reply)[0].total.output_tokens == 150


def test_code_costs_nothing() -> None:
    found, tokens = estimated({"code": "latency"}, name="own")
    assert (found.total.calls, tokens, found.cost_usd) == (0, 0, 0.0)


def test_every_vote_counts_and_what_gives_vectors_writes_nothing() -> None:
    """Three votes are three calls of one; an embedding has no output tokens."""
    single, _ = estimated({}, count=1)
    panel, _ = estimated({"panel": {"samples": 3}}, count=1)
    assert (single.total.calls, panel.total.calls) == (1, 3)
    assert panel.cost_usd == pytest.approx(3 * (single.cost_usd or 0))
    vectors, tokens = estimated({"code": {"similarity": "embeddings"}, "endpoints": ["a"]}, name="near")
    assert (vectors.total.calls, vectors.total.output_tokens) == (10, 0)
    assert vectors.cost_usd == pytest.approx(10 * tokens * 1e-6)


def test_a_model_of_a_metrics_own_has_its_own_price() -> None:
    """0.4 and 1.6 USD a million tokens are published; the price in the settings is of another model."""
    found, tokens = estimated({"model": "gpt-4.1-mini"}, count=1)
    assert found.cost_usd == pytest.approx((tokens * 0.4 + 400 * 1.6) / 1e6)


def test_an_unknown_price_gives_no_cost() -> None:
    found, _ = estimated({}, base_url="http://127.0.0.1:1/v1", usd_per_million_tokens=None)
    assert found.cost_usd is None
