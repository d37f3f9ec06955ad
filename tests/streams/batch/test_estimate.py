"""The estimate of a replay and of `config check`."""

from __future__ import annotations

from typing import Any

import pytest

from judge.evaluate.evaluator import request_tokens
from streams.batch.estimate import Estimate, request_of
from streams.judging.endpoints import judge_endpoints
from streams.judging.metrics import build_metrics
from streams.settings.tree import Settings
from tests.judge.built_tasks import task_for

PRICED = {"name": "a", "model": "m", "usd_per_million_tokens": {"input": 1.0, "output": 10.0}}


def estimated(metric: dict[str, Any], *, count: int = 10) -> tuple[Estimate, int]:
    """Return the estimate of so many tasks of a metric, and the input tokens of one."""
    judge = {"endpoints": [PRICED]}
    name = "own" if metric else "tone"
    settings = Settings.model_validate({"metrics": {name: metric}, "judge": judge})
    metrics = build_metrics(settings)
    endpoints = judge_endpoints(settings.judge, {}, settings.metrics)
    found = Estimate(metrics, settings.metrics, endpoints)
    task = task_for(metrics[name])
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


def test_code_costs_nothing() -> None:
    found, tokens = estimated({"code": "latency"})
    assert (found.total.calls, tokens, found.cost_usd) == (0, 0, 0.0)
