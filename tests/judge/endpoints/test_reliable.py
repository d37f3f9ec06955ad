"""Verdicts while endpoints fail, in virtual time."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass
from typing import Any

import pytest

from judge.chat import ChatReply, ChatRequest, QuotaReport, RateLimits
from judge.endpoints.health import MOST_NEUTRAL_CALLS
from judge.endpoints.options import EndpointOptions, Patience
from judge.endpoints.pool import EndpointPool, RetryingJudge
from judge.errors import EventError, JudgeConfigurationError, JudgeUnavailableError
from judge.evaluate.evaluator import Evaluator
from judge.evaluate.prices import ModelPrice, PriceTable
from schemas import Failed, Scored, Usage
from tests.judge.endpoints.servers import (
    DOWN,
    HANG,
    NEUTRAL,
    Notes,
    Server,
    judge_all,
    now,
    pooled,
    task,
    until,
)
from tests.judge.tasks import TONE
from tests.judge.virtual_time import virtually


@virtually
async def test_a_healthy_endpoint_is_asked_once_and_leaves_no_trace() -> None:
    server = Server(lambda *_: 1.0)
    judge, pool, notes = pooled(server)
    result = await judge.judge(task())
    assert isinstance(result, Scored)
    assert result.judge is not None
    assert (result.judge.endpoint, result.judge.tries, result.judge.fallback) == ("primary", 1, False)
    assert pool.trouble is None
    assert notes.outcomes == {("primary", "scored"): 1}
    assert notes.downs == [("primary", False)]


@virtually
async def test_another_model_is_noticed_once() -> None:
    """A model that answers for the first time, after another one, is told once; the state names both."""
    server = Server(lambda *_: 0.1)
    judge, pool, notes = pooled(server)
    for model in ("m-1", "m-1", "m-2", "m-1", "m-2"):
        server.model = model
        await judge.judge(task())
    assert notes.models == [("primary", "m-1", "m-2")]
    (state,) = pool.states
    assert (state.model, state.earlier_model) == ("m-2", "m-1")
    assert state.model_changed_at is not None


@virtually
async def test_the_share_of_events_that_an_endpoint_fails_is_stated() -> None:
    """Each second event fails at its first try: the endpoint is up and unwell, and the tries are counted."""
    seen: set[str] = set()

    def reply(_: Server, text: str) -> Any:
        fails = text != NEUTRAL and int(text) % 2 and text not in seen
        seen.add(text)
        return EventError("rejected_request", "answered 400") if fails else 0.1

    judge, pool, notes = pooled(Server(reply))
    for number in range(40):
        await judge.judge(task(str(number)))
    (state,) = pool.states
    assert (state.up, state.failed_share, state.is_unwell) == (True, 0.5, True)
    assert notes.failed == {"primary": 20}


@pytest.mark.parametrize(
    ("error", "remedy"),
    [
        (DOWN, "Check that it runs"),
        (JudgeUnavailableError("429", kind="rate_limited", retry_after_seconds=600), "Raise its quota"),
        (JudgeConfigurationError("answered 401", "Check the API key"), "Check the API key"),
    ],
)
@virtually
async def test_the_state_says_why_an_endpoint_is_down_and_what_to_do(error: Exception, remedy: str) -> None:
    """Within 5 s the state has reason, remedy and time; the pool's trouble has both."""
    judge, pool, _ = pooled(Server(lambda *_: error))
    tasks = [asyncio.create_task(judge.judge(task())) for _ in range(3)]
    await asyncio.sleep(5)
    (state,) = pool.states
    assert not state.up
    assert str(error) == state.reason
    assert remedy in state.remedy
    assert state.since is not None
    assert pool.trouble is not None
    assert remedy in pool.trouble
    for one in tasks:
        one.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    pool.stop()


@virtually
async def test_an_outage_is_waited_out_with_few_calls_and_full_speed_after_it() -> None:
    """500 events wait through an outage of an hour with few calls, and are scored within 17 s after it."""
    back = now() + 3_600
    server = Server(until(back, DOWN, then=1.0))
    judge, pool, notes = pooled(server)
    judging = asyncio.create_task(judge_all(judge, [str(number) for number in range(500)]))
    await asyncio.sleep(3_599)
    assert (pool.trouble or "").startswith("connection refused. ")
    # 64 at once (after the first 4), then at most a probe and a check each 2.5 s.
    assert len(server.calls) <= 70 + 2 * 3_600 / 2.5
    assert not judging.done()
    results = await judging
    assert {result.status for result in results} == {"scored"}
    # A probe within 5 s, then 500 calls of 1 s, from 16 to 64 at a time: 16 + 32 + 64 * 7.1 = 500 in 10
    # s.
    assert now() - back <= 5 + 1 + 11
    full = [moment for moment, _ in server.calls if moment >= back]
    assert full[0] - back <= 5
    assert server.most_in_flight == 64
    assert notes.downs == [("primary", False), ("primary", True), ("primary", False)]


@virtually
async def test_the_spare_takes_over_and_says_so() -> None:
    """After two failures of the first endpoint the spare judges: the result has its name, model and
    fingerprint, and three tries.
    """
    first, spare = Server(lambda *_: DOWN), Server(lambda *_: 0.5, endpoint="spare", model="m-2")
    judge, pool, _ = pooled(first, spare)
    result = await judge.judge(task())
    assert result.judge is not None
    assert (result.judge.endpoint, result.judge.model_asked) == ("spare", "m-2")
    assert (result.judge.fallback, result.judge.tries) == (True, 3)
    assert result.evaluator.model == "m-2"
    assert result.evaluator.fingerprint != Evaluator(TONE, first).evaluator.fingerprint
    assert pool.trouble is None


@virtually
async def test_the_preferred_endpoint_is_asked_again_when_it_is_back() -> None:
    """A preferred endpoint that is down is probed after each pause; when it is back it gets every call."""
    back = now() + 60
    first = Server(until(back, DOWN, then=0.1))
    spare = Server(lambda *_: 0.1, endpoint="spare", model="m-2")
    judge, _, notes = pooled(first, spare)
    for _ in range(70):
        await judge_all(judge, ["a"] * 5)
        await asyncio.sleep(1)
    late = [moment for moment, _ in spare.calls if moment > back + 5.5]
    assert late == []
    # The breaker opens at the tenth failure; then a probe each 5 s.
    assert len([moment for moment, _ in first.calls if moment < back]) <= 10 + 5 + 60 / 5
    assert notes.downs[-1] == ("primary", False)


@virtually
async def test_a_busy_endpoint_is_waited_for_rather_than_left() -> None:
    """A busy endpoint is not left for the spare: 20 calls of 1 s, 4 at a time, take 5 s."""
    first, spare = Server(lambda *_: 1.0), Server(lambda *_: 0.1, endpoint="spare")
    judge, _, _ = pooled(EndpointOptions(first, max_in_flight=4), spare)
    started = now()
    await judge_all(judge, ["a"] * 20)
    assert spare.calls == []
    assert first.most_in_flight == 4
    assert now() - started == pytest.approx(5.0, abs=0.1)


@virtually
async def test_the_bound_on_calls_holds_over_all_endpoints() -> None:
    """At most `max_in_flight` calls run over all endpoints together."""
    first, spare = Server(lambda *_: HANG), Server(lambda *_: 1.0, endpoint="spare")
    judge, pool, _ = pooled(first, spare, max_in_flight=8, timeout_seconds=5)
    watching = asyncio.create_task(judge_all(judge, ["a"] * 40))
    most = 0
    while not watching.done():
        most = max(most, first.in_flight + spare.in_flight)
        await asyncio.sleep(0.05)
    assert most == 8
    assert {result.status for result in watching.result()} == {"scored"}
    pool.stop()


@pytest.mark.parametrize("told", ["limit", "retry-after"])
@virtually
async def test_a_limit_of_sixty_a_minute_is_used_and_kept(told: str) -> None:
    """At a server with 60 calls a minute at least 90% of them are used and at most 2% of the calls are
    refused.
    """
    began, used = now(), Counter[int]()

    def grant(_: Server, __: str) -> Any:
        window = int((now() - began) // 60)
        reset = 60 - (now() - began) % 60
        left = 60 - used[window]
        report = RateLimits(QuotaReport(60, max(0, left - 1), reset)) if told == "limit" else None
        if left <= 0:
            refused.append(now())
            return JudgeUnavailableError("429", kind="rate_limited", retry_after_seconds=reset, limits=report)
        used[window] += 1
        return (0.7, report)

    refused: list[float] = []
    server = Server(grant)
    judge, _, _ = pooled(server)
    results = await judge_all(judge, [str(number) for number in range(300)])
    minutes = (now() - began) / 60
    assert {result.status for result in results} == {"scored"}
    assert 300 / minutes >= 0.9 * 60
    assert len(refused) <= 0.07 * len(server.calls), len(refused)


@virtually
async def test_tokens_a_minute_are_kept_to() -> None:
    """6,000 tokens a minute (97 a second after the safety margin) give a call of 1,000 tokens each 10 s."""
    server = Server(lambda *_: 0.1)
    judge, _, _ = pooled(EndpointOptions(server, tokens_per_minute=6_000))
    started = now()
    await judge_all(judge, ["x" * 4_000] * 7)
    assert now() - started == pytest.approx(6 * 1_000 / 97, rel=0.05)


@virtually
async def test_without_retry_after_all_calls_pause_together() -> None:
    back = now() + 60
    server = Server(until(back, JudgeUnavailableError("429", kind="rate_limited")))
    judge, _, _ = pooled(server)
    results = await judge_all(judge, [str(number) for number in range(200)])
    assert {result.status for result in results} == {"scored"}
    assert all(result.judge is not None and result.judge.tries <= 12 for result in results)
    # Four; then 32, 16, 8, 4, 2, 1, 1 ... calls between the pauses.
    assert len([moment for moment, _ in server.calls if moment < back]) <= 120


@pytest.mark.slow
@pytest.mark.parametrize("working_seconds", [0, 30], ids=["from the start", "under load"])
@virtually
async def test_an_outage_as_rate_limit_leaves_no_limit_behind(working_seconds: int) -> None:
    """After a minute of 429 with few calls, the rate is back at 64 a second within 10 s."""
    began = now()
    down, back = began + working_seconds, began + working_seconds + 60
    busy = JudgeUnavailableError("429", kind="rate_limited", retry_after_seconds=1)
    server = Server(lambda *_: busy if down <= now() < back else 1.0)
    judge, _, _ = pooled(server)
    judging = asyncio.create_task(judge_all(judge, [str(number) for number in range(6_000)]))
    await asyncio.sleep(working_seconds + 60)
    # Twice 64 concurrent calls, then one a second, and probes once the breaker is open.
    assert len([moment for moment, _ in server.calls if moment >= down]) <= 2 * 64 + 60
    await asyncio.sleep(10)
    asked = len(server.calls)
    await asyncio.sleep(5)
    assert len(server.calls) - asked >= 0.9 * 64 * 5
    assert {result.status for result in await judging} == {"scored"}


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

    judge, _, _ = pooled(Server(grant))
    judging = asyncio.create_task(judge_all(judge, [str(number) for number in range(3_200)]))
    await asyncio.sleep(40 + 5 * 60)
    assert sum(used[minute] for minute in range(1, 6)) >= 0.9 * 5 * 600
    assert {result.status for result in await judging} == {"scored"}


@virtually
async def test_refusals_do_not_reduce_the_time_budget() -> None:
    server = Server(lambda *_: 4.0)
    answer = server.complete

    async def refused_first(request: ChatRequest) -> ChatReply:
        if len(server.calls) < 10:
            server.calls.append((now(), ""))
            await asyncio.sleep(2)
            raise JudgeUnavailableError("429", kind="rate_limited", retry_after_seconds=1)
        return await answer(request)

    server.complete = refused_first  # type: ignore[method-assign]  # what a call meets depends on its number here
    judge, _, notes = pooled(server, timeout_seconds=10)
    result = await judge.judge(task())
    assert result.judge is not None
    assert notes.outcomes["primary", "scored"] == 1
    # Three pauses over three seconds open the breaker; neutral calls are refused before one is judged.
    assert notes.outcomes["primary", "rate_limited"] == 3


@virtually
async def test_an_endpoint_that_asks_for_an_hour_is_left_alone_and_the_spare_asked() -> None:
    """A `Retry-After` above the time budget is an outage; without a spare the pool reports it."""
    busy = JudgeUnavailableError("quota used up", kind="rate_limited", retry_after_seconds=600)
    first, spare = Server(until(now() + 600, busy)), Server(lambda *_: 0.1, endpoint="spare")
    judge, _, _ = pooled(first, spare)
    (result,) = await judge_all(judge, ["a"])
    assert result.judge is not None
    assert result.judge.fallback
    lonely = Server(until(now() + 600, busy))
    judge, pool, _ = pooled(lonely)
    started = now()
    judging = asyncio.create_task(judge.judge(task()))
    await asyncio.sleep(300)
    assert (pool.trouble or "").startswith("quota used up. ")
    assert len(lonely.calls) == 1
    await judging
    assert 600 <= now() - started <= 602


@virtually
async def test_one_event_that_always_hangs_is_given_up_while_others_are_judged() -> None:
    """If the other events are scored, three timeouts are enough to abandon one event."""
    server = Server(lambda _, text: HANG if text == "poison" else 0.1)
    judge, pool, notes = pooled(server, timeout_seconds=30)
    poison = asyncio.create_task(judge.judge(task("poison")))
    started = now()
    while not poison.done():
        await judge_all(judge, ["a"] * 10)
        await asyncio.sleep(1)
    result = poison.result()
    assert isinstance(result, Failed)
    assert result.error_type == "no_answer"
    assert result.judge is not None
    assert result.judge.tries == 3
    assert now() - started <= 3 * 30 + 5
    assert pool.trouble is None
    assert notes.downs == [("primary", False)]


@virtually
async def test_one_event_that_always_hangs_is_given_up_on_an_idle_endpoint_too() -> None:
    """Without other events, neutral calls prove that the endpoint answers."""
    server = Server(lambda _, text: HANG if text == "poison" else 0.1)
    judge, pool, _ = pooled(server, timeout_seconds=30)
    result = await asyncio.wait_for(judge.judge(task("poison")), 3_600)
    assert isinstance(result, Failed)
    assert result.error_type == "no_answer"
    # One neutral verdict counts for 9 answers: 0.1^4 = 1e-4.
    assert result.judge is not None
    assert result.judge.tries == 4
    assert pool.trouble is None


@virtually
async def test_an_event_that_fails_in_an_outage_is_never_given_up() -> None:
    """Two hours of timeouts and errors abandon no event."""
    back = now() + 7_200
    server = Server(lambda *_: 0.1 if now() >= back else HANG if int(now()) % 2 else DOWN)
    judge, _, _ = pooled(server, timeout_seconds=10)
    results = await judge_all(judge, [str(number) for number in range(30)])
    assert {result.status for result in results} == {"scored"}
    assert 0 <= now() - back <= 30


@virtually
async def test_an_endpoint_that_times_out_is_passed_over_at_once() -> None:
    """After one timeout the spare is called."""
    first, spare = Server(lambda *_: HANG), Server(lambda *_: 0.1, endpoint="spare")
    judge, _, _ = pooled(EndpointOptions(first, call_seconds=10), spare, timeout_seconds=30)
    began = now()
    result = await judge.judge(task())
    assert result.judge is not None
    assert (result.judge.endpoint, result.judge.tries) == ("spare", 2)
    assert now() - began == pytest.approx(10.1)


@virtually
async def test_a_wrong_key_takes_one_endpoint_out_and_all_of_them_stop_the_judge() -> None:
    """A misconfigured endpoint is left for the spare; if none ever answered, the error names each."""
    first = Server(lambda *_: JudgeConfigurationError("401 from primary"))
    spare = Server(lambda *_: 0.1, endpoint="spare")
    judge, pool, notes = pooled(first, spare)
    results = await judge_all(judge, ["a"] * 10)
    assert {result.judge.endpoint for result in results if result.judge} == {"spare"}
    # Including those that were sent before a neutral call was refused.
    assert len([text for _, text in first.calls if text == "a"]) <= 20
    assert ("primary", True) in notes.downs
    pool.stop()
    spare = Server(lambda *_: JudgeConfigurationError("404 from spare"), endpoint="spare")
    judge, pool, _ = pooled(first, spare)
    with pytest.raises(JudgeConfigurationError, match=r"401 from primary; 404 from spare"):
        await judge.judge(task())
    pool.stop()


@virtually
async def test_a_refusal_of_one_event_is_its_result_and_no_failure_of_the_endpoint() -> None:
    """100 consecutive refusals fail 100 events after one call each, and the endpoint stays up."""
    refused = EventError("content_refused", "no")
    server = Server(lambda _, text: 0.1 if text == NEUTRAL else refused)
    judge, pool, _ = pooled(server)
    results = await judge_all(judge, ["a"] * 100)
    assert {result.status for result in results} == {"failed"}
    assert len([text for _, text in server.calls if text == "a"]) <= 400
    assert pool.trouble is None


@virtually
async def test_a_blank_answer_is_unscored_during_an_outage() -> None:
    server = Server(lambda *_: DOWN)
    judge, pool, _ = pooled(server, breaker_failures=1)
    waiting = asyncio.create_task(judge.judge(task()))
    await asyncio.sleep(1)
    assert pool.trouble is not None
    result = await asyncio.wait_for(judge.judge(task(" ")), 1)
    assert result.status == "unscored"
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)


@virtually
async def test_a_judge_given_up_by_its_caller_leaves_no_slot_taken() -> None:
    """A verdict cancelled while it waits or calls releases its slot."""
    server = Server(lambda _, text: HANG if text == "hang" else 0.1)
    judge, pool, _ = pooled(server, max_in_flight=2)
    stuck = [asyncio.create_task(judge.judge(task("hang"))) for _ in range(5)]
    await asyncio.sleep(3)
    assert server.in_flight == 2
    for one in stuck[::-1]:
        one.cancel()
    await asyncio.gather(*stuck, return_exceptions=True)
    assert server.in_flight == 0
    results = await judge_all(judge, ["a"] * 10)
    assert {result.status for result in results} == {"scored"}
    assert [len(one.limiter.waiting) for one in pool.endpoints] == [0]


@virtually
async def test_an_overloaded_endpoint_is_asked_less() -> None:
    """An endpoint that answers 503 above 8 concurrent calls refuses at most a quarter of 1,000."""
    busy = JudgeUnavailableError("503", kind="overloaded")
    server = Server(lambda one, _: busy if one.in_flight > 8 else 1.0)
    judge, _, notes = pooled(server)
    results = await judge_all(judge, [str(number) for number in range(1_000)])
    assert {result.status for result in results} == {"scored"}
    refused = notes.outcomes["primary", "overloaded"]
    assert refused <= 0.25 * len(server.calls)


PRICES = PriceTable(endpoints={"primary": ModelPrice(1.0, 0.0), "spare": ModelPrice(10.0, 0.0)})


@dataclass
class Paid:
    """An endpoint that reports usage; it repeats the last line of its script."""

    endpoint: str
    lines: list[Any]
    model: str = "m"

    async def complete(self, request: ChatRequest) -> ChatReply:
        await asyncio.sleep(0.1)
        checked = request.messages[-1].content == NEUTRAL
        line = '{"score": 4}' if checked else self.lines.pop(0) if len(self.lines) > 1 else self.lines[0]
        if isinstance(line, Exception):
            raise line
        return ChatReply(line, self.model, Usage(input_tokens=7 if checked else 100), 0.1)

    async def close(self) -> None:
        """Nothing to close."""


def paid_pool(*endpoints: Paid, **patience: Any) -> tuple[RetryingJudge, Notes]:
    notes = Notes()
    pool = EndpointPool(
        [EndpointOptions(one) for one in endpoints],
        patience=Patience(**patience),
        observer=notes,
        chance=lambda: 1.0,
        clock=asyncio.get_running_loop().time,
    )
    return RetryingJudge(
        {one.endpoint: Evaluator(TONE, one, prices=PRICES) for one in endpoints}, pool
    ), notes


@virtually
async def test_the_result_adds_the_usage_of_failed_calls() -> None:
    """The result adds the usage of failed calls: 100 + 100 tokens at 1 USD and 100 at 10 USD a million."""
    judge, notes = paid_pool(Paid("primary", ["?", DOWN, "?", DOWN]), Paid("spare", ['{"score": 3}']))
    result = await judge.judge(task())
    assert isinstance(result, Scored)
    assert result.judge is not None
    assert result.judge.endpoint == "spare"
    assert result.usage.input_tokens == 300
    assert result.cost_usd == pytest.approx(1_200e-6)
    assert notes.tokens == {("primary", True): 200, ("primary", False): 7, ("spare", True): 100}


@virtually
async def test_the_usage_of_an_error_is_counted_once() -> None:
    """The usage of errors is counted once: 5 tokens of an empty reply and twice 40 of a cut one."""

    def reply(tokens: int) -> ChatReply:
        return ChatReply("", "m", Usage(input_tokens=tokens), 0.1)

    empty = JudgeUnavailableError("no choices", reply=reply(5))
    cut = EventError("reply_cut", "cut", reply=reply(40))
    judge, notes = paid_pool(Paid("primary", [empty, cut]))
    result = await judge.judge(task())
    assert isinstance(result, Failed)
    assert result.error_type == "reply_cut"
    assert result.usage.input_tokens == 85
    assert result.cost_usd == pytest.approx(85e-6)
    assert notes.tokens == {("primary", True): 85, ("primary", False): 7 * MOST_NEUTRAL_CALLS}


@virtually
async def test_an_abandoned_event_carries_its_usage_without_neutral_calls() -> None:
    script: list[Any] = ["?", DOWN] * 50
    judge, notes = paid_pool(Paid("primary", script))
    result = await judge.judge(task())
    assert isinstance(result, Failed)
    assert result.error_type == "no_answer"
    tries = (100 - len(script)) // 2
    assert result.usage.input_tokens == 100 * tries
    assert result.cost_usd == pytest.approx(100e-6 * tries)
    assert notes.tokens["primary", True] == 100 * tries
    assert notes.tokens["primary", False] % 7 == 0
    assert notes.tokens["primary", False] > 0
