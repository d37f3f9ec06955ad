"""The worker's event loop is uvloop where it is installed.

It keeps time by whole milliseconds, which asyncio's own does not.
"""

from __future__ import annotations

import asyncio

import uvloop

from judge.endpoint.scripted import ScriptedChat
from judge.metrics.packs.metric import PackMetric
from judge.metrics.packs.pack import parse_pack
from judge.pool.pool import Endpoint, EndpointPool, Patience
from judge.pool.reliable import ReliableJudge
from judge.verdict.evaluator import Judge
from tests.judge.tasks import make_task

METRIC = PackMetric(
    "tone",
    parse_pack(b'[{role: user, content: "{answer}"}]', dialect="yaml", origin="p"),
    score_range=(1, 5),
)
CALLS = 300
DEADLINE_SECONDS = 30.0


def test_waits_of_less_than_a_millisecond_end() -> None:
    """A limit of 2,000 a second is a turn each half millisecond: all calls have theirs, and none waits for
    ever.
    """

    async def judge_all() -> list[str]:
        chat = ScriptedChat(lambda _: '{"score": 3, "justification": "plain"}')
        endpoint = Endpoint(chat, requests_per_minute=120_000)
        pool = EndpointPool([endpoint], patience=Patience(timeout_seconds=DEADLINE_SECONDS))
        judge = ReliableJudge({chat.endpoint: Judge(METRIC, chat)}, pool)
        tasks = [make_task("tone", answer=f"Answer {number}.") for number in range(CALLS)]
        try:
            async with asyncio.timeout(DEADLINE_SECONDS):
                results = await asyncio.gather(*(judge.judge(task) for task in tasks))
        finally:
            pool.stop()
        return [result.status for result in results]

    assert uvloop.run(judge_all()) == ["scored"] * CALLS
