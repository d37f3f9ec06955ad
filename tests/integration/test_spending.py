"""A budget, with a broker."""

from __future__ import annotations

import asyncio
from pathlib import Path

import aiohttp
import pytest

from judge.endpoints.clients import ScriptedChat
from streams.errors import SettingsError
from tests.integration.deadlines import until
from tests.integration.stage import REPLY, Stage, event


@pytest.fixture
def stage(bootstrap_servers: str, tmp_path: Path) -> Stage:
    return Stage(bootstrap_servers, tmp_path)


def chat() -> ScriptedChat:
    return ScriptedChat(lambda _: REPLY, endpoint="scripted", model="m")


async def test_a_spent_budget_defers_and_loses_nothing(stage: Stage) -> None:
    """With a spent budget the worker stays ready and gives the reason; the tasks wait in Kafka for a new
    budget.
    """
    stage.changes = {"judge.budget": {"calls_per_day": 5}}
    asked = chat()
    async with stage.worker(asked) as (running, registry), aiohttp.ClientSession(running.url) as session:
        await stage.produce([event(number) for number in range(12)])

        async def waits() -> bool:
            async with session.get("/readyz") as answer:
                assert answer.status == 200
                return "budget is spent" in await answer.text()

        await until(waits, "a note that the budget is spent")
        spent = registry.get_sample_value("judgestream_judge_budget_spent_ratio", {"period": "day"})
        assert spent == 1.0
        assert len(asked.requests) == 5
        started = asyncio.get_running_loop().time()
    # Deferred tasks do not delay the stop: it takes far less than the 20 s for work in flight.
    assert asyncio.get_running_loop().time() - started < 15
    assert len(await stage.results()) == 5
    stage.changes = {}
    async with stage.worker(chat()):

        async def judged() -> bool:
            return len({result.result_id for result in await stage.results()}) == 12

        await until(judged, "all judged")
    assert await stage.dead_letters() == []


async def test_a_falling_budget_lowers_the_rate_and_records_it(stage: Stage) -> None:
    """With `lower_rate` each event becomes a task with the rate in force or is skipped; none waits."""
    stage.changes = {"judge.budget": {"calls_per_day": 10, "when_spent": "lower_rate"}}
    asked = chat()
    async with stage.worker(asked) as (_, registry):
        await stage.produce([event(number) for number in range(9)])
        await until(lambda: len(asked.requests) == 9, "most of the budget spent")
        await stage.holds(scores=9)
        await stage.produce([event(number) for number in range(100, 200)])
        sampled = {"outcome": "sampled", "reason": ""}
        skipped = {"outcome": "skipped", "reason": "not_sampled"}

        def decided() -> float:
            values = (
                registry.get_sample_value("judgestream_events_total", one) for one in (sampled, skipped)
            )
            return sum(value or 0.0 for value in values)

        await until(lambda: decided() == 109, "all events decided upon")
        assert registry.get_sample_value("judgestream_events_total", skipped)
    # Nine of ten calls are spent: the rate is at most a half, and one call is left.
    probabilities = {task.event_id: task.sampling.probability for task in await stage.tasks()}
    assert all(probabilities[f"e{number}"] in {1.0, 0.5} for number in range(9))
    later = {probability for name, probability in probabilities.items() if len(name) == 4}
    assert later
    assert max(later) <= 0.5
    assert len(asked.requests) == 10


async def test_a_rate_cannot_be_lowered_by_a_worker_that_does_not_judge(stage: Stage) -> None:
    """`lower_rate` needs intake and judge in one worker; the error names the remedy."""
    stage.changes = {"judge.budget": {"calls_per_day": 10, "when_spent": "lower_rate"}}
    with pytest.raises(SettingsError, match="run them together, or use defer"):
        async with stage.worker(chat(), agents=("intake",)):
            pass
