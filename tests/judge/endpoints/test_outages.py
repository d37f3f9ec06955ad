"""Verdicts while endpoints are down, wrong or draining, and what is told and booked; in virtual time."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import pytest

from judge.chat import ChatReply, ChatRequest
from judge.endpoints.health import MOST_NEUTRAL_CALLS
from judge.endpoints.options import EndpointOptions
from judge.errors import DrainingError, EventError, JudgeConfigurationError, JudgeUnavailableError
from judge.evaluate.evaluator import Evaluator
from judge.evaluate.prices import ModelPrice, PriceTable
from schemas import Usage
from tests.judge.endpoints.servers import (
    DOWN,
    HANG,
    NEUTRAL,
    Server,
    judge_all,
    judging,
    kind_of,
    now,
    pooled,
    scripted,
    task,
    until,
    waiting,
)
from tests.judge.tasks import TONE
from tests.judge.virtual_time import virtually

KEY = JudgeConfigurationError("answered 401", "Check the API key")


@virtually
async def test_another_model_is_noticed_once() -> None:
    server = Server(lambda *_: 0.1)
    judge, pool, notes = pooled(server)
    for model in ("m-1", "m-1", "m-2", "m-1", "m-2"):
        server.model = model
        await judge.judge(task())
    assert notes.models == [("primary", "m-1", "m-2")]
    (state,) = pool.states
    assert (state.model, state.earlier_model) == ("m-2", "m-1")
    assert state.model_changed_at is not None


@pytest.mark.parametrize(
    ("error", "remedy"),
    [
        (DOWN, "Check that it runs"),
        (JudgeUnavailableError("429", kind="rate_limited", retry_after_seconds=600), "Raise its quota"),
        (KEY, "Check the API key"),
    ],
)
@virtually
async def test_the_state_says_why_an_endpoint_is_down_and_what_to_do(error: Exception, remedy: str) -> None:
    async with judging(lambda *_: error) as (judge, pool, _), waiting(judge, 3):
        await asyncio.sleep(5)
        (state,) = pool.states
        assert (state.up, state.reason) == (False, str(error))
        assert remedy in state.remedy
        assert state.since is not None
        assert remedy in (pool.trouble or "")


@virtually
async def test_an_outage_is_waited_out_with_few_calls_and_full_speed_after_it() -> None:
    back = now() + 3_600
    server = Server(until(back, DOWN, then=1.0))
    judge, pool, notes = pooled(server)
    tasks = asyncio.create_task(judge_all(judge, [str(number) for number in range(500)]))
    await asyncio.sleep(3_599)
    assert (pool.trouble or "").startswith("connection refused. ")
    # 64 at once (after the first 4), then at most a probe and a check each 2.5 s.
    assert len(server.calls) <= 70 + 2 * 3_600 / 2.5
    assert not tasks.done()
    assert {kind_of(result) for result in await tasks} == {"scored"}
    # A probe within 5 s, then 500 calls of 1 s, from 16 to 64 at a time: 16 + 32 + 64 * 7.1 = 500 in 10 s.
    assert now() - back <= 5 + 1 + 11
    assert next(moment for moment, _ in server.calls if moment >= back) - back <= 5
    assert server.most_in_flight == 64
    assert notes.downs == [("primary", False), ("primary", True), ("primary", False)]


@dataclass
class OneAtATime(Server):
    """Answers one call after the other, and none that was cancelled meanwhile."""

    turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def complete(self, request: ChatRequest) -> ChatReply:
        async with self.turn:
            return await super().complete(request)


@virtually
async def test_an_endpoint_that_many_calls_keep_busy_comes_back_by_a_probe_that_is_alone() -> None:
    """At 6 s a call it answers 5 within the limit, and less than one in each 5 s pause between two probes."""
    judge, pool, notes = pooled(OneAtATime(lambda *_: 6.0), timeout_seconds=30)
    async with pool, waiting(judge, 64):
        await asyncio.sleep(600)
        assert notes.downs.count(("primary", False)) > 1
        assert notes.outcomes["primary", "scored"] >= 40


@pytest.mark.parametrize(("wrong", "tries", "seconds"), [(DOWN, 3, None), (HANG, 2, 10.1)])
@virtually
async def test_the_spare_takes_over_and_says_so(wrong: Any, tries: int, seconds: float | None) -> None:
    first, spare = Server(lambda *_: wrong), Server(lambda *_: 0.1, endpoint="spare", model="m-2")
    judge, pool, _ = pooled(EndpointOptions(first, call_seconds=10), spare)
    began = now()
    result = await judge.judge(task())
    assert result.judge is not None
    assert (result.judge.endpoint, result.judge.model_asked) == ("spare", "m-2")
    assert (result.judge.fallback, result.judge.tries) == (True, tries)
    assert result.evaluator.model == "m-2"
    assert result.evaluator.fingerprint != Evaluator(TONE, first).evaluator.fingerprint
    assert seconds is None or now() - began == pytest.approx(seconds)
    assert pool.trouble is None


@virtually
async def test_the_preferred_endpoint_is_asked_again_when_it_is_back() -> None:
    back = now() + 60
    first = Server(until(back, DOWN, then=0.1))
    spare = Server(lambda *_: 0.1, endpoint="spare", model="m-2")
    judge, _, notes = pooled(first, spare)
    for _ in range(70):
        await judge_all(judge, ["a"] * 5)
        await asyncio.sleep(1)
    assert [moment for moment, _ in spare.calls if moment > back + 5.5] == []
    # The breaker opens at the tenth failure; then a probe each 5 s.
    assert len([moment for moment, _ in first.calls if moment < back]) <= 10 + 5 + 60 / 5
    assert notes.downs[-1] == ("primary", False)


@virtually
async def test_an_endpoint_that_asks_for_an_hour_is_left_alone_and_the_spare_asked() -> None:
    """A `Retry-After` above the time limit is an outage; without a spare the pool reports it."""
    busy = JudgeUnavailableError("quota used up", kind="rate_limited", retry_after_seconds=600)
    first, spare = Server(until(now() + 600, busy)), Server(lambda *_: 0.1, endpoint="spare")
    judge, _, _ = pooled(first, spare)
    (result,) = await judge_all(judge, ["a"])
    assert result.judge is not None
    assert result.judge.fallback
    started = now()
    async with judging(until(now() + 600, busy)) as (judge, pool, lonely):
        alone = asyncio.create_task(judge.judge(task()))
        await asyncio.sleep(300)
        assert (pool.trouble or "").startswith("quota used up. ")
        assert len(lonely.calls) == 1
        await alone
        assert 600 <= now() - started <= 602


@virtually
async def test_a_wrong_key_takes_one_endpoint_out_and_all_of_them_stop_the_judge() -> None:
    first = Server(lambda *_: JudgeConfigurationError("401 from primary"))
    spare = Server(lambda *_: 0.1, endpoint="spare")
    judge, pool, notes = pooled(first, spare)
    results = await judge_all(judge, ["a"] * 10)
    assert {result.judge.endpoint for result in results if result.judge} == {"spare"}
    # Including those that were sent before a neutral call was refused.
    assert len([text for _, text in first.calls if text == "a"]) <= 20
    assert ("primary", True) in notes.downs
    # Once that is confirmed, a probe each 5 minutes.
    await asyncio.sleep(1_000)
    assert [round(b - a) for (a, _), (b, _) in pairwise(first.calls)][-3:] == [300] * 3
    await pool.close()
    spare = Server(lambda *_: JudgeConfigurationError("404 from spare"), endpoint="spare")
    judge, pool, _ = pooled(first, spare)
    with pytest.raises(JudgeConfigurationError, match=r"401 from primary; 404 from spare"):
        await judge.judge(task())
    await pool.close()


@virtually
async def test_a_configuration_that_never_worked_ends_the_start_after_it_was_confirmed() -> None:
    began = now()
    async with judging(lambda *_: KEY) as (judge, _, server):
        with pytest.raises(JudgeConfigurationError, match="401"):
            await judge.judge(task())
        # Probes at once and after pauses of 1, 2, 4 and 5 s.
        assert 10 <= now() - began <= 13
        assert len(server.calls) <= 2 + 5
    began = now()
    async with judging(lambda *_: KEY if now() - began < 8 else 0.1) as (judge, _, _):
        assert kind_of(await judge.judge(task())) == "scored"


@virtually
async def test_a_blank_answer_is_unscored_during_an_outage() -> None:
    async with judging(lambda *_: DOWN, breaker_failures=1) as (judge, pool, _), waiting(judge, 1):
        await asyncio.sleep(1)
        assert pool.trouble is not None
        assert kind_of(await asyncio.wait_for(judge.judge(task(" ")), 1)) == "unscored"


@virtually
async def test_a_judge_given_up_by_its_caller_leaves_no_slot_taken() -> None:
    hanging = judging(lambda _, text: HANG if text != "a" else 0.1, max_in_flight=2)
    async with hanging as (judge, pool, server):
        async with waiting(judge, 5):
            await asyncio.sleep(3)
            assert server.in_flight == 2
        assert server.in_flight == 0
        assert {kind_of(result) for result in await judge_all(judge, ["a"] * 10)} == {"scored"}
        assert [len(one.limiter.waiting) for one in pool.endpoints] == [0]


@virtually
async def test_draining_abandons_unsent_events() -> None:
    async with judging(lambda *_: 5.0, max_in_flight=2) as (judge, pool, server):
        tasks = [asyncio.create_task(judge.judge(task(str(number)))) for number in range(10)]
        await asyncio.sleep(1)
        pool.drain()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
        assert [isinstance(one, DrainingError) for one in ended] == [False] * 2 + [True] * 8
        assert len(server.calls) == 2
        under_way = asyncio.create_task(judge.judge(task("later")))
        await asyncio.sleep(1)
        pool.drain(close=True)
        with pytest.raises(DrainingError):
            await judge.judge(task("last"))
        assert kind_of(await under_way) == "scored"
        assert len(server.calls) == 3


@pytest.mark.parametrize("close", [False, True])
@virtually
async def test_draining_abandons_tasks_that_wait_for_an_endpoint(close: bool) -> None:
    async with judging(lambda *_: DOWN) as (judge, pool, _), waiting(judge, 20) as tasks:
        await asyncio.sleep(30)
        pool.drain(close=close)
        if close:
            tasks.append(asyncio.create_task(judge.judge(task("later"))))
        ended = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(one, DrainingError) for one in ended)


# Accounts

PRICES = PriceTable(endpoints={"primary": ModelPrice(1.0, 0.0), "spare": ModelPrice(10.0, 0.0)})


def paid(*lines: Any, endpoint: str = "primary") -> Server:
    script = scripted(lines)

    def say(_: Server, text: str) -> Any:
        line = '{"score": 4}' if text == NEUTRAL else script()
        return line if isinstance(line, Exception) else spent(7 if text == NEUTRAL else 100, line)

    return Server(say, endpoint, "m")


def spent(tokens: int, text: str = "") -> ChatReply:
    return ChatReply(text, "m", Usage(input_tokens=tokens), 0.1)


EMPTY = JudgeUnavailableError("no choices", reply=spent(5))
CUT = EventError("reply_cut", "cut", reply=spent(40))


@pytest.mark.parametrize(
    ("scripts", "kind", "tokens", "usd", "booked"),
    [
        # 100 + 100 tokens of failed tries at 1 USD, and 100 of the spare at 10 USD a million.
        (
            [["?", DOWN, "?", DOWN], ['{"score": 3}']],
            "scored",
            300,
            1_200e-6,
            {("primary", True): 200, ("primary", False): 7, ("spare", True): 100},
        ),
        # 5 tokens of an empty reply and twice 40 of a cut one.
        (
            [[EMPTY, CUT]],
            "reply_cut",
            85,
            85e-6,
            {("primary", True): 85, ("primary", False): 7 * MOST_NEUTRAL_CALLS},
        ),
        # Three tries of an invalid reply and an outage.
        (
            [["?", DOWN] * 50],
            "no_answer",
            300,
            300e-6,
            {("primary", True): 300, ("primary", False): 7 * MOST_NEUTRAL_CALLS},
        ),
    ],
)
@virtually
async def test_the_result_has_the_usage_of_all_its_calls_once(
    scripts: list[list[Any]], kind: str, tokens: int, usd: float, booked: dict[tuple[str, bool], int]
) -> None:
    chats = [paid(*one, endpoint=name) for one, name in zip(scripts, ("primary", "spare"), strict=False)]
    judge, pool, notes = pooled(*chats, prices=PRICES)
    async with pool:
        result = await judge.judge(task())
    assert kind_of(result) == kind
    assert result.usage.input_tokens == tokens
    assert result.cost_usd == pytest.approx(usd)
    assert notes.tokens == booked


@virtually
async def test_draining_spares_a_verdict_with_a_call_already_sent() -> None:
    """The repair turn of the first event waits behind the second event's call, and is sent."""
    judge, pool, _ = pooled(paid("?", '{"score": 3}'), max_in_flight=1)
    async with pool:
        tasks = [asyncio.create_task(judge.judge(task(text))) for text in "ab"]
        await asyncio.sleep(0.15)
        assert [len(one.limiter.waiting) for one in pool.endpoints] == [1]
        pool.drain()
        assert [kind_of(one) for one in await asyncio.gather(*tasks)] == ["scored"] * 2
