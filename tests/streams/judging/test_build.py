from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from structlog.testing import capture_logs

from judge.chat import OFFLINE_MODEL
from judge.verdict.cache import MemoryCache
from judge.verdict.cache_file import FileCache
from schemas import Usage
from streams.errors import SettingsError
from streams.judging.budget import BudgetLimits
from streams.judging.build import (
    build_metric,
    build_pooled_judges,
    build_prices,
    check_prices,
    open_cache,
    open_chat,
    open_pool,
    price_of,
    smallest_window,
)
from streams.judging.from_settings import budget_limits
from streams.settings import BudgetSettings, CacheSettings, EndpointSettings, JudgeSettings, MetricSettings
from tests.integration.deadlines import until
from tests.judge.built_tasks import task_for
from tests.judge.fake_openai import Answer, completion, fake_openai

MILLION = Usage(input_tokens=1_000_000)


def endpoint(**values: Any) -> EndpointSettings:
    return EndpointSettings.model_validate({"name": "primary", "model": "gpt-4.1-mini"} | values)


def test_own_prices_go_before_the_published_ones() -> None:
    """A negotiated price is what is paid."""
    own = endpoint(usd_per_million_tokens={"input": 0.1, "output": 0.2})
    assert build_prices([own]).cost_usd(own.model, MILLION, endpoint="primary") == pytest.approx(0.1)
    assert build_prices([endpoint()]).cost_usd(own.model, MILLION, endpoint="primary") == pytest.approx(0.4)


def test_a_price_that_nobody_knows_is_said_once_and_is_not_free() -> None:
    """With the endpoint, the model and the remedy."""
    with capture_logs() as lines:
        prices = build_prices([endpoint(base_url="http://127.0.0.1:1/v1")])
    assert prices.cost_usd("gpt-4.1-mini", MILLION, endpoint="primary") is None
    assert [(line["endpoint"], line["model"]) for line in lines] == [("primary", "gpt-4.1-mini")]
    assert "usd_per_million_tokens" in lines[0]["event"]


def test_the_offline_judge_is_free_without_a_word() -> None:
    """Unless the settings say otherwise."""
    offline = endpoint(model=OFFLINE_MODEL, base_url="http://127.0.0.1:1/v1")
    with capture_logs() as lines:
        prices = build_prices([offline])
    assert not lines
    assert price_of(offline) is None
    assert prices.cost_usd(OFFLINE_MODEL, MILLION, endpoint="primary") == 0.0


def test_the_smallest_window_counts() -> None:
    """What is cut does not depend on who answers; an endpoint that names none is as large as it needs to be."""
    endpoints = [endpoint(context_tokens=size) for size in (None, 9000, 8000)]
    assert smallest_window(endpoints) == 8000
    assert smallest_window(endpoints[:1]) is None


def test_a_window_must_hold_the_reply() -> None:
    """The error names field, limit, value and remedy."""
    values = {"endpoints": [endpoint(context_tokens=4096).model_dump(exclude_none=True)]}
    with pytest.raises(
        ValidationError, match=r"endpoints\.0\.context_tokens: must be more than max_output_tokens"
    ):
        JudgeSettings.model_validate(values)
    assert JudgeSettings.model_validate(values | {"max_output_tokens": 1024})


def test_a_budget_in_dollars_needs_known_prices() -> None:
    """Else nobody could tell what is spent; a budget in calls needs none, and the offline judge is free."""
    unpriced = endpoint(base_url="http://127.0.0.1:1/v1")
    offline = endpoint(model=OFFLINE_MODEL, base_url="http://127.0.0.1:1/v1")
    in_dollars = JudgeSettings(budget_usd_per_day=25)
    with pytest.raises(SettingsError, match="usd_per_million_tokens: is required with a budget in dollars"):
        check_prices(in_dollars, [endpoint(), unpriced])
    check_prices(in_dollars, [endpoint(), offline])
    check_prices(JudgeSettings(budget=BudgetSettings(calls_per_day=9)), [unpriced])


def test_both_forms_of_the_daily_budget_mean_the_same() -> None:
    """The one line of the reference, and the section."""
    short, long = JudgeSettings(budget_usd_per_day=25), JudgeSettings(budget=BudgetSettings(usd_per_day=25))
    assert budget_limits(short) == budget_limits(long) == BudgetLimits(usd_per_day=25)


def test_the_cache_is_off_in_memory_or_in_a_file(tmp_path: Path) -> None:
    """As the settings say."""
    assert open_cache(CacheSettings()) is None
    assert isinstance(open_cache(CacheSettings(max_entries=9)), MemoryCache)
    cache = open_cache(CacheSettings(max_entries=9, file=tmp_path / "verdicts"))
    assert isinstance(cache, FileCache)
    cache.close()


@pytest.mark.parametrize(("after_seconds", "calls"), [(None, 1), (0.05, 2)], ids=["by default", "asked for"])
async def test_a_slow_call_is_made_twice_only_where_the_settings_ask_for_it(
    after_seconds: float | None, calls: int
) -> None:
    """The first call hangs; where it is made again the verdict is there, with two tries, and else it waits."""
    judge = JudgeSettings(hedge_after_seconds=after_seconds)
    metrics = {"relevance": build_metric("relevance", MetricSettings(mode="verbatim"))}
    good = Answer(body=completion('{"score": 1, "justification": "x"}'))
    async with fake_openai(Answer(hang=True), good) as server:
        chat = open_chat(endpoint(base_url=server.url), judge)
        pool = open_pool([chat], judge)
        task = task_for(metrics["relevance"], answer="It is. [Page 1]", context={"Page-1": "It is."})
        judging = asyncio.create_task(build_pooled_judges(metrics, pool, judge)["relevance"].judge(task))
        await until(lambda: len(server.requests) >= calls, "the calls")
        done, _ = await asyncio.wait({judging}, timeout=0.3 if calls == 1 else 30)
        assert len(server.requests) == calls
        if done:
            call = judging.result().judge
            assert call is not None
            assert call.tries == 2
        assert bool(done) == (calls == 2)
        judging.cancel()
        await asyncio.wait({judging})
        pool.stop()
        await chat.close()
