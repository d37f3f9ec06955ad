"""A hedged (second) call for a slow one, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from judge.chat import ChatReply, ChatRequest
from judge.errors import EventError, JudgeUnavailableError
from judge.pool.attempt import Attempt
from judge.pool.hedging import ask_twice
from judge.pool.pool import Endpoint, EndpointPool, Patience
from judge.pool.reliable import ReliableJudge, Result
from judge.verdict.evaluator import Judge
from schemas import Failed, Scored, Usage
from tests.judge.tasks import TONE, make_task
from tests.judge.virtual_time import run_virtually, virtually

AFTER_SECONDS = 5.0
CALL_SECONDS = 30.0
BROKEN = JudgeUnavailableError("closed the connection")

Answered = tuple[float, JudgeUnavailableError | EventError | None]
"""Seconds until a call ends, and its error, if any."""


class Server:
    """Answers calls in the order of a script and repeats its last line."""

    endpoint, model = "primary", "m"

    def __init__(self, *answers: Answered) -> None:
        self.answers = list(answers)
        self.sent_at: list[float] = []
        self.given_up = 0

    async def complete(self, request: ChatRequest) -> ChatReply:
        assert request.messages is not None
        now = asyncio.get_running_loop().time
        self.sent_at.append(now())
        seconds, error = self.answers[0] if len(self.answers) == 1 else self.answers.pop(0)
        try:
            await asyncio.sleep(seconds)
        except asyncio.CancelledError:
            self.given_up += 1
            raise
        if error is not None:
            raise error
        return ChatReply(text='{"score": 4}', model="m", usage=Usage(input_tokens=7), seconds=seconds)

    async def close(self) -> None:
        """Nothing to close."""


def judged(
    server: Server, texts: Sequence[str] = ("a",), *, max_in_flight: int = 8
) -> tuple[list[Result], list[float], float, EndpointPool]:
    """The results, the times of the calls and of the end in seconds from the start, and the pool."""

    async def scenario() -> tuple[list[Result], list[float], float, EndpointPool]:
        now = asyncio.get_running_loop().time
        pool = EndpointPool(
            [Endpoint(server, call_seconds=CALL_SECONDS)],
            max_in_flight=max_in_flight,
            patience=Patience(timeout_seconds=CALL_SECONDS, first_wait_seconds=1.0),
            chance=lambda: 1.0,
            clock=now,
        )
        judge = ReliableJudge({"primary": Judge(TONE, server)}, pool, hedge_after_seconds=AFTER_SECONDS)
        began = now()
        results = await asyncio.gather(*(judge.judge(make_task("tone", answer=text)) for text in texts))
        over = now() - began
        assert pool.chats[0].is_free(ChatRequest(messages=()))  # every slot is released
        return results, [at - began for at in server.sent_at], over, pool

    return run_virtually(scenario())


def test_a_call_that_is_answered_in_time_is_made_once() -> None:
    """A call that ends within the limit is not hedged."""
    (result,), sent, over, _ = judged(Server((4.0, None)))
    assert isinstance(result, Scored)
    assert result.judge is not None
    assert result.judge.tries == 1
    assert (sent, over) == ([0.0], 4.0)


def test_a_slow_call_is_made_again_and_the_first_reply_counts() -> None:
    """The first call would take 20 s; the second, sent after 5 s, takes 2: the verdict comes at 7 s with two
    tries, and the first call is cancelled.
    """
    server = Server((20.0, None), (2.0, None))
    (result,), sent, over, _ = judged(server)
    assert isinstance(result, Scored)
    assert result.judge is not None
    assert (result.judge.tries, result.judge.fallback, result.usage.input_tokens) == (2, False, 7)
    assert (sent, over, server.given_up) == ([0.0, 5.0], 7.0, 1)


def test_the_first_may_still_be_the_first() -> None:
    """The first call ends after 6 s, before its hedge; the hedge is cancelled."""
    server = Server((6.0, None), (20.0, None))
    (result,), sent, over, _ = judged(server)
    assert result.status == "scored"
    assert (sent, over, server.given_up) == ([0.0, 5.0], 6.0, 1)


@pytest.mark.parametrize(
    "answers", [((7.0, BROKEN), (10.0, None)), ((15.0, None), (2.0, BROKEN))], ids=["the first", "the second"]
)
def test_if_one_call_fails_the_other_decides(answers: tuple[Answered, Answered]) -> None:
    """If one of the calls fails, the other decides: the verdict comes at 15 s, without a third call."""
    (result,), sent, over, _ = judged(Server(*answers))
    assert result.status == "scored"
    assert (sent, over) == ([0.0, 5.0], 15.0)


def test_if_both_calls_fail_a_third_follows() -> None:
    """If both calls fail, a third one follows after a pause of 1 s."""
    (result,), sent, _, _ = judged(Server((7.0, BROKEN), (3.0, BROKEN), (1.0, None)))
    assert isinstance(result, Scored)
    assert result.judge is not None
    assert (sent, result.judge.tries) == ([0.0, 5.0, 9.0], 3)


def test_a_call_that_breaks_off_soon_is_not_doubled() -> None:
    """A call that fails before the hedge is due is retried as usual."""
    (result,), sent, over, _ = judged(Server((1.0, BROKEN), (2.0, None)))
    assert result.status == "scored"
    assert (sent, over) == ([0.0, 2.0], 4.0)


def test_a_refusal_by_either_is_the_result() -> None:
    """A refusal by the hedge is the result at once."""
    server = Server((20.0, None), (2.0, EventError("content_refused", "no")))
    (result,), _, over, pool = judged(server)
    assert isinstance(result, Failed)
    assert result.error_type == "content_refused"
    assert (over, pool.trouble) == (7.0, None)


def test_a_busy_endpoint_is_not_asked_twice() -> None:
    """Without a free slot no call is hedged: four calls of 10 s, two at a time, take 20 s."""
    results, sent, over, _ = judged(Server((10.0, None)), ["a", "b", "c", "d"], max_in_flight=2)
    assert {result.status for result in results} == {"scored"}
    assert (len(sent), over) == (4, 20.0)


def test_both_keep_the_time_of_one() -> None:
    """Both calls share one time limit of 30 s and are then retried."""
    server = Server((100.0, None), (100.0, None), (1.0, None))
    (result,), sent, _, _ = judged(server)
    assert result.status == "scored"
    assert sent[:2] == [0.0, 5.0]
    assert sent[2] == pytest.approx(31.0)
    assert server.given_up == 2


@virtually
async def test_a_verdict_given_up_leaves_no_slot_taken() -> None:
    """Cancelling a hedged verdict cancels both calls and releases the slot."""
    server = Server((20.0, None))
    pool = EndpointPool([Endpoint(server)], clock=asyncio.get_running_loop().time)
    call = ask_twice(pool.chats[0], ChatRequest(messages=()), Attempt(), after_seconds=AFTER_SECONDS)
    calling = asyncio.create_task(call)
    await asyncio.sleep(AFTER_SECONDS + 1)
    calling.cancel()
    await asyncio.wait({calling})
    assert (len(server.sent_at), server.given_up) == (2, 2)
    assert pool.chats[0].is_free(ChatRequest(messages=()))
