"""A user of the library may run on uvloop, which keeps time in whole milliseconds; asyncio does not."""

from __future__ import annotations

import asyncio

import uvloop

from judge.endpoints.clients import ScriptedChat
from judge.endpoints.options import EndpointOptions
from judge.endpoints.pool import EndpointPool
from tests.judge.tasks import TONE, make_task

CALLS = 300
DEADLINE_SECONDS = 30.0


def test_waits_of_less_than_a_millisecond_end() -> None:
    """A limit of 2,000 calls a second (0.5 ms apart) completes every call on uvloop."""

    async def judge_all() -> list[str]:
        chat = ScriptedChat(lambda _: '{"score": 3, "justification": "plain"}')
        endpoint = EndpointOptions(chat, requests_per_minute=120_000)
        pool = EndpointPool([endpoint])
        judge = pool.judge(TONE)
        tasks = [make_task("tone", answer=f"Answer {number}.") for number in range(CALLS)]
        try:
            async with asyncio.timeout(DEADLINE_SECONDS):
                results = await asyncio.gather(*(judge.judge(task) for task in tasks))
        finally:
            await pool.close()
        return [result.status for result in results]

    assert uvloop.run(judge_all()) == ["scored"] * CALLS
