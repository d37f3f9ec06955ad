"""Whose trouble it is, an event's or the endpoint's, on a clock that jumps."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import pytest

from judge.errors import (
    DrainingError,
    EventError,
    InvalidVerdictError,
    JudgeConfigurationError,
    JudgeUnavailableError,
)
from judge.pool.pool import EndpointPool
from judge.pool.reliable import ReliableJudge, Result
from judge.pool.suspicion import FIRST_DOUBT
from schemas import Failed, FailedType
from tests.judge.pool.test_reliable import HANG, NEUTRAL, Server, judge_all, now, pooled, task
from tests.judge.virtual_time import run_virtually

GOOD_SECONDS = 0.5
TIMEOUT_SECONDS = 10.0


def kind_of(result: Result) -> str:
    return result.error_type if isinstance(result, Failed) else result.status


@asynccontextmanager
async def judging(
    behaviour: Callable[[Server, str], Any], **values: Any
) -> AsyncIterator[tuple[ReliableJudge, EndpointPool, Server]]:
    server = Server(behaviour)
    judge, pool, _ = pooled(server, **values)
    try:
        yield judge, pool, server
    finally:
        pool.stop()


async def paced(
    judge: ReliableJudge, texts: Iterable[str], *, a_second: float
) -> dict[str, list[asyncio.Task[Result]]]:
    """Events that come at a steady rate; their judging, by the word they begin with."""
    tasks: dict[str, list[asyncio.Task[Result]]] = {}
    for text in texts:
        tasks.setdefault(text.split()[0], []).append(asyncio.create_task(judge.judge(task(text))))
        await asyncio.sleep(1 / a_second)
    return tasks


def words(count: int, one_in: int, word: str) -> list[str]:
    """This many texts, of which one in this many begins with a word and the others with `good`."""
    return [f"{word if number % one_in == one_in - 1 else 'good'} {number}" for number in range(count)]


def by_word(slow: object) -> Callable[[Server, str], Any]:
    """A server that answers everything but what begins with `slow`."""
    return lambda _, text: slow if text.startswith("slow") else GOOD_SECONDS


def test_one_in_twenty_hanging_holds_nobody_up() -> None:
    """2,400 events at 10 a second, 120 of them hang forever: at the end of 244 s all 2,280 others are
    judged, no hanging one for good.
    """

    async def scenario() -> None:
        async with judging(by_word(HANG), timeout_seconds=TIMEOUT_SECONDS) as (
            judge,
            pool,
            _,
        ):
            tasks = await paced(judge, words(2_400, 20, "slow"), a_second=10)
            await asyncio.sleep(4)
            done = [one for one in tasks["good"] if one.done()]
            assert len(done) == 2_280
            assert {kind_of(one.result()) for one in done} == {"scored"}
            assert pool.trouble is None
            ended = await asyncio.gather(*tasks["slow"])
            assert {kind_of(one) for one in ended} == {"no_answer"}
            # The share of others that time out, too, is 1 in 20 or a little more: 0.06 ** 5 < 1e-6.
            assert max(one.judge.tries for one in ended if one.judge) <= 7
            assert pool.trouble is None

    run_virtually(scenario())


def test_a_burst_of_hanging_events_holds_the_rest_up_for_a_minute_at_most() -> None:
    """150 hanging ones, then 1,200 good ones at 5 a second: at 243 s all good ones are judged, and the
    hanging ones come to an end.
    """

    async def scenario() -> None:
        async with judging(by_word(HANG), timeout_seconds=TIMEOUT_SECONDS) as (judge, pool, _):
            hanging = [asyncio.create_task(judge.judge(task(f"slow {number}"))) for number in range(150)]
            good = (await paced(judge, ["good"] * 1_200, a_second=5))["good"]
            await asyncio.sleep(3)
            assert all(one.done() for one in good)
            ended = await asyncio.gather(*hanging)
            assert {kind_of(one) for one in ended} == {"no_answer"}
            assert max(one.judge.tries for one in ended if one.judge) <= 10
            assert pool.trouble is None

    run_virtually(scenario())


def test_events_that_take_longer_than_the_time_out_come_to_an_end() -> None:
    """1 in 50 takes 1.5 times the time-out: when nothing else comes any more they end as no_answer, and the
    endpoint is not down.
    """

    async def scenario() -> None:
        async with judging(by_word(1.5 * TIMEOUT_SECONDS), timeout_seconds=TIMEOUT_SECONDS) as (
            judge,
            pool,
            _,
        ):
            tasks = await paced(judge, words(1_200, 50, "slow"), a_second=10)
            ended = await asyncio.wait_for(asyncio.gather(*tasks["slow"]), 600)
            assert {kind_of(one) for one in ended} == {"no_answer"}
            assert all(one.done() for one in tasks["good"])
            assert pool.trouble is None

    run_virtually(scenario())


def test_a_process_that_stood_still_holds_nothing_against_the_endpoint() -> None:
    """Stopped for a minute amid calls, it finds all of them over time: none counts, and all are judged."""

    async def scenario() -> None:
        began, stopped = now(), 0.0
        async with judging(lambda *_: HANG if now() < began + 1 else 0.1) as (judge, pool, _):
            for chat in pool.chats:
                chat._clock = lambda: now() + stopped
            tasks = [asyncio.create_task(judge.judge(task(str(number)))) for number in range(20)]
            await asyncio.sleep(1)
            stopped = 60.0
            results = await asyncio.gather(*tasks)
            assert {kind_of(one) for one in results} == {"scored"}
            assert pool.chats[0].tally.failed == 0

    run_virtually(scenario())


def test_while_others_wait_those_that_timed_out_have_a_tenth_of_the_slots() -> None:
    """With 20 slots and always more to judge, at most 2 calls under way are for events
    that timed out before.
    """

    async def scenario() -> None:
        under_way, most = 0, 0

        def behave(_: Server, text: str) -> Any:
            return HANG if text.startswith("slow") else GOOD_SECONDS

        async with judging(behave, max_in_flight=20, timeout_seconds=TIMEOUT_SECONDS) as (judge, _, server):
            slow = [asyncio.create_task(judge.judge(task(f"slow {number}"))) for number in range(10)]
            good = [asyncio.create_task(judge.judge(task("good"))) for _ in range(4_000)]
            await asyncio.sleep(TIMEOUT_SECONDS + 5)
            began = now()
            while not all(one.done() for one in good):
                sent = [text for moment, text in server.calls if text.startswith("slow") and moment >= began]
                under_way = len(
                    [
                        1
                        for moment, text in server.calls
                        if text.startswith("slow") and moment > now() - TIMEOUT_SECONDS
                    ]
                )
                most = max(most, under_way)
                assert len(sent) <= 2 * (1 + (now() - began) / TIMEOUT_SECONDS)
                await asyncio.sleep(1)
            assert 1 <= most <= 2
            for one in slow:
                one.cancel()
            await asyncio.gather(*slow, return_exceptions=True)

    run_virtually(scenario())


@pytest.mark.parametrize("status", [302, 401, 403, 404])
def test_one_refusal_after_good_replies_is_a_hiccup(status: int) -> None:
    """After 29 good replies a single one: the event is asked again, and the endpoint is not down."""

    async def scenario() -> None:
        refusal = JudgeConfigurationError(f"answered {status}")
        async with judging(lambda one, _: refusal if len(one.calls) == 30 else 0.1) as (judge, pool, _):
            results = [await judge.judge(task(str(number))) for number in range(40)]
            assert {kind_of(one) for one in results} == {"scored"}
            assert results[29].judge is not None
            assert results[29].judge.tries == 2
            assert pool.trouble is None

    run_virtually(scenario())


def test_an_event_that_a_gateway_refuses_is_no_misconfiguration() -> None:
    """A 403 for each try of one body, from the very first call on: content_refused, and the others are
    judged.
    """

    async def scenario() -> None:
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

    run_virtually(scenario())


@pytest.mark.parametrize("share", [0.5, 0.2])
def test_an_endpoint_that_refuses_some_calls_of_every_event_fails_none(share: float) -> None:
    """One of two replicas behind it has a wrong key, or one of five: 150 good events, one bad one.

    At 0.5 it takes 16 refusals (0.5^16 = 1.5e-5), so that of 150 events 0.002 are abandoned wrongly; at 0.2
    (of 100 events 20, and 9 to be safe: 0.3) it takes 8 (0.2^8 = 3e-6).
    """

    async def scenario() -> None:
        refusal, chance = JudgeConfigurationError("answered 401"), Random(7)
        async with judging(lambda _, text: refusal if text == "bad" or chance.random() < share else 0.1) as (
            judge,
            _,
            _,
        ):
            results = await judge_all(judge, ["bad", *(str(number) for number in range(150))])
            assert [kind_of(one) for one in results] == ["content_refused", *["scored"] * 150]

    run_virtually(scenario())


def test_a_configuration_that_never_worked_ends_the_start_after_it_was_confirmed() -> None:
    """Neutral events are refused over ten seconds.

    A gateway that begins to answer before that ends nothing.
    """

    async def scenario() -> None:
        refusal = JudgeConfigurationError("answered 401")
        began = now()
        async with judging(lambda *_: refusal) as (judge, _, server):
            with pytest.raises(JudgeConfigurationError, match="401"):
                await judge.judge(task())
            # Probes at once and after pauses of 1, 2, 4 and 5 s.
            assert 10 <= now() - began <= 13
            assert len(server.calls) <= 1 + 5
        began = now()
        async with judging(lambda *_: refusal if now() - began < 8 else 0.1) as (judge, _, _):
            assert kind_of(await judge.judge(task())) == "scored"

    run_virtually(scenario())


def test_a_refusal_of_everything_after_good_replies_is_an_outage() -> None:
    """For an hour the key is refused: nothing is decided, the pool says why, and all is judged when it is
    taken again.
    """

    async def scenario() -> None:
        began = now()
        refusal = JudgeConfigurationError("answered 401: expired")
        async with judging(lambda *_: refusal if 5 <= now() - began < 3_605 else 0.1) as (
            judge,
            pool,
            server,
        ):
            tasks = (await paced(judge, ["a"] * 100, a_second=10))["a"]
            await asyncio.sleep(1_000)
            assert pool.trouble is not None
            assert "401" in pool.trouble
            # A neutral event each 5 s.
            assert len(server.calls) <= 50 + 20 + 1_010 / 5
            results = await asyncio.gather(*tasks)
            assert {kind_of(one) for one in results} == {"scored"}
            assert now() - began <= 3_605 + 10

    run_virtually(scenario())


WRONG: dict[str, Exception] = {
    "400": EventError("rejected_request", "answered 400"),
    "413": EventError("context_too_long", "answered 413"),
    "filter": EventError("content_refused", "answered 400: content filter"),
    "cut": EventError("reply_cut", "cut"),
    "garbage": InvalidVerdictError("no verdict"),
    "gone": JudgeUnavailableError("answered 502"),
}


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG.keys())
def test_an_endpoint_that_is_wrong_for_everybody_decides_few_events(wrong: Exception) -> None:
    """For 20 s it fails every call in the same way, with 400 events at 20 a second: few results say so, the
    others are verdicts.

    Five since the last verdict; of the two good calls that are under way when it begins each may begin the
    count again.
    """

    async def scenario() -> None:
        began = now()
        async with judging(lambda *_: wrong if 2 <= now() - began < 22 else 0.1) as (judge, pool, server):
            tasks = await paced(judge, ["a"] * 400, a_second=20)
            # At 20 s.
            assert pool.trouble is not None
            assert len(server.calls) <= 40 + 30
            results = await asyncio.gather(*tasks["a"])
            failed = [one for one in results if isinstance(one, Failed)]
            assert len(failed) <= FIRST_DOUBT - 1 + 2
            assert now() - began <= 22 + 5 + 10
            assert pool.trouble is None

    run_virtually(scenario())


def test_an_endpoint_that_fails_nearly_all_decides_few_events() -> None:
    """For 20 s nine of ten replies are not verdicts, with 400 events at 20 a second.

    In a row six seldom fail, and one neutral event of ten is judged: 9 failures among 12 verdicts raise the
    doubt, and from then on two in a row. Believing each failure would publish 360.
    """

    async def scenario() -> None:
        began, chance = now(), Random(7)

        def reply(*_: object) -> Any:
            bad = 2 <= now() - began < 22 and chance.random() < 0.9
            return InvalidVerdictError("no verdict") if bad else 0.1

        async with judging(reply) as (judge, _, _):
            tasks = await paced(judge, ["a"] * 400, a_second=20)
            results = await asyncio.gather(*tasks["a"])
            assert sum(isinstance(one, Failed) for one in results) <= 40

    run_virtually(scenario())


def test_the_trouble_says_how_verdicts_failed_and_how_many_were_published() -> None:
    """For anyone who reads the log or the readiness."""

    async def scenario() -> None:
        wrong = EventError("rejected_request", "answered 400: no")
        async with judging(lambda *_: wrong) as (judge, pool, _):
            tasks = [asyncio.create_task(judge.judge(task(str(number)))) for number in range(20)]
            await asyncio.sleep(5)
            assert sum(one.done() for one in tasks) == 5
            assert pool.trouble is not None
            for words_ in ("rejected_request", "5 results were published", "answered 400: no"):
                assert words_ in pool.trouble
            for one in tasks:
                one.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    run_virtually(scenario())


@pytest.mark.parametrize("kind", ["rejected_request", "context_too_long", "invalid_verdict"])
def test_events_that_all_fail_by_themselves_are_decided(kind: FailedType) -> None:
    """A neutral event is judged: each is its own result, and few neutral events are paid for."""

    async def scenario() -> None:
        refusal = EventError(kind, "no")
        async with judging(lambda _, text: 0.1 if text == NEUTRAL else refusal) as (judge, pool, server):
            results = [await judge.judge(task(str(number))) for number in range(200)]
            assert {kind_of(one) for one in results} == {kind}
            # After 6, 12, 24, 48 and each 48 further ones, two each time.
            assert len([text for _, text in server.calls if text == NEUTRAL]) <= 14
            assert pool.trouble is None

    run_virtually(scenario())


def test_calls_under_way_when_it_goes_down_do_not_put_off_the_first_probe() -> None:
    """64 calls fail one after the other over some seconds: a neutral event is sent within a second of the one
    that opens the breaker.
    """

    async def scenario() -> None:
        began = now()
        # Gently begun, they are sent over some seconds, and time out as they were sent.
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

    run_virtually(scenario())


def test_a_drained_pool_gives_up_what_was_not_sent() -> None:
    """Of ten events with two slots: two are under way and end with their verdicts, eight are abandoned.

    Later ones are judged.
    """

    async def scenario() -> None:
        async with judging(lambda *_: 5.0, max_in_flight=2) as (judge, pool, server):
            tasks = [asyncio.create_task(judge.judge(task(str(number)))) for number in range(10)]
            await asyncio.sleep(1)
            pool.drain()
            ended = await asyncio.gather(*tasks, return_exceptions=True)
            assert [isinstance(one, DrainingError) for one in ended] == [False] * 2 + [True] * 8
            assert len(server.calls) == 2
            assert kind_of(await judge.judge(task("later"))) == "scored"

    run_virtually(scenario())


def test_a_closed_pool_begins_nothing() -> None:
    """Two calls are under way when it is closed, and slots are free: a task that comes after that
    is abandoned unsent.
    """

    async def scenario() -> None:
        async with judging(lambda *_: 5.0, max_in_flight=4) as (judge, pool, server):
            under_way = [asyncio.create_task(judge.judge(task(str(number)))) for number in range(2)]
            await asyncio.sleep(1)
            pool.drain(close=True)
            with pytest.raises(DrainingError):
                await judge.judge(task("later"))
            assert {kind_of(one) for one in await asyncio.gather(*under_way)} == {"scored"}
            assert len(server.calls) == 2

    run_virtually(scenario())


def test_a_closed_pool_gives_up_what_comes_while_an_endpoint_is_away() -> None:
    """It does not wait for the endpoint to come back."""

    async def scenario() -> None:
        async with judging(lambda *_: JudgeUnavailableError("gone")) as (judge, pool, _):
            first = asyncio.create_task(judge.judge(task("first")))
            await asyncio.sleep(30)
            pool.drain(close=True)
            for one in (first, asyncio.create_task(judge.judge(task("later")))):
                with pytest.raises(DrainingError):
                    await one

    run_virtually(scenario())


def test_a_drained_pool_gives_up_what_waits_for_an_endpoint() -> None:
    """While it is down, and in the rest after a failure."""

    async def scenario() -> None:
        async with judging(lambda *_: JudgeUnavailableError("gone")) as (judge, pool, _):
            tasks = [asyncio.create_task(judge.judge(task(str(number)))) for number in range(20)]
            await asyncio.sleep(30)
            pool.drain()
            ended = await asyncio.gather(*tasks, return_exceptions=True)
            assert all(isinstance(one, DrainingError) for one in ended)

    run_virtually(scenario())
