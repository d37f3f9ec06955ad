"""A real server misbehaves: every event gets its stated outcome, and every call is counted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from judge.endpoints.openai_chat import OpenAIChat
from judge.endpoints.options import EndpointOptions, Patience
from judge.endpoints.pool import EndpointPool, JudgingOptions
from judge.endpoints.retrying import RetryingJudge
from judge.evaluate.evaluator import Evaluator
from judge.evaluate.guard import NEUTRAL_EVENT
from schemas import RESULT, Result
from tests.judge.fake_openai import Answer, FakeOpenAI, completion, fake_openai
from tests.judge.tasks import TONE, make_task

JSON = {"Content-Type": "application/json"}
GOOD = Answer()
CALL_SECONDS = 0.5
LONG_CALL_SECONDS = 4.0
"""Where calls are counted and none is to time out: a busy machine takes half a second for one."""
DEADLINE_SECONDS = 60.0


@asynccontextmanager
async def judging(
    server: FakeOpenAI, *, call_seconds: float = LONG_CALL_SECONDS
) -> AsyncIterator[tuple[RetryingJudge | Evaluator, EndpointPool]]:
    chat = OpenAIChat(endpoint="primary", model="fake-1", base_url=server.url, timeout_seconds=call_seconds)
    patience = Patience(first_wait_seconds=0.02, longest_wait_seconds=0.5)
    endpoint = EndpointOptions(chat, call_seconds=call_seconds)
    async with EndpointPool([endpoint], JudgingOptions(patience=patience)) as pool:
        yield pool.judge(TONE), pool


def probes(server: FakeOpenAI) -> int:
    """The number of neutral calls that tested the endpoint."""
    return sum(one["messages"][-1]["content"] == NEUTRAL_EVENT.answer for one in server.requests)


async def judged(judge: RetryingJudge | Evaluator, *texts: str) -> list[Result]:
    """Judge all texts and validate each result against its schema."""
    async with asyncio.timeout(DEADLINE_SECONDS):
        results = await asyncio.gather(*(judge.judge(make_task("tone", answer=text)) for text in texts))
    for result in results:
        RESULT.validate_json(result.model_dump_json())
    return results


PASSING = {
    "429 with limits": Answer(
        status=429,
        body=b"{}",
        headers={
            **JSON,
            "x-ratelimit-limit-requests": "6000",
            "x-ratelimit-remaining-requests": "0",
            "x-ratelimit-reset-requests": "60ms",
        },
    ),
    "502 of a proxy": Answer(
        status=502, body=b"<html>Bad Gateway</html>", headers={"Content-Type": "text/html"}
    ),
    "503 with seconds": Answer(status=503, body=b"{}", headers={**JSON, "Retry-After": "0.2"}),
    "hang": Answer(hang=True),
    "slow drip": Answer(drip_seconds=0.05),
    "connection reset": Answer(drop=True),
    "reset within the body": Answer(cut_after=20),
    "truncated JSON": Answer(body=completion()[:60]),
}
"""One of each way; what other replies become is asserted at the client."""


@pytest.mark.parametrize("fault", PASSING.values(), ids=PASSING.keys())
async def test_temporary_failures_are_retried(fault: Answer) -> None:
    seconds = CALL_SECONDS if fault.hang or fault.drip_seconds else LONG_CALL_SECONDS
    async with (
        fake_openai(fault, fault, GOOD) as server,
        judging(server, call_seconds=seconds) as (judge, pool),
    ):
        (result,) = await judged(judge, "a")
        assert result.status == "scored"
        assert result.judge is not None
        # After the second failure a neutral call may test the endpoint.
        own = [one for one in server.requests if one["messages"][-1]["content"] == "a"]
        assert len(own) == result.judge.tries == 3
        assert len(server.requests) - len(own) <= 1
        assert pool.trouble is None


EVENTS_AT_ONCE = 12
FAULT_SECONDS = 1.5


@pytest.mark.slow
async def test_a_lasting_fault_costs_few_calls_and_no_event() -> None:
    async def stays(name: str, fault: Answer) -> None:
        async with (
            fake_openai(fault) as server,
            judging(server) as (judge, _),
        ):
            tasks = [
                asyncio.create_task(judge.judge(make_task("tone", answer=str(number))))
                for number in range(EVENTS_AT_ONCE)
            ]
            await asyncio.sleep(FAULT_SECONDS)
            assert not any(one.done() for one in tasks), name
            # Each event may be asked twice until ten failures or six pauses open the breaker; then two probes
            # a second, each with a check.
            assert len(server.requests) <= 2 * EVENTS_AT_ONCE + 10 + 4 * FAULT_SECONDS, name
            server.answers = [GOOD]
            async with asyncio.timeout(DEADLINE_SECONDS):
                results = await asyncio.gather(*tasks)
            assert {result.status for result in results} == {"scored"}, name
            tries = sum(result.judge.tries for result in results if result.judge)
            assert tries == len(server.requests) - probes(server), name

    await asyncio.gather(*(stays(name, fault) for name, fault in PASSING.items()))
