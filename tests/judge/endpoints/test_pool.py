"""The endpoints of a pool, opened and closed as one, and calls within their limits; in virtual time."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any
from unittest.mock import Mock

import pytest

from judge.chat import RateLimits
from judge.endpoints.health import Breaker
from judge.endpoints.limiter import Concurrency, Quota
from judge.endpoints.options import EndpointOptions
from judge.endpoints.pool import EndpointPool
from judge.errors import EventError, JudgeConfigurationError, JudgeUnavailableError
from judge.evaluate.cache import MemoryCache
from judge.metrics.coverage import Coverage
from schemas import Unscored
from tests.judge.endpoints.servers import HANG, Server, judge_all, judging, kind_of, now, pooled, until
from tests.judge.scripted import ScriptedChat
from tests.judge.tasks import TONE, make_task, pack_metric
from tests.judge.virtual_time import virtually


async def test_the_stack_closes_only_its_own_endpoints() -> None:
    own, lent, cache = ScriptedChat([]), ScriptedChat([], endpoint="lent"), Mock(MemoryCache)
    async with EndpointPool([EndpointOptions(own), EndpointOptions(lent, borrowed=True)], cache=cache):
        assert not own.closed
    assert (own.closed, lent.closed) == (True, False)
    cache.close.assert_called_once_with()


async def test_a_text_beyond_the_smallest_window_is_not_sent() -> None:
    chat = ScriptedChat(["{}"] * 9, endpoint="narrow")
    reference = "".join(f"The tower number {number} stands in the town. " for number in range(200))
    async with EndpointPool([EndpointOptions(chat, context_tokens=9_000)]) as pool:
        result = await pool.judge(Coverage()).judge(make_task("coverage", reference=reference))
    assert isinstance(result, Unscored)
    assert result.reason == "too_long"
    assert isinstance(result.evidence, dict)
    assert int(str(result.evidence["estimated_tokens"])) > int(str(result.evidence["limit"]))
    assert chat.requests == []


async def test_a_metric_is_judged_at_the_endpoints_that_it_names() -> None:
    names = ("large", "small")
    large, small = (ScriptedChat(lambda _: '{"score": 4}', endpoint=one, model=one) for one in names)
    first = EndpointOptions(large, parameters={"seed": 1, "top_p": 0.5})
    async with EndpointPool([first, EndpointOptions(small, parameters={"seed": 1})]) as pool:
        one = pool.judge(TONE, endpoints=["small"], parameters={"seed": 7})
        judges = (one, pool.judge(TONE, endpoints=["small", "large"]), pool.judge(TONE))
        results = [await judge.judge(make_task("tone")) for judge in judges]
        calls = [one.judge and (one.judge.endpoint, one.judge.fallback) for one in results]
        assert calls == [("small", False), ("small", False), ("large", False)]
        assert results[0].evaluator.parameters == {"seed": 7}
        assert results[2].evaluator.parameters == {"seed": 1, "top_p": 0.5}
        assert len(large.requests) == 1
        told = "no judge endpoint is called medium; known: large, small"
        with pytest.raises(JudgeConfigurationError, match=told):
            pool.judge(TONE, endpoints=["medium"])


@virtually
async def test_a_metric_whose_endpoints_are_down_waits_while_others_are_judged() -> None:
    began = now()
    down = JudgeUnavailableError("gone")
    small = Server(lambda *_: down if now() - began < 60 else 0.1, endpoint="small")
    large = Server(lambda *_: 0.1, endpoint="large")
    async with EndpointPool([EndpointOptions(large), EndpointOptions(small)], clock=now) as pool:
        everywhere, there = pool.judge(TONE), pool.judge(TONE, endpoints=["small"])
        waiting = [asyncio.create_task(there.judge(make_task("tone"))) for _ in range(20)]
        await asyncio.sleep(30)
        assert (pool.trouble or "").startswith("gone. ")
        assert (await everywhere.judge(make_task("tone"))).status == "scored"
        assert not any(one.done() for one in waiting)
        results = await asyncio.gather(*waiting)
        assert {one.judge.endpoint for one in results if one.judge} == {"small"}
        assert str(pool.trouble) == "None"
        assert now() - began <= 70


@virtually
async def test_a_metric_that_cannot_be_judged_takes_no_endpoint_down() -> None:
    refusal = EventError("rejected_request", "answered 400")
    server = Server(lambda _, text: refusal if text.startswith("curt:") else 0.1)
    async with EndpointPool([EndpointOptions(server)], clock=now) as pool:
        tone, curt = pool.judge(TONE), pool.judge(pack_metric("curt: {answer}", name="curt"))
        failed = [asyncio.create_task(curt.judge(make_task("curt", answer=str(one)))) for one in range(20)]
        scored = [asyncio.create_task(tone.judge(make_task("tone", answer=str(one)))) for one in range(20)]
        assert {one.status for one in await asyncio.gather(*failed)} == {"failed"}
        assert {one.status for one in await asyncio.gather(*scored)} == {"scored"}
        (state,) = pool.states
        assert (state.up, state.failed_share) == (True, 0)
        assert sum(text.startswith("curt:") for _, text in server.calls) <= 20 * 4 + 20


async def test_a_reply_about_another_event_is_asked_for_again_on_a_new_connection() -> None:
    """Its quotations stand nowhere in what was sent; a reply without quotations is taken as it is."""
    foreign = '{"score": 4, "answer_span": "The second lake is 31 km long."}'
    own = '{"score": 2, "answer_span": "It is in Paris."}'
    chat = ScriptedChat([foreign, own, foreign, foreign, '{"score": 3}'])
    async with EndpointPool([EndpointOptions(chat)]) as pool:
        judge = pool.judge(TONE)
        scores = [await judge.judge(make_task("tone", answer="It is in Paris.")) for _ in range(3)]
    assert [getattr(one, "score", None) for one in scores] == [2, 4, 3]  # asked again once, not for ever
    assert [request.fresh for request in chat.requests] == [False, True, False, True, False]


# Limits


@virtually
async def test_a_busy_endpoint_is_waited_for_rather_than_left() -> None:
    first, spare = Server(lambda *_: 1.0), Server(lambda *_: 0.1, endpoint="spare")
    judge, _, _ = pooled(EndpointOptions(first, max_in_flight=4), spare)
    started = now()
    await judge_all(judge, ["a"] * 20)
    assert spare.calls == []
    assert first.most_in_flight == 4
    assert now() - started == pytest.approx(5.0, abs=0.1)


@virtually
async def test_the_bound_on_calls_holds_over_all_endpoints() -> None:
    first, spare = Server(lambda *_: HANG), Server(lambda *_: 1.0, endpoint="spare")
    judge, pool, _ = pooled(first, spare, max_in_flight=8, timeout_seconds=5)
    async with pool:
        watching = asyncio.create_task(judge_all(judge, ["a"] * 40))
        most = 0
        while not watching.done():
            most = max(most, first.in_flight + spare.in_flight)
            await asyncio.sleep(0.05)
        assert most == 8
        assert {kind_of(result) for result in watching.result()} == {"scored"}


@pytest.mark.parametrize("told", ["limit", "retry-after", "reset"])
@virtually
async def test_a_limit_of_sixty_a_minute_is_used_and_kept(told: str) -> None:
    began, used = now(), Counter[int]()
    refused: list[float] = []

    def grant(_: Server, __: str) -> Any:
        window = int((now() - began) // 60)
        reset = 60 - (now() - began) % 60
        left = 60 - used[window]
        after, limit = None if told == "reset" else reset, 60 if told == "limit" else None
        report = RateLimits(limit, reset_seconds=reset if left <= 1 and told != "retry-after" else 0.0)
        if left <= 0:
            refused.append(now())
            return JudgeUnavailableError("429", kind="rate_limited", retry_after_seconds=after, limits=report)
        used[window] += 1
        return (0.7, report)

    async with judging(grant) as (judge, _, server):
        results = await judge_all(judge, [str(number) for number in range(300)])
        assert {kind_of(result) for result in results} == {"scored"}
        assert 300 / ((now() - began) / 60) >= 0.9 * 60
        assert len(refused) <= 0.07 * len(server.calls), len(refused)


@virtually
async def test_tokens_a_minute_are_kept_to() -> None:
    """6,000 tokens a minute (97 a second after the safety margin) give a call of 1,000 tokens each 10 s."""
    judge, _, _ = pooled(EndpointOptions(Server(lambda *_: 0.1), tokens_per_minute=6_000))
    started = now()
    await judge_all(judge, ["x" * 4_000] * 7)
    assert now() - started == pytest.approx(6 * 1_000 / 97, rel=0.05)


@virtually
async def test_without_retry_after_all_calls_pause_together() -> None:
    back = now() + 60
    async with judging(until(back, JudgeUnavailableError("429", kind="rate_limited"))) as (judge, _, server):
        results = await judge_all(judge, [str(number) for number in range(200)])
        assert {kind_of(result) for result in results} == {"scored"}
        assert all(result.judge is not None and result.judge.tries <= 12 for result in results)
        # Four; then 32, 16, 8, 4, 2, 1, 1 ... calls between the pauses.
        assert len([moment for moment, _ in server.calls if moment < back]) <= 120


@virtually
async def test_refusals_of_one_pause_are_one_failure_and_leave_the_event_at_its_endpoint() -> None:
    """Neither 20 refused calls nor an event's second refusal make the spare, another model, be asked."""
    began = now()
    busy = JudgeUnavailableError("429", kind="rate_limited", retry_after_seconds=1)
    first, spare = Server(until(began + 1.5, busy)), Server(lambda *_: 0.1, endpoint="spare")
    judge, _, notes = pooled(first, spare)
    await judge_all(judge, ["a"] * 20)
    assert notes.outcomes["primary", "rate_limited"] > 20
    assert (notes.downs, spare.calls) == ([("primary", False), ("spare", False)], [])


def test_failures_in_a_row_open_the_breaker_and_an_answer_ends_the_row() -> None:
    breaker = Breaker(3, 5.0, lambda: 1.0)
    assert not any(breaker.failed(0.0) for _ in range(2))
    breaker.answered()
    assert [breaker.failed(0.0) for _ in range(3)] == [False, False, True]
    # A few are enough if nothing was answered for three seconds.
    slow = Breaker(10, 5.0, lambda: 1.0)
    assert [slow.failed(at) for at in (0.0, 1.0, 3.0)] == [False, False, True]


@pytest.mark.slow
@pytest.mark.parametrize("working_seconds", [0, 30], ids=["from the start", "under load"])
@virtually
async def test_an_outage_as_rate_limit_leaves_no_limit_behind(working_seconds: int) -> None:
    began = now()
    down, back = began + working_seconds, began + working_seconds + 60
    busy = JudgeUnavailableError("429", kind="rate_limited", retry_after_seconds=1)
    async with judging(lambda *_: busy if down <= now() < back else 1.0) as (judge, _, server):
        tasks = asyncio.create_task(judge_all(judge, [str(number) for number in range(6_000)]))
        await asyncio.sleep(working_seconds + 60)
        # Twice 64 concurrent calls, then one a second, and probes once the breaker is open.
        assert len([moment for moment, _ in server.calls if moment >= down]) <= 2 * 64 + 60
        await asyncio.sleep(10)
        asked = len(server.calls)
        await asyncio.sleep(5)
        assert len(server.calls) - asked >= 0.9 * 64 * 5
        assert {kind_of(result) for result in await tasks} == {"scored"}


@pytest.mark.slow
@virtually
async def test_a_worker_that_starts_into_a_used_up_minute_learns_no_limit_from_it() -> None:
    began, used = now(), Counter[int]({0: 600})

    def grant(_: Server, __: str) -> Any:
        window, into = divmod(now() - began + 20, 60)
        if used[int(window)] >= 600:
            return JudgeUnavailableError("429", kind="rate_limited", retry_after_seconds=60 - into)
        used[int(window)] += 1
        return 0.7

    async with judging(grant) as (judge, _, _):
        tasks = asyncio.create_task(judge_all(judge, [str(number) for number in range(3_200)]))
        await asyncio.sleep(40 + 5 * 60)
        assert sum(used[minute] for minute in range(1, 6)) >= 0.9 * 5 * 600
        assert {kind_of(result) for result in await tasks} == {"scored"}


@virtually
async def test_an_overloaded_endpoint_is_asked_less() -> None:
    busy = JudgeUnavailableError("503", kind="overloaded")
    server = Server(lambda one, _: busy if one.in_flight > 8 else 1.0)
    judge, _, notes = pooled(server)
    results = await judge_all(judge, [str(number) for number in range(1_000)])
    assert {kind_of(result) for result in results} == {"scored"}
    assert notes.outcomes["primary", "overloaded"] <= 0.25 * len(server.calls)


# The quota alone


def test_a_limit_is_used_evenly_and_unused_for_a_second_at_most() -> None:
    """60 a minute with the margin of 0.97 give a call each 60 / 58.2 s = 1.031 s, for a second less."""
    quota, at = Quota(60), 0.0
    for idle in (0.0, 0.0, 60.0):
        assert quota.wait_seconds(at + idle) == 0
        quota.take(at + idle, 1)
        at += idle + 1.031
        assert quota.wait_seconds(at - 1.031) == pytest.approx(1.031 - (1 if idle else 0), abs=0.001)
    assert Quota().wait_seconds(0.0) == 0


def test_a_large_call_is_paid_for_afterwards() -> None:
    """At 6,000 tokens a minute (97 a second) a call of 970 goes at once, and the next one waits 10 s."""
    quota = Quota(6_000)
    assert quota.wait_seconds(0.0) == 0
    quota.take(0.0, 970)
    assert quota.wait_seconds(0.0) == pytest.approx(10)
    # The call used 97 tokens less: one second less.
    quota.settle(-97)
    assert quota.wait_seconds(0.0) == pytest.approx(9)


def test_the_lower_of_configured_and_reported_limit_applies() -> None:
    quota = Quota(600)
    for reported, limit in ((60, 60), (6_000, 600)):
        quota.report(reported)
        assert quota.per_minute == limit


# The concurrency alone


def test_it_starts_at_the_most_and_is_halved_once_a_round() -> None:
    limit = Concurrency(64)
    for _ in range(64):
        limit.overloaded(10.0, sent_at=9.0)
    assert limit.calls == 32
    limit.overloaded(11.0, sent_at=10.5)
    assert limit.calls == 16
    for at in range(12, 20):
        limit.overloaded(float(at), sent_at=float(at))
    assert limit.calls == 1


def test_it_grows_fast_and_then_slowly() -> None:
    """Halved from 64, 16 answers raise it from 32 to 48 (three quarters of 64), then each adds 1/48 at most.

    A limit that is not reached is not raised.
    """
    limit = Concurrency(64)
    limit.overloaded(1.0, sent_at=1.0)
    seen = []
    for in_flight, answers in ((31, 100), (64, 16), (64, 48), (64, 2)):
        for _ in range(answers):
            limit.answered(in_flight, now=99.0)
        seen.append(limit.calls)
    assert seen == [32, 48, 48, 49]


def test_after_an_outage_it_is_at_its_most_within_two_rounds() -> None:
    limit = Concurrency(64)
    for at in range(1, 10):
        limit.overloaded(float(at), sent_at=float(at))
    limit.came_back(99.0)
    assert limit.calls == 16
    for round_ in (16, 32):
        for _ in range(round_):
            limit.answered(limit.calls, now=99.0)
    assert limit.calls == 64
