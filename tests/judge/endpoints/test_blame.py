"""Whether an event or its endpoint causes a failure, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from judge.chat import ChatReply
from judge.endpoints.health import CallHistory
from judge.errors import EventError, InvalidVerdictError, JudgeConfigurationError, JudgeUnavailableError
from schemas import Failed, FailedType, Usage
from tests.judge.endpoints.servers import (
    HANG,
    NEUTRAL,
    Server,
    judge_all,
    judging,
    kind_of,
    now,
    paced,
    pooled,
    task,
    waiting,
)
from tests.judge.virtual_time import virtually

GOOD_SECONDS = 0.5
TIMEOUT_SECONDS = 10.0
PAID = ChatReply("", "m", Usage(input_tokens=9), 0.1)
KEY = JudgeConfigurationError("answered 401")
WRONG: dict[str, Exception] = {
    "400": EventError("rejected_request", "answered 400"),
    "413": EventError("context_too_long", "answered 413"),
    "filter": EventError("content_refused", "filtered", reply=PAID),
    "cut": EventError("reply_cut", "cut", reply=PAID),
    "garbage": InvalidVerdictError("no verdict"),
    "401": KEY,
    "gone": JudgeUnavailableError("answered 502"),
}
ANSWERED = {name: wrong for name, wrong in WRONG.items() if name != "gone"}


def words(count: int, one_in: int) -> list[str]:
    """This many texts; one in `one_in` starts with `bad`, the others with `good`."""
    return [f"{'bad' if number % one_in == one_in - 1 else 'good'} {number}" for number in range(count)]


def by_word(bad: object) -> Callable[[Server, str], Any]:
    return lambda _, text: bad if text.startswith("bad") else GOOD_SECONDS


def often(wrong: object, share: float, seed: int) -> Callable[[Server, str], Any]:
    chance = Random(seed)
    return lambda _, text: wrong if text == "bad" or chance.random() < share else GOOD_SECONDS


@pytest.mark.parametrize(
    ("bad", "texts", "a_second", "kind", "tries"),
    [
        # About 1 in 20 of the others time out too: 0.06 ** 5 < 1e-6.
        (HANG, words(2_400, 20), 10, "no_answer", 7),
        (1.5 * TIMEOUT_SECONDS, words(1_200, 50), 10, "no_answer", 7),
        *(
            (WRONG["cut"], words(400, one_in), a_second, "reply_cut", 3)
            for one_in in (20, 3)
            for a_second in (20, 2, 0.1)
        ),
    ],
)
@virtually
async def test_events_that_fail_by_themselves_delay_no_other(
    bad: object, texts: list[str], a_second: float, kind: str, tries: int
) -> None:
    async with judging(by_word(bad), timeout_seconds=TIMEOUT_SECONDS) as (judge, pool, _):
        tasks = await paced(judge, texts, a_second=a_second)
        await asyncio.sleep(4)
        assert all(one.done() for one in tasks["good"])
        assert {kind_of(one.result()) for one in tasks["good"]} == {"scored"}
        ended = await asyncio.wait_for(asyncio.gather(*tasks["bad"]), 600)
        assert {kind_of(one) for one in ended} == {kind}
        assert max(one.judge.tries for one in ended if one.judge) <= tries
        assert pool.trouble is None


@virtually
async def test_a_burst_of_hanging_events_holds_the_rest_up_for_a_minute_at_most() -> None:
    async with judging(by_word(HANG), timeout_seconds=TIMEOUT_SECONDS) as (judge, pool, _):
        hanging = [asyncio.create_task(judge.judge(task(f"bad {number}"))) for number in range(150)]
        good = (await paced(judge, ["good"] * 1_200, a_second=5))["good"]
        await asyncio.sleep(3)
        assert all(one.done() for one in good)
        ended = await asyncio.gather(*hanging)
        assert {kind_of(one) for one in ended} == {"no_answer"}
        assert max(one.judge.tries for one in ended if one.judge) <= 20
        assert pool.trouble is None


@pytest.mark.parametrize("is_idle", [False, True])
@virtually
async def test_one_event_that_always_hangs_is_given_up(is_idle: bool) -> None:
    """Three time-outs are enough while others are scored; else neutral calls prove that the endpoint answers:
    one neutral verdict counts for 9 answers, and 0.1^4 = 1e-4.
    """
    async with judging(by_word(HANG), timeout_seconds=30) as (judge, pool, _):
        bad = asyncio.create_task(judge.judge(task("bad")))
        while not (bad.done() or is_idle):
            await judge_all(judge, ["good"] * 10)
            await asyncio.sleep(1)
        result = await asyncio.wait_for(bad, 3_600)
        assert kind_of(result) == "no_answer"
        assert result.judge is not None
        assert result.judge.tries == 3 + is_idle
        assert pool.trouble is None


@pytest.mark.slow
@pytest.mark.parametrize("wrong", ANSWERED.values(), ids=ANSWERED.keys())
@pytest.mark.parametrize("a_second", [20, 2])
@virtually
async def test_one_bad_replica_of_two_loses_no_event(wrong: Exception, a_second: float) -> None:
    async with judging(often(wrong, 0.5, 5)) as (judge, pool, _):
        tasks = await paced(judge, ["good"] * 400, a_second=a_second)
        assert {kind_of(one) for one in await asyncio.gather(*tasks["good"])} == {"scored"}
        assert pool.trouble is None


@pytest.mark.parametrize("share", [0.5, 0.2])
@virtually
async def test_an_endpoint_that_refuses_some_calls_of_every_event_fails_none(share: float) -> None:
    """One of two replicas, or one of five, has a wrong key: 150 good events are scored, the bad one fails. At
    0.5 it takes 16 refusals (0.5^16 = 1.5e-5): 0.002 of 150 events are abandoned wrongly. At 0.2 (20 of 100
    events plus two standard deviations, 9: 0.3) it takes 8 (0.2^8 = 3e-6).
    """
    async with judging(often(KEY, share, 7)) as (judge, _, _):
        results = await judge_all(judge, ["bad", *(str(number) for number in range(150))])
        assert [kind_of(one) for one in results] == ["content_refused", *["scored"] * 150]


@virtually
async def test_late_calls_of_a_stopped_process_are_no_failures() -> None:
    began, stopped = now(), 0.0
    judge, pool, notes = pooled(Server(lambda *_: HANG if now() < began + 1 else 0.1))
    async with pool:
        pool.endpoints[0]._clock = lambda: now() + stopped
        tasks = [asyncio.create_task(judge.judge(task(str(number)))) for number in range(20)]
        await asyncio.sleep(1)
        stopped = 60.0
        assert {kind_of(one) for one in await asyncio.gather(*tasks)} == {"scored"}
        assert notes.downs == [("primary", False)]
        assert not notes.failed


@virtually
async def test_an_event_that_a_gateway_refuses_is_no_misconfiguration() -> None:
    refusal = JudgeConfigurationError("answered 403", "Check the permissions of the API key")
    async with judging(by_word(refusal)) as (judge, pool, _):
        results = await judge_all(judge, ["bad", "a", "bad", "b", "bad"])
        assert [kind_of(one) for one in results] == [*["content_refused", "scored"] * 2, "content_refused"]
        assert isinstance(results[0], Failed)
        assert results[0].detail == "answered 403 each time to this event, and accepts others"
        assert pool.trouble is None


@pytest.mark.parametrize(
    ("wrong", "share"),
    [*((one, 1.0) for one in WRONG.values()), (WRONG["garbage"], 0.9)],
    ids=[*WRONG, "nearly all garbage"],
)
@virtually
async def test_an_endpoint_that_fails_all_events_or_nearly_all_decides_none(
    wrong: Exception, share: float
) -> None:
    began, chance = now(), Random(7)

    def reply(*_: object) -> Any:
        return wrong if 2 <= now() - began < 22 and chance.random() < share else 0.1

    async with judging(reply) as (judge, pool, server):
        tasks = await paced(judge, ["a"] * 400, a_second=20)
        # At 20 s.
        if share == 1:
            assert pool.trouble is not None
            assert str(wrong) in pool.trouble
            assert not isinstance(wrong, EventError) or wrong.error_type in pool.trouble
            assert len(server.calls) <= 40 + 30
        results = await asyncio.gather(*tasks["a"])
        assert {kind_of(one) for one in results} == {"scored"}
        assert now() - began <= 22 + 5 + 10
        assert pool.trouble is None


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["rejected_request", "content_refused", "invalid_verdict"])
@virtually
async def test_events_that_all_fail_by_themselves_are_decided(kind: FailedType) -> None:
    refusal = EventError(kind, "no")
    for at_once in (False, True):
        async with judging(lambda _, text: 0.1 if text == NEUTRAL else refusal) as (judge, pool, server):
            texts = [str(number) for number in range(200)]
            results = (
                await judge_all(judge, texts) if at_once else [await judge.judge(task(one)) for one in texts]
            )
            assert {kind_of(one) for one in results} == {kind}
            # Three neutral calls for each, as nothing else is judged meanwhile; nine at the start.
            neutral = len([text for _, text in server.calls if text == NEUTRAL])
            assert neutral <= 3 * 200 + 6
            assert not at_once or len(server.calls) - neutral <= 4 * 200
            assert pool.trouble is None


@virtually
async def test_an_event_that_fails_in_an_outage_is_never_given_up() -> None:
    back = now() + 7_200
    gone = WRONG["gone"]
    async with judging(
        lambda *_: 0.1 if now() >= back else HANG if int(now()) % 2 else gone, timeout_seconds=10
    ) as (judge, _, _):
        results = await judge_all(judge, [str(number) for number in range(30)])
        assert {kind_of(one) for one in results} == {"scored"}
        assert 0 <= now() - back <= 30


@virtually
async def test_an_endpoint_that_hangs_is_probed_at_once_and_by_eight_calls_at_most() -> None:
    """64 calls time out one after the other; a neutral event is sent within 1.1 s of the first."""
    began = now()
    async with (
        judging(lambda *_: HANG, timeout_seconds=60) as (judge, pool, server),
        waiting(judge, 64),
    ):
        await pool._change.wait()
        assert pool.trouble is not None
        assert now() - began >= 60
        await asyncio.sleep(1.1)
        assert [text for _, text in server.calls if text == NEUTRAL]
        await asyncio.sleep(57)  # which is time for 12 more
        assert server.neutral_in_flight == 8


@virtually
async def test_time_outs_of_many_calls_halve_the_calls_in_flight() -> None:
    """Half of 64 calls at once hang. At the sixth time-out the share of failures is 8.2 / 38, above 0.2."""

    def reply(server: Server, _: str) -> Any:
        return HANG if server.in_flight > 32 else 1.0

    async with judging(reply, timeout_seconds=TIMEOUT_SECONDS) as (judge, pool, _), waiting(judge, 64):
        await asyncio.sleep(TIMEOUT_SECONDS + 0.1)
        assert pool.endpoints[0].limiter.concurrency.calls == 32


@virtually
async def test_the_share_of_events_that_an_endpoint_fails_is_stated() -> None:
    seen: set[str] = set()

    def reply(_: Server, text: str) -> Any:
        fails = text != NEUTRAL and int(text) % 2 and text not in seen
        seen.add(text)
        return WRONG["400"] if fails else 0.1

    async with judging(reply) as (judge, pool, _):
        for number in range(40):
            await judge.judge(task(str(number)))
        (state,) = pool.states
        assert (state.up, state.failed_share, state.is_unwell) == (True, 0.5, True)


def test_old_failures_of_neutral_events_do_not_delay_a_quiet_endpoint_s_decision() -> None:
    """With a call in ten minutes the latest 64 outcomes span hours."""
    decisions = []
    for seconds in (290.0, 310.0):
        history, event = CallHistory(), None
        for at in range(10):
            history.judged(at - 3_600.0)
        for _ in range(3):
            history.neutral(0.0, is_failure=True)
        for _ in range(3):
            event = history.failed(event, sent_at=seconds, now=seconds)
        for _ in range(5):
            history.judged(seconds)
        assert event is not None
        decisions.append(history.decide(event, paid=True, now=seconds))
    assert decisions == ["again", "event"]
