"""Tells an event's failures from an endpoint's, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import pytest

from judge.endpoints.pool import EndpointPool, Result, RetryingJudge
from judge.errors import (
    DrainingError,
    EventError,
    InvalidVerdictError,
    JudgeConfigurationError,
    JudgeUnavailableError,
)
from schemas import Failed, FailedType
from tests.judge.endpoints.servers import HANG, NEUTRAL, Server, judge_all, now, pooled, task
from tests.judge.virtual_time import virtually

GOOD_SECONDS = 0.5
TIMEOUT_SECONDS = 10.0


def kind_of(result: Result) -> str:
    return result.error_type if isinstance(result, Failed) else result.status


@asynccontextmanager
async def judging(
    behaviour: Callable[[Server, str], Any], **values: Any
) -> AsyncIterator[tuple[RetryingJudge, EndpointPool, Server]]:
    server = Server(behaviour)
    judge, pool, _ = pooled(server, **values)
    try:
        yield judge, pool, server
    finally:
        pool.stop()


async def paced(
    judge: RetryingJudge, texts: Iterable[str], *, a_second: float
) -> dict[str, list[asyncio.Task[Result]]]:
    """Judge events at a steady rate; the tasks by the first word of their texts."""
    tasks: dict[str, list[asyncio.Task[Result]]] = {}
    for text in texts:
        tasks.setdefault(text.split()[0], []).append(asyncio.create_task(judge.judge(task(text))))
        await asyncio.sleep(1 / a_second)
    return tasks


def words(count: int, one_in: int, word: str) -> list[str]:
    """This many texts; one in `one_in` starts with the word, the others with `good`."""
    return [f"{word if number % one_in == one_in - 1 else 'good'} {number}" for number in range(count)]


def by_word(slow: object) -> Callable[[Server, str], Any]:
    """A server that answers every text except those that start with `slow`."""
    return lambda _, text: slow if text.startswith("slow") else GOOD_SECONDS


@virtually
async def test_one_in_twenty_hanging_delays_no_other() -> None:
    """120 of 2,400 events (10 a second) hang forever: after 244 s the other 2,280 are scored, and the hanging
    ones end as `no_answer`.
    """
    async with judging(by_word(HANG), timeout_seconds=TIMEOUT_SECONDS) as (judge, pool, _):
        tasks = await paced(judge, words(2_400, 20, "slow"), a_second=10)
        await asyncio.sleep(4)
        done = [one for one in tasks["good"] if one.done()]
        assert len(done) == 2_280
        assert {kind_of(one.result()) for one in done} == {"scored"}
        assert pool.trouble is None
        ended = await asyncio.gather(*tasks["slow"])
        assert {kind_of(one) for one in ended} == {"no_answer"}
        # About 1 in 20 of the others time out too: 0.06 ** 5 < 1e-6.
        assert max(one.judge.tries for one in ended if one.judge) <= 7
        assert pool.trouble is None


@virtually
async def test_a_burst_of_hanging_events_holds_the_rest_up_for_a_minute_at_most() -> None:
    """150 hanging events delay 1,200 good ones at 5 a second only to 243 s, and the hanging ones end."""
    async with judging(by_word(HANG), timeout_seconds=TIMEOUT_SECONDS) as (judge, pool, _):
        hanging = [asyncio.create_task(judge.judge(task(f"slow {number}"))) for number in range(150)]
        good = (await paced(judge, ["good"] * 1_200, a_second=5))["good"]
        await asyncio.sleep(3)
        assert all(one.done() for one in good)
        ended = await asyncio.gather(*hanging)
        assert {kind_of(one) for one in ended} == {"no_answer"}
        assert max(one.judge.tries for one in ended if one.judge) <= 20
        assert pool.trouble is None


@virtually
async def test_events_that_take_longer_than_the_time_out_come_to_an_end() -> None:
    """Events that take 1.5 times the timeout (1 in 50) end as `no_answer`, and the endpoint is not down."""
    async with judging(by_word(1.5 * TIMEOUT_SECONDS), timeout_seconds=TIMEOUT_SECONDS) as (judge, pool, _):
        tasks = await paced(judge, words(1_200, 50, "slow"), a_second=10)
        ended = await asyncio.wait_for(asyncio.gather(*tasks["slow"]), 600)
        assert {kind_of(one) for one in ended} == {"no_answer"}
        assert all(one.done() for one in tasks["good"])
        assert pool.trouble is None


@virtually
async def test_late_calls_of_a_stopped_process_are_no_failures() -> None:
    began, stopped = now(), 0.0
    async with judging(lambda *_: HANG if now() < began + 1 else 0.1) as (judge, pool, _):
        for chat in pool.endpoints:
            chat._clock = lambda: now() + stopped
        tasks = [asyncio.create_task(judge.judge(task(str(number)))) for number in range(20)]
        await asyncio.sleep(1)
        stopped = 60.0
        results = await asyncio.gather(*tasks)
        assert {kind_of(one) for one in results} == {"scored"}
        assert pool.trouble is None
        assert pool.states[0].failed_share == 0


@pytest.mark.parametrize("status", [302, 401, 403, 404])
@virtually
async def test_one_refusal_after_good_replies_is_retried(status: int) -> None:
    refusal = JudgeConfigurationError(f"answered {status}")
    async with judging(lambda one, _: refusal if len(one.calls) == 30 else 0.1) as (judge, pool, _):
        results = [await judge.judge(task(str(number))) for number in range(40)]
        assert {kind_of(one) for one in results} == {"scored"}
        assert results[29].judge is not None
        assert results[29].judge.tries == 2
        assert pool.trouble is None


@virtually
async def test_an_event_that_a_gateway_refuses_is_no_misconfiguration() -> None:
    """A 403 for each try of one event, even the first call, is `content_refused`; the others are scored."""
    refusal = JudgeConfigurationError("answered 403", "Check the permissions of the API key")
    async with judging(lambda _, text: refusal if text == "bad" else 0.1) as (judge, pool, _):
        results = await judge_all(judge, ["bad", "a", "bad", "b", "bad"])
        assert [kind_of(one) for one in results] == [
            "content_refused",
            "scored",
            "content_refused",
            "scored",
            "content_refused",
        ]
        assert isinstance(results[0], Failed)
        assert results[0].detail == "answered 403 each time to this event, and accepts others"
        assert pool.trouble is None


@pytest.mark.parametrize("share", [0.5, 0.2])
@virtually
async def test_an_endpoint_that_refuses_some_calls_of_every_event_fails_none(share: float) -> None:
    """One of two replicas, or one of five, has a wrong key: 150 good events are scored, the bad one fails. At
    0.5 it takes 16 refusals (0.5^16 = 1.5e-5): 0.002 of 150 events are abandoned wrongly. At 0.2 (20 of 100
    events plus two standard deviations, 9: 0.3) it takes 8 (0.2^8 = 3e-6).
    """
    refusal, chance = JudgeConfigurationError("answered 401"), Random(7)
    async with judging(lambda _, text: refusal if text == "bad" or chance.random() < share else 0.1) as (
        judge,
        _,
        _,
    ):
        results = await judge_all(judge, ["bad", *(str(number) for number in range(150))])
        assert [kind_of(one) for one in results] == ["content_refused", *["scored"] * 150]


@virtually
async def test_a_configuration_that_never_worked_ends_the_start_after_it_was_confirmed() -> None:
    """Ten seconds of refused neutral calls end the start; a gateway that answers earlier does not."""
    refusal = JudgeConfigurationError("answered 401")
    began = now()
    async with judging(lambda *_: refusal) as (judge, _, server):
        with pytest.raises(JudgeConfigurationError, match="401"):
            await judge.judge(task())
        # Probes at once and after pauses of 1, 2, 4 and 5 s.
        assert 10 <= now() - began <= 13
        assert len(server.calls) <= 2 + 5
    began = now()
    async with judging(lambda *_: refusal if now() - began < 8 else 0.1) as (judge, _, _):
        assert kind_of(await judge.judge(task())) == "scored"


@virtually
async def test_a_refusal_of_everything_after_good_replies_is_an_outage() -> None:
    """An hour of refused keys decides no event; the pool reports the reason, and every event is scored
    afterwards.
    """
    began = now()
    refusal = JudgeConfigurationError("answered 401: expired")
    async with judging(lambda *_: refusal if 5 <= now() - began < 3_605 else 0.1) as (judge, pool, server):
        tasks = (await paced(judge, ["a"] * 100, a_second=10))["a"]
        await asyncio.sleep(1_000)
        assert pool.trouble is not None
        assert "401" in pool.trouble
        # A neutral call each 5 s.
        assert len(server.calls) <= 50 + 20 + 1_010 / 5
        results = await asyncio.gather(*tasks)
        assert {kind_of(one) for one in results} == {"scored"}
        assert now() - began <= 3_605 + 10


WRONG: dict[str, Exception] = {
    "400": EventError("rejected_request", "answered 400"),
    "413": EventError("context_too_long", "answered 413"),
    "filter": EventError("content_refused", "answered 400: content filter"),
    "cut": EventError("reply_cut", "cut"),
    "garbage": InvalidVerdictError("no verdict"),
    "gone": JudgeUnavailableError("answered 502"),
}


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG.keys())
@virtually
async def test_an_endpoint_that_fails_every_event_decides_none(wrong: Exception) -> None:
    """An endpoint fails every call for 20 s, with 400 events at 20 a second: all are scored soon after."""
    began = now()
    async with judging(lambda *_: wrong if 2 <= now() - began < 22 else 0.1) as (judge, pool, server):
        tasks = await paced(judge, ["a"] * 400, a_second=20)
        # At 20 s.
        assert pool.trouble is not None
        assert len(server.calls) <= 40 + 30
        results = await asyncio.gather(*tasks["a"])
        assert {kind_of(one) for one in results} == {"scored"}
        assert now() - began <= 22 + 5 + 10
        assert pool.trouble is None


@virtually
async def test_an_endpoint_that_fails_nearly_all_decides_no_event() -> None:
    """For 20 s nine of ten replies are invalid, with 400 events at 20 a second."""
    began, chance = now(), Random(7)

    def reply(*_: object) -> Any:
        bad = 2 <= now() - began < 22 and chance.random() < 0.9
        return InvalidVerdictError("no verdict") if bad else 0.1

    async with judging(reply) as (judge, _, _):
        tasks = await paced(judge, ["a"] * 400, a_second=20)
        results = await asyncio.gather(*tasks["a"])
        assert {kind_of(one) for one in results} == {"scored"}


@virtually
async def test_the_pools_trouble_names_and_counts_the_failures() -> None:
    wrong = EventError("rejected_request", "answered 400: no")
    async with judging(lambda *_: wrong) as (judge, pool, _):
        tasks = [asyncio.create_task(judge.judge(task(str(number)))) for number in range(20)]
        await asyncio.sleep(5)
        assert sum(one.done() for one in tasks) == 0
        assert pool.trouble is not None
        for words_ in ("rejected_request", "answered 400: no"):
            assert words_ in pool.trouble
        for one in tasks:
            one.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@pytest.mark.parametrize("kind", ["rejected_request", "context_too_long", "invalid_verdict"])
@virtually
async def test_events_that_all_fail_by_themselves_are_decided(kind: FailedType) -> None:
    """While a neutral event is judged, each failing event is its own result, with few neutral calls."""
    refusal = EventError(kind, "no")
    async with judging(lambda _, text: 0.1 if text == NEUTRAL else refusal) as (judge, pool, server):
        results = [await judge.judge(task(str(number))) for number in range(200)]
        assert {kind_of(one) for one in results} == {kind}
        # Three for each, as nothing else is judged meanwhile; nine at the start.
        assert len([text for _, text in server.calls if text == NEUTRAL]) <= 3 * 200 + 6
        assert pool.trouble is None


@virtually
async def test_failures_of_calls_in_flight_do_not_delay_the_first_probe() -> None:
    began = now()
    # The calls are sent over some seconds (gentle start), and time out one after the other.
    async with judging(lambda *_: HANG, timeout_seconds=TIMEOUT_SECONDS) as (judge, pool, server):
        tasks = [asyncio.create_task(judge.judge(task(str(number)))) for number in range(64)]
        for _ in range(3_000):
            if pool.trouble is None:
                await asyncio.sleep(0.01)
        down_at = now()
        await asyncio.sleep(1.1)
        assert [text for _, text in server.calls if text == NEUTRAL]
        assert down_at - began >= TIMEOUT_SECONDS
        for one in tasks:
            one.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@virtually
async def test_draining_abandons_unsent_events() -> None:
    """Draining abandons the eight waiting events; the two in flight end with their verdicts, and later ones
    are judged.
    """
    async with judging(lambda *_: 5.0, max_in_flight=2) as (judge, pool, server):
        tasks = [asyncio.create_task(judge.judge(task(str(number)))) for number in range(10)]
        await asyncio.sleep(1)
        pool.drain()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
        assert [isinstance(one, DrainingError) for one in ended] == [False] * 2 + [True] * 8
        assert len(server.calls) == 2
        assert kind_of(await judge.judge(task("later"))) == "scored"


@virtually
async def test_a_closed_pool_starts_nothing() -> None:
    """A closed pool abandons a new task although slots are free."""
    async with judging(lambda *_: 5.0, max_in_flight=4) as (judge, pool, server):
        under_way = [asyncio.create_task(judge.judge(task(str(number)))) for number in range(2)]
        await asyncio.sleep(1)
        pool.drain(close=True)
        with pytest.raises(DrainingError):
            await judge.judge(task("later"))
        assert {kind_of(one) for one in await asyncio.gather(*under_way)} == {"scored"}
        assert len(server.calls) == 2


@pytest.mark.parametrize("close", [False, True])
@virtually
async def test_draining_abandons_tasks_that_wait_for_an_endpoint(close: bool) -> None:
    async with judging(lambda *_: JudgeUnavailableError("gone")) as (judge, pool, _):
        tasks = [asyncio.create_task(judge.judge(task(str(number)))) for number in range(20)]
        await asyncio.sleep(30)
        pool.drain(close=close)
        if close:
            tasks.append(asyncio.create_task(judge.judge(task("later"))))
        ended = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(one, DrainingError) for one in ended)
