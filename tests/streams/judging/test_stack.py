from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from judge.verdict.cache import MemoryCache
from judge.verdict.cache_file import FileCache
from schemas import Usage
from streams.judging.budget import BudgetLimits
from streams.judging.from_settings import budget_limits
from streams.judging.metrics import build_metric
from streams.judging.stack import open_cache, open_stack
from streams.settings import BudgetSettings, CacheSettings, EndpointSettings, JudgeSettings, MetricSettings
from tests.integration.deadlines import until
from tests.judge.built_tasks import task_for
from tests.judge.fake_openai import Answer, completion, fake_openai

MILLION = Usage(input_tokens=1_000_000)


def endpoint(**values: Any) -> EndpointSettings:
    return EndpointSettings.model_validate({"name": "primary", "model": "gpt-4.1-mini"} | values)


def test_a_window_must_hold_the_reply() -> None:
    """The error names field, limit, value and remedy."""
    values = {"endpoints": [endpoint(context_tokens=4096).model_dump(exclude_none=True)]}
    with pytest.raises(
        ValidationError, match=r"endpoints\.0\.context_tokens: must be more than max_output_tokens"
    ):
        JudgeSettings.model_validate(values)
    assert JudgeSettings.model_validate(values | {"max_output_tokens": 1024})


def test_both_forms_of_the_daily_budget_mean_the_same() -> None:
    """The one line of the reference, and the section."""
    short, long = JudgeSettings(budget_usd_per_day=25), JudgeSettings(budget=BudgetSettings(usd_per_day=25))
    assert budget_limits(short) == budget_limits(long) == BudgetLimits(usd_per_day=25)


def test_the_cache_is_off_in_memory_or_in_a_file(tmp_path: Path) -> None:
    """As the settings say."""
    assert open_cache(CacheSettings(), print) is None
    assert isinstance(open_cache(CacheSettings(max_entries=9), print), MemoryCache)
    cache = open_cache(CacheSettings(max_entries=9, file=tmp_path / "verdicts"), print)
    assert isinstance(cache, FileCache)
    cache.close()


@pytest.mark.parametrize(("after_seconds", "calls"), [(None, 1), (0.05, 2)], ids=["by default", "asked for"])
async def test_a_slow_call_is_made_twice_only_where_the_settings_ask_for_it(
    after_seconds: float | None, calls: int
) -> None:
    """The first call hangs.

    Where it is made again the verdict is there, with two tries, and else it waits.
    """
    judge = JudgeSettings(hedge_after_seconds=after_seconds)
    metric = build_metric("relevance", MetricSettings(mode="verbatim"))
    good = Answer(body=completion('{"score": 1, "justification": "x"}'))
    async with fake_openai(Answer(hang=True), good) as server:
        stack = open_stack(judge, [endpoint(base_url=server.url)])
        task = task_for(metric, answer="It is. [Page 1]", context={"Page-1": "It is."})
        judging = asyncio.create_task(stack.judge(metric).judge(task))
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
        await stack.close()
