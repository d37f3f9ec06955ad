"""A worker whose judge fails and recovers, over HTTP and under load."""

from __future__ import annotations

import time
from pathlib import Path

import aiohttp
import pytest
from aiokafka import AIOKafkaConsumer  # noqa: F401 - loads its codecs before warnings are counted

from tests.integration.deadlines import until
from tests.integration.stage import REPLY, Stage, event
from tests.integration.tuning import PATIENCE
from tests.judge.troubled_judge import Trouble, troubled_judge

EVENTS = 600


pytestmark = pytest.mark.slow


@pytest.fixture
def stage(bootstrap_servers: str, tmp_path: Path) -> Stage:
    return Stage(bootstrap_servers, tmp_path)


@pytest.mark.parametrize("trouble", ["503", "429", "hang", "reset"])
async def test_an_outage_under_load_costs_time_and_nothing_else(stage: Stage, trouble: Trouble) -> None:
    """An outage causes no dead letter, loss or duplicate; readiness names it, and few calls are made."""
    async with troubled_judge(REPLY, latency_seconds=0.05) as server:
        stage.base_url = server.url
        stage.changes = {
            "judge.timeout_seconds": 1,
        }
        stage.constants = {PATIENCE: {"first_wait_seconds": 0.1, "longest_breaker_seconds": 0.5}}
        async with stage.worker(None) as (running, registry), aiohttp.ClientSession() as session:
            await stage.produce([event(number) for number in range(100)])
            await until(lambda: len(server.answered_at) >= 100, "verdicts before the outage")
            server.trouble = trouble
            await stage.produce([event(number) for number in range(100, EVENTS)])
            breaker = {"endpoint": "scripted"}
            await until(
                lambda: registry.get_sample_value("judgestream_judge_breaker_open", breaker) == 1,
                "the breaker open",
            )

            async def says_why() -> bool:
                # A late reply may close the breaker for a moment.
                async with session.get(f"{running.url}/readyz") as answer:
                    return answer.status == 503 and "judge unavailable" in await answer.text()

            await until(says_why, "readiness says why")
            asked = server.refusals
            down_since = time.monotonic()
            await until(lambda: time.monotonic() - down_since > 2, "two seconds of outage")
            asked = server.refusals - asked
            # At most a probe and a check each quarter of a second, plus the calls in flight at the start.
            assert asked <= 2 * 4 * (time.monotonic() - down_since) + 64
            server.trouble = "none"

            async def judged() -> bool:
                return len(server.answered_at) >= EVENTS and len(await stage.results()) >= EVENTS

            await until(judged, "all judged")
            async with session.get(f"{running.url}/readyz") as answer:
                assert answer.status == 200
    results = await stage.results()
    assert {result.status for result in results} == {"scored"}
    assert {result.event_id for result in results} == {f"e{number}" for number in range(EVENTS)}
    assert len(results) == EVENTS
    assert await stage.dead_letters() == []


async def test_a_spare_takes_over_and_gives_back(stage: Stage) -> None:
    """While the first endpoint is down the worker stays ready; each result names its endpoint."""
    async with (
        troubled_judge(REPLY, latency_seconds=0.02) as first,
        troubled_judge(REPLY, latency_seconds=0.02) as spare,
    ):
        first.trouble = "503"
        stage.changes = {
            "judge.endpoints": [
                {"name": "primary", "base_url": first.url, "model": "m-1"},
                {"name": "spare", "base_url": spare.url, "model": "m-2", "requests_per_minute": 60_000},
            ],
        }
        stage.constants = {PATIENCE: {"longest_breaker_seconds": 0.5}}
        async with stage.worker(None) as (running, registry), aiohttp.ClientSession() as session:
            await stage.produce([event(number) for number in range(100)])
            await until(lambda: len(spare.answered_at) >= 100, "all judged by the spare")
            for endpoint, is_open in (("primary", 1), ("spare", 0)):
                value = registry.get_sample_value("judgestream_judge_breaker_open", {"endpoint": endpoint})
                assert value == is_open
            async with session.get(f"{running.url}/readyz") as answer:
                assert answer.status == 200
            first.trouble = "none"
            number = 100

            async def given_back() -> bool:
                nonlocal number
                await stage.produce([event(number)])
                number += 1
                return bool(first.answered_at)

            await until(given_back, "a verdict of the first again")
            await stage.holds(scores=number)
    calls = [result.judge for result in await stage.results() if result.judge is not None]
    assert {(call.endpoint, call.model_asked, call.fallback) for call in calls} == {
        ("primary", "m-1", False),
        ("spare", "m-2", True),
    }
    assert len({result.evaluator.fingerprint for result in await stage.results()}) == 2
