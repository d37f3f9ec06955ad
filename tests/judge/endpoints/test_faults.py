"""A real server misbehaves: every event gets its stated outcome, and every call is counted."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from judge.endpoints.health import MOST_NEUTRAL_CALLS
from judge.endpoints.openai_chat import OpenAIChat
from judge.endpoints.options import EndpointOptions, Patience
from judge.endpoints.pool import EndpointPool, Result, RetryingJudge
from judge.errors import JudgeConfigurationError
from judge.evaluate.evaluator import Evaluator
from judge.evaluate.guard import NEUTRAL_EVENT
from schemas import RESULT, Failed
from tests.judge.fake_openai import Answer, FakeOpenAI, completion, fake_openai
from tests.judge.tasks import TONE, make_task

JSON = {"Content-Type": "application/json"}
GOOD = Answer()
CALL_SECONDS = 0.5
LONG_CALL_SECONDS = 4.0
"""For tests that count many concurrent calls: on a busy machine no call may time out."""
DEADLINE_SECONDS = 60.0


def dated(seconds: int) -> dict[str, str]:
    """`Retry-After` as a date of a clock that is an hour slow."""
    wrong = datetime.now(UTC) - timedelta(hours=1)
    return {
        "Date": format_datetime(wrong, usegmt=True),
        "Retry-After": format_datetime(wrong + timedelta(seconds=seconds), usegmt=True),
    }


@asynccontextmanager
async def judging(
    *servers: FakeOpenAI, call_seconds: float = CALL_SECONDS
) -> AsyncIterator[tuple[RetryingJudge, EndpointPool]]:
    """A judge over the servers in order: `primary`, `spare-1`, ..."""
    chats = [
        OpenAIChat(
            endpoint=f"spare-{number}" if number else "primary",
            model=f"fake-{number + 1}",
            base_url=server.url,
            timeout_seconds=call_seconds,
        )
        for number, server in enumerate(servers)
    ]
    patience = Patience(
        timeout_seconds=5 * call_seconds,
        first_wait_seconds=0.02,
        longest_wait_seconds=0.5,
        confirm_seconds=0.1,
    )
    pool = EndpointPool(
        [EndpointOptions(chat, call_seconds=call_seconds) for chat in chats], patience=patience
    )
    try:
        yield RetryingJudge({chat.endpoint: Evaluator(TONE, chat) for chat in chats}, pool), pool
    finally:
        pool.stop()
        for chat in chats:
            await chat.close()


def probes(server: FakeOpenAI) -> int:
    """The number of neutral calls that tested the endpoint."""
    return sum(one["messages"][-1]["content"] == NEUTRAL_EVENT.answer for one in server.requests)


async def judged(judge: RetryingJudge, *texts: str) -> list[Result]:
    """Judge all texts and validate each result against its schema."""
    async with asyncio.timeout(DEADLINE_SECONDS):
        results = await asyncio.gather(*(judge.judge(make_task("tone", answer=text)) for text in texts))
    for result in results:
        RESULT.validate_json(result.model_dump_json())
    return results


PASSING = {
    "429 bare": Answer(status=429, body=b"{}"),
    "429 with seconds": Answer(status=429, body=b"{}", headers={**JSON, "Retry-After": "1"}),
    "429 with milliseconds": Answer(status=429, body=b"{}", headers={**JSON, "retry-after-ms": "50"}),
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
    "500": Answer(status=500, body=b"oops", headers={"Content-Type": "text/plain"}),
    "502 of a proxy": Answer(
        status=502, body=b"<html>Bad Gateway</html>", headers={"Content-Type": "text/html"}
    ),
    "503": Answer(status=503, body=b"{}"),
    "503 with seconds": Answer(status=503, body=b"{}", headers={**JSON, "Retry-After": "1"}),
    "hang": Answer(hang=True),
    "slow drip": Answer(drip_seconds=0.05),
    "connection reset": Answer(drop=True),
    "reset within the body": Answer(cut_after=20),
    "truncated JSON": Answer(body=completion()[:60]),
    "empty body": Answer(body=b""),
    "empty choices": Answer(body=b'{"choices": []}'),
    "a page with status 200": Answer(body=b"<html>Sign in</html>", headers={"Content-Type": "text/html"}),
}


@pytest.mark.parametrize("fault", PASSING.values(), ids=PASSING.keys())
async def test_temporary_failures_are_retried(fault: Answer) -> None:
    """After two temporary failures the third call gives the verdict, and the result counts three tries."""
    async with fake_openai(fault, fault, GOOD) as server, judging(server) as (judge, pool):
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
            judging(server, call_seconds=LONG_CALL_SECONDS) as (judge, _),
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


async def test_a_date_to_come_back_at_is_kept() -> None:
    """A `Retry-After` date is read by the server's own clock: no call is made within the second that it
    states.
    """
    busy = Answer(status=429, body=b"{}", headers={**JSON, **dated(1)})
    async with fake_openai(busy, GOOD) as server, judging(server) as (judge, _):
        loop = asyncio.get_running_loop()
        started = loop.time()
        (result,) = await judged(judge, "a")
        assert loop.time() - started >= 0.99
        assert result.judge is not None
        assert result.judge.tries == len(server.requests) == 2


TRIES_ALONE = 4
"""One neutral verdict counts for 9 answers: 0.1^4 = 1e-4."""
FINAL = {
    "refusal": (Answer(body=completion(None, refusal="I will not.")), "content_refused", 1),
    "content filter": (Answer(body=completion("", finish_reason="content_filter")), "content_refused", 1),
    "length stop": (Answer(body=completion('{"sco', finish_reason="length")), "reply_cut", 1),
    "context too long": (
        Answer(status=400, body=b'{"error": {"code": "context_length_exceeded"}}'),
        "context_too_long",
        1,
    ),
    "huge body": (Answer(body=completion("x" * 5_000_000)), "invalid_verdict", 1),
    # Two repair turns each.
    "verdict cut": (Answer(body=completion('{"score": ')), "invalid_verdict", 3),
    "wrong schema": (Answer(body=completion('{"grade": "A"}')), "invalid_verdict", 3),
    "out of range": (Answer(body=completion('{"score": 11}')), "invalid_verdict", 3),
    "no words": (Answer(body=completion("")), "invalid_verdict", 3),
}


@pytest.mark.parametrize(("answer", "error_type", "calls"), FINAL.values(), ids=FINAL.keys())
async def test_an_error_of_one_event_is_its_result(answer: Answer, error_type: str, calls: int) -> None:
    """The event fails with its reason after this many calls a try, and the breaker stays closed."""
    async with fake_openai(GOOD) as server, judging(server) as (judge, pool):
        server.by_word["poison"] = answer
        (result,) = await judged(judge, "poison")
        assert isinstance(result, Failed)
        assert result.error_type == error_type
        own = [one for one in server.requests if "poison" in json.dumps(one)]
        assert len(own) == TRIES_ALONE * calls
        assert probes(server) == MOST_NEUTRAL_CALLS
        assert pool.trouble is None


async def test_a_model_that_calls_itself_otherwise_is_recorded() -> None:
    """The result records the requested and the answering model; the evaluator names the requested one."""
    async with (
        fake_openai(Answer(body=completion(model="fake-1-quantised"))) as server,
        judging(server) as (judge, _),
    ):
        (result,) = await judged(judge, "a")
        assert result.status == "scored"
        assert result.judge is not None
        assert (result.judge.model_asked, result.judge.model_answered) == ("fake-1", "fake-1-quantised")
        assert result.evaluator.model == "fake-1"


@pytest.mark.parametrize("status", [401, 403, 404])
async def test_a_configuration_that_cannot_work_stops_it(status: int) -> None:
    """After two calls for the event and two neutral ones the configuration error is raised."""
    answer = Answer(status=status, body=b'{"error": {"message": "no such model"}}')
    async with fake_openai(answer) as server, judging(server) as (judge, _):
        with pytest.raises(JudgeConfigurationError, match=f"primary answered {status}"):
            await judged(judge, "a")
        assert (len(server.requests), probes(server)) == (4, 2)


@pytest.mark.parametrize(
    "fault", [Answer(hang=True), Answer(status=500), Answer(drop=True)], ids=["hang", "500", "reset"]
)
async def test_one_event_that_never_gets_an_answer_delays_no_other(fault: Answer) -> None:
    async with fake_openai(GOOD) as server, judging(server) as (judge, pool):
        server.by_word["poison"] = fault
        *others, poison = await judged(judge, *(["fine"] * 40), "poison")
        assert {result.status for result in others} == {"scored"}
        assert isinstance(poison, Failed)
        assert poison.error_type == "no_answer"
        assert poison.judge is not None
        tries = [one for one in server.requests if one["messages"][-1]["content"] == "poison"]
        assert len(tries) == poison.judge.tries <= 10
        assert pool.trouble is None


@pytest.mark.slow
async def test_the_spare_judges_while_the_first_is_broken() -> None:
    """While the first endpoint fails, every event is scored and names its endpoint."""
    faults = [fault for name, fault in PASSING.items() if "seconds" not in name] * 3
    async with (
        fake_openai(*faults) as first,
        fake_openai(Answer(body=completion(model="fake-2"))) as second,
        judging(first, second, call_seconds=LONG_CALL_SECONDS) as (judge, _),
    ):
        results = await judged(judge, *(str(number) for number in range(60)))
        assert {result.status for result in results} == {"scored"}
        for result in results:
            assert result.judge is not None
            assert result.judge.fallback == (result.judge.endpoint == "spare-1")
            assert result.evaluator.model == result.judge.model_asked
        tries = sum(result.judge.tries for result in results if result.judge)
        # Every call is counted on its result.
        assert tries == len(first.requests) + len(second.requests) - probes(first) - probes(second)
        assert probes(first) + probes(second) <= len(faults)


async def test_every_fault_in_turn_loses_nothing() -> None:
    """200 events with a fault at each third call give 200 verdicts and at most one extra try a fault."""
    faults = list(PASSING.values())
    script = [answer for fault in faults for answer in (GOOD, GOOD, fault)]
    async with (
        fake_openai(*script, GOOD) as server,
        judging(server, call_seconds=LONG_CALL_SECONDS) as (judge, pool),
    ):
        results = await judged(judge, *(str(number) for number in range(200)))
        assert {result.status for result in results} == {"scored"}
        tries = sum(result.judge.tries for result in results if result.judge)
        assert 200 <= tries <= 200 + len(faults)
        assert len(server.requests) - tries <= len(faults)
        assert pool.trouble is None
