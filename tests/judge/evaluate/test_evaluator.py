from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge.chat import ChatMessage, ChatReply, ChatRequest
from judge.errors import EventError
from judge.evaluate.evaluator import (
    MAX_DETAIL_CHARS,
    MAX_KEPT_CHARS,
    MAX_SHOWN_CHARS,
    Evaluator,
    repair_request,
    unrepaired,
)
from judge.evaluate.prices import ModelPrice, PriceTable
from judge.metric import ScoredOutcome, UnscoredOutcome
from judge.metrics.packs.metric import PackMetric
from schemas import RESULT, Failed, JudgeCall, Scored, Usage
from tests.judge.scripted import Line, ScriptedChat
from tests.judge.tasks import OCCURRED, SAMPLED, TONE, Told, task_for

NOW = datetime(2026, 11, 21, 9, 0, 2, tzinfo=UTC)
AnyResult = TypeVar("AnyResult", Scored, Failed)
PRICES = PriceTable({"m-1": ModelPrice(1.0, 4.0, 0.5)})


def said(text: str, *, read: int = 100, wrote: int = 10, seconds: float = 0.5) -> ChatReply:
    usage = Usage(input_tokens=read, cached_tokens=read // 2, output_tokens=wrote)
    return ChatReply(text=text, model="m-1-2026", usage=usage, seconds=seconds)


async def judged(
    kind: type[AnyResult], *lines: Line, metric: PackMetric = TONE, **arguments: Any
) -> tuple[AnyResult, ScriptedChat]:
    chat = ScriptedChat(lines, endpoint="primary", model="m-1")
    judge = Evaluator(metric, chat, clock=lambda: NOW, prices=PRICES, **arguments)
    result = await judge.judge(task_for(metric))
    assert RESULT.validate_json(result.model_dump_json()) == result
    assert isinstance(result, kind)
    return result, chat


async def test_a_scored_result_carries_judge_usage_cost_and_times() -> None:
    parameters = {"temperature": 0}
    result, chat = await judged(Scored, said('{"score": 4}'), parameters=parameters, max_output_tokens=99)
    task = task_for(TONE)
    assert (result.score, result.verdict, result.score_exact) == (4, {"score": 4}, None)
    assert (result.result_id, result.event_id, result.metric) == (task.result_id, "e-1", "tone")
    assert (result.source, result.sampling, result.labels) == (task.source, task.sampling, {"app": "guide"})
    assert result.judge == JudgeCall(
        endpoint="primary", model_asked="m-1", model_answered="m-1-2026", cached=False, tries=1
    )
    assert result.usage == Usage(input_tokens=100, cached_tokens=50, output_tokens=10)
    # 50 * 1 + 50 * 0.5 + 10 * 4 = 115 micro-USD.
    assert result.cost_usd == pytest.approx(115e-6)
    times = result.times
    told = (times.occurred_at, times.sampled_at, times.judged_at, times.judge_seconds)
    assert told == (OCCURRED, SAMPLED, NOW, 0.5)
    assert (result.evaluator.model, result.evaluator.parameters) == ("m-1", parameters)
    assert (chat.requests[0].parameters, chat.requests[0].max_output_tokens) == (parameters, 99)


CUT = EventError("reply_cut", "at its limit", reply=said('{"sc', read=150, wrote=20, seconds=2.0))
LONG = EventError("context_too_long", "too long")
REFUSED = EventError("content_refused", "no " * 2000)
BAD = said("bad")


@pytest.mark.parametrize(
    ("lines", "kind", "detail", "calls", "tokens"),
    [
        ([REFUSED], "content_refused", "no no", 1, 0),
        ([EventError("reply_cut", "at its limit")], "reply_cut", "at its limit", 1, 0),
        ([KeyError("oops")], "internal_error", "KeyError: 'oops'", 1, 0),
        ([LONG], "context_too_long", "too long", 1, 0),
        ([BAD] * 3, "invalid_verdict", "(after 2 repair attempts); the reply: bad", 3, 300),
        # Only the repair turn is too long.
        ([BAD, LONG], "invalid_verdict", "the reply: bad", 2, 100),
        # Other errors of a repair turn keep their kind, and a cut reply is paid for.
        ([BAD, REFUSED], "content_refused", "no no", 2, 100),
        ([BAD, CUT], "reply_cut", "at its limit", 2, 250),
    ],
)
async def test_an_error_of_one_event_becomes_its_result(
    lines: list[Line], kind: str, detail: str, calls: int, tokens: int
) -> None:
    result, chat = await judged(Failed, *lines)
    assert result.error_type == kind
    assert detail in result.detail
    assert len(result.detail) <= MAX_DETAIL_CHARS
    assert len(chat.requests) == calls
    assert result.judge is not None
    assert result.usage.input_tokens == tokens
    assert (result.cost_usd is None) == (tokens == 0)
    if lines[-1] is CUT:
        # 50 + 75 fresh at 1, 50 + 75 cached at 0.5 and 30 output tokens at 4 USD a million.
        assert result.cost_usd == pytest.approx(307.5e-6)
        assert (result.times.judge_seconds, result.judge.tries) == (2.5, 2)


async def test_an_invalid_outcome_is_an_internal_error() -> None:
    result, _ = await judged(Failed, "x", metric=Told(lambda: ScoredOutcome({"score": float("nan")}, 2)))
    assert result.error_type == "internal_error"


async def test_cancellation_passes_through() -> None:
    asked: list[ChatRequest] = []

    async def hang(request: ChatRequest) -> ChatReply:
        asked.append(request)
        return await asyncio.Future()

    judge = Evaluator(TONE, ScriptedChat([]))
    call = asyncio.create_task(judge.judge(task_for(judge.metric), hang))
    await asyncio.sleep(0)
    assert asked
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call


async def test_a_task_of_another_metric_is_refused() -> None:
    judge = Evaluator(TONE, ScriptedChat([]))
    with pytest.raises(ValueError, match="task of told"):
        await judge.judge(task_for(Told(lambda: UnscoredOutcome("no_claims"))))


@pytest.mark.parametrize(
    ("parameters", "fingerprint"),
    [({}, "94bdf7a6a8482998"), ({"temperature": 0, "seed": 7}, "af0a078d5706949a")],
)
def test_an_upgrade_keeps_running_series(parameters: dict[str, Any], fingerprint: str) -> None:
    chat = ScriptedChat([], model="m-1")
    assert Evaluator(TONE, chat, parameters=parameters).evaluator.fingerprint == fingerprint


# Repair turns


async def test_a_repair_turn_appends_the_reply_and_its_defect() -> None:
    result, chat = await judged(Scored, '{"score": 9}', "nonsense", '{"score": 4}')
    assert result.judge is not None
    assert (result.score, result.judge.tries) == (4, 3)
    first, second, third = (request.messages for request in chat.requests)
    assert second[: len(first)] == third[: len(first)] == first
    assert [message.role for message in second[len(first) :]] == ["assistant", "user"]
    assert second[-2].content == '{"score": 9}'
    assert '"score" must be a whole number from 1 to 5, got 9' in second[-1].content
    assert [message.content for message in third[len(first) : -1]] == ["nonsense"]
    assert chat.requests[1].response_schema == chat.requests[0].response_schema
    assert chat.requests[1].parameters == chat.requests[0].parameters


@pytest.mark.parametrize("attempts", [0, 1])
async def test_the_repair_attempts_are_bounded(attempts: int) -> None:
    result, chat = await judged(Failed, *[said("x" * 5000 + "the end")] * 3, repair_attempts=attempts)
    assert len(chat.requests) == attempts + 1
    assert ("(after 1 repair attempt)" in result.detail) == (attempts == 1)
    assert result.detail.endswith("the end")


@pytest.mark.parametrize("reply", ["", " \n", "{" * 100_000, "\x00", "short"])
def test_the_quoted_reply_is_bounded_and_never_empty(reply: str) -> None:
    repair = repair_request(ChatRequest((ChatMessage("user", "judge"),)), reply, "wrong " * 1000)
    assert repair.messages[1].content.strip()
    assert len(repair.messages[1].content) <= MAX_SHOWN_CHARS
    assert len(repair.messages[2].content) < 1500


@given(st.text(max_size=3000), st.text(max_size=3000), st.integers(0, 5))
def test_a_failure_keeps_the_replys_end_whole(problem: str, reply: str, attempts: int) -> None:
    detail = unrepaired(problem, reply, attempts).detail
    assert detail.endswith(reply[-(MAX_KEPT_CHARS - 1) :])
    assert len(detail) <= MAX_DETAIL_CHARS
