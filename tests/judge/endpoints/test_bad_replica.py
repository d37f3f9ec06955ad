"""One bad replica of two: every event is judged nevertheless. In virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import pytest

from judge.chat import ChatReply
from judge.endpoints.health import PAID_TRIES
from judge.errors import EventError, InvalidVerdictError, JudgeConfigurationError
from schemas import Failed, Result, Usage
from tests.judge.endpoints.servers import Server, pooled, task
from tests.judge.virtual_time import virtually

PAID = ChatReply("", "m", Usage(input_tokens=9), 0.1)
WRONG = {
    "400": EventError("rejected_request", "answered 400"),
    "413": EventError("context_too_long", "answered 413"),
    "422": EventError("rejected_request", "answered 422"),
    "cut": EventError("reply_cut", "cut", reply=PAID),
    "filter": EventError("content_refused", "filtered", reply=PAID),
    "4 MiB": InvalidVerdictError("the reply is larger than 4194304 bytes"),
    "401": JudgeConfigurationError("answered 401"),
}


async def judged(behaviour: Callable[[str], Any], texts: Sequence[str], a_second: float) -> list[Result]:
    """Judge the events at a steady rate."""
    server = Server(lambda _, text: behaviour(text))
    judge, pool, _ = pooled(server)
    tasks = []
    for text in texts:
        tasks.append(asyncio.create_task(judge.judge(task(text))))
        await asyncio.sleep(1 / a_second)
    results = await asyncio.gather(*tasks)
    assert pool.trouble is None
    pool.stop()
    return results


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG.keys())
@pytest.mark.parametrize("a_second", [20, 2])
@virtually
async def test_one_bad_replica_of_two_loses_no_event(wrong: Exception, a_second: float) -> None:
    """Half of all calls fail from the start, neutral ones too: 400 events are all judged."""
    chance = Random(5)
    numbers = [str(number) for number in range(400)]
    results = await judged(lambda _: wrong if chance.random() < 0.5 else 0.5, numbers, a_second)
    assert {one.status for one in results} == {"scored"}


@pytest.mark.parametrize("share", [0.05, 0.3])
@pytest.mark.parametrize("a_second", [20, 2, 0.1])
@virtually
async def test_events_own_paid_failures_cost_three_tries(share: float, a_second: float) -> None:
    """Events that are always cut are published after three paid tries, on busy and idle endpoints."""
    chance = Random(5)
    texts = ["bad" if chance.random() < share else "good" for _ in range(400)]
    results = await judged(lambda text: WRONG["cut"] if text == "bad" else 0.5, texts, a_second)
    failed = [one for one in results if isinstance(one, Failed)]
    assert len(failed) == texts.count("bad")
    assert max(one.judge.tries for one in failed if one.judge) <= PAID_TRIES
