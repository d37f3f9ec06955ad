from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from judge.endpoints.panel import PanelJudge
from judge.endpoints.pool import RetryingJudge
from judge.evaluate.cache import FileCache, MemoryCache
from judge.evaluate.evaluator import Evaluator
from schemas import Usage
from streams.judging.budget import BudgetLimits, budget_limits
from streams.judging.endpoints import metric_judges, open_cache, open_stack
from streams.judging.metrics import build_metric
from streams.settings import (
    BudgetSettings,
    CacheSettings,
    EndpointSettings,
    JudgeSettings,
    MetricSettings,
    Settings,
)

MILLION = Usage(input_tokens=1_000_000)


def endpoint(**values: Any) -> EndpointSettings:
    return EndpointSettings.model_validate({"name": "primary", "model": "gpt-4.1-mini"} | values)


def test_a_window_must_hold_the_reply() -> None:
    """A context window must be larger than the reply's limit."""
    values = {"endpoints": [endpoint(context_tokens=4096).model_dump(exclude_none=True)]}
    with pytest.raises(
        ValidationError, match=r"endpoints\.0\.context_tokens: must be more than max_output_tokens"
    ):
        JudgeSettings.model_validate(values)
    assert JudgeSettings.model_validate(values | {"max_output_tokens": 1024})


def test_both_forms_of_the_daily_budget_mean_the_same() -> None:
    """`budget_usd_per_day` and `budget.usd_per_day` are equivalent."""
    short, long = JudgeSettings(budget_usd_per_day=25), JudgeSettings(budget=BudgetSettings(usd_per_day=25))
    assert budget_limits(short) == budget_limits(long) == BudgetLimits(usd=25)


def test_the_settings_choose_the_cache(tmp_path: Path) -> None:
    """The settings choose no cache, a memory cache or a file cache."""
    assert open_cache(CacheSettings(), print) is None
    assert isinstance(open_cache(CacheSettings(max_entries=9), print), MemoryCache)
    cache = open_cache(CacheSettings(max_entries=9, file=tmp_path / "verdicts"), print)
    assert isinstance(cache, FileCache)
    cache.close()


@pytest.mark.parametrize(
    ("panel", "votes"),
    [
        (["a", "b"], 2),
        ({"endpoints": ["a", "b"], "samples": 2}, 4),
        ({"samples": 5}, 5),
    ],
)
def test_a_panel_is_a_list_of_endpoints_or_more(panel: object, votes: int) -> None:
    """A panel names endpoints, samples of one endpoint, or both."""
    settings = MetricSettings.model_validate({"panel": panel})
    assert settings.panel is not None
    assert settings.panel.votes == votes


@pytest.mark.parametrize(
    ("metric", "problem"),
    [
        ({"panel": ["a"]}, "must result in 2 to 15 votes"),
        ({"panel": {"endpoints": ["a", "b"], "samples": 8}}, r"must result in 2 to 15 votes.*got 16"),
        ({"panel": ["a", "b"], "endpoints": ["a"]}, "must have one entry with a panel without endpoints"),
        (
            {"panel": {"samples": 3}, "endpoints": ["a", "b"]},
            "must have one entry with a panel without endpoints",
        ),
        ({"panel": ["a", "d"]}, r"must name judge\.endpoints \(those are a, b\), got 'd'"),
        ({"panel": ["a", "a"]}, "names an endpoint twice"),
        ({"code": "latency", "panel": ["a", "b"]}, "is only for metrics with a judge"),
    ],
)
def test_an_invalid_panel_is_named(metric: dict[str, Any], problem: str) -> None:
    """An invalid panel names field, limit, value and remedy."""
    endpoints = [{"name": name, "model": "m"} for name in ("a", "b")]
    with pytest.raises(ValidationError, match=problem):
        Settings.model_validate({"judge": {"endpoints": endpoints}, "metrics": {"tone_of_ours": metric}})


async def test_the_settings_of_a_metric_name_its_panel() -> None:
    """A panel of two endpoints with two samples has four votes; other metrics have one judge or code."""
    endpoints = [
        endpoint(name=name, model=f"m-{name}", base_url="http://127.0.0.1:9/v1") for name in ("a", "b")
    ]
    panel_of_two = {"panel": {"endpoints": ["b", "a"], "samples": 2}}
    given = {"tone": panel_of_two, "refusal": {}, "speed": {"code": "latency"}}
    wanted = {name: MetricSettings.model_validate(values) for name, values in given.items()}
    metrics = {name: build_metric(name, settings) for name, settings in wanted.items()}
    async with open_stack(JudgeSettings(), endpoints) as stack:
        judges = metric_judges(stack, metrics, wanted)
        panel, code = judges["tone"], judges["speed"]
        assert isinstance(panel, PanelJudge)
        assert panel.evaluator.model == "2 of m-b, 2 of m-a"
        assert panel.evaluator.scoring.endswith("quorum 3 of 4")
        assert isinstance(judges["refusal"], RetryingJudge)
        assert isinstance(code, Evaluator)
        assert code.evaluator.model == "code"
