from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge.chat import ChatMessage, ChatReply, ChatRequest
from judge.endpoints.clients import Line, ScriptedChat
from judge.errors import EventError, JudgeUnavailableError
from judge.evaluate.evaluator import (
    MAX_DETAIL_CHARS,
    MAX_KEPT_CHARS,
    MAX_SHOWN_CHARS,
    Evaluator,
    repair_request,
    unrepaired,
)
from judge.evaluate.prices import ModelPrice, PriceTable
from schemas import RESULT, Failed, Scored, Unscored, Usage
from tests.judge.built_tasks import task_for
from tests.judge.evaluate.test_evaluator import pack_metric


def said(text: str) -> ChatReply:
    usage = Usage(input_tokens=100, cached_tokens=10, output_tokens=5)
    return ChatReply(text=text, model="m-1", usage=usage, seconds=0.5)


async def judged(*lines: Line, **arguments: Any) -> tuple[Scored | Unscored | Failed, ScriptedChat]:
    chat = ScriptedChat(lines, endpoint="primary", model="m-1")
    judge = Evaluator(pack_metric(), chat, prices=PriceTable({"m-1": ModelPrice(1.0, 2.0)}), **arguments)
    return await judge.judge(task_for(judge.metric)), chat


@pytest.mark.parametrize("wrong_replies", [1, 2])
async def test_a_repaired_reply_counts_all_its_calls(wrong_replies: int) -> None:
    lines = [said('{"score": 9}')] * wrong_replies + [said('{"score": 4}')]
    result, chat = await judged(*lines)
    assert isinstance(result, Scored)
    calls = wrong_replies + 1
    assert result.score == 4
    assert len(chat.requests) == calls
    assert result.judge is not None
    assert result.judge.tries == calls
    assert result.usage == Usage(input_tokens=100 * calls, cached_tokens=10 * calls, output_tokens=5 * calls)
    assert result.times.judge_seconds == 0.5 * calls
    # 100 input at 1 USD and 5 output at 2 USD a million: 110 micro-USD a call.
    assert result.cost_usd == pytest.approx(110e-6 * calls)


async def test_a_repair_turn_appends_the_reply_and_its_defect() -> None:
    _, chat = await judged('{"score": 9}', "nonsense", '{"score": 4}')
    first, second, third = (request.messages for request in chat.requests)
    assert second[: len(first)] == first
    assert third[: len(first)] == first
    assert [message.role for message in second[len(first) :]] == ["assistant", "user"]
    assert second[-2].content == '{"score": 9}'
    assert '"score" must be a whole number from 1 to 5, got 9' in second[-1].content
    assert [message.content for message in third[len(first) : -1]] == ["nonsense"]
    assert chat.requests[1].response_schema == chat.requests[0].response_schema
    assert chat.requests[1].parameters == chat.requests[0].parameters


@pytest.mark.parametrize(("attempts", "told"), [(0, ""), (1, "1 repair attempt)"), (2, "2 repair attempts)")])
async def test_a_reply_that_is_not_repaired_is_a_failure_with_its_text(attempts: int, told: str) -> None:
    """After the allowed attempts the detail has the defect and the end of the reply, within its limit."""
    result, chat = await judged(*[said("x" * 5000 + "the end")] * 3, repair_attempts=attempts)
    assert isinstance(result, Failed)
    assert result.error_type == "invalid_verdict"
    assert len(chat.requests) == attempts + 1
    assert result.usage.input_tokens == 100 * (attempts + 1)
    assert told in result.detail
    assert result.detail.endswith("the end")
    assert len(result.detail) <= MAX_DETAIL_CHARS
    assert RESULT.validate_json(result.model_dump_json()) == result


async def test_an_event_that_fits_but_whose_repair_does_not_is_an_invalid_verdict() -> None:
    result, chat = await judged(said("bad"), EventError("context_too_long", "too long"))
    assert isinstance(result, Failed)
    assert result.error_type == "invalid_verdict"
    assert result.detail.endswith("the reply: bad")
    assert len(chat.requests) == 2
    assert result.judge is not None
    result, _ = await judged(EventError("context_too_long", "too long"))
    assert isinstance(result, Failed)
    assert result.error_type == "context_too_long"


async def test_other_errors_of_a_repair_turn_keep_their_kind() -> None:
    result, _ = await judged(said("bad"), EventError("content_refused", "no"))
    assert isinstance(result, Failed)
    assert (result.error_type, result.usage.input_tokens) == ("content_refused", 100)
    with pytest.raises(JudgeUnavailableError):
        await judged(said("bad"), JudgeUnavailableError("down"))


@pytest.mark.parametrize("reply", ["", " \n", "{" * 100_000, "\x00", "short"])
def test_the_quoted_reply_is_bounded_and_never_empty(reply: str) -> None:
    request = ChatRequest((ChatMessage("user", "judge"),))
    repair = repair_request(request, reply, "wrong " * 1000)
    assert repair.messages[1].content.strip()
    assert len(repair.messages[1].content) <= MAX_SHOWN_CHARS
    assert len(repair.messages[2].content) < 1500


@given(st.text(max_size=3000), st.text(max_size=3000), st.integers(0, 5))
def test_a_failure_keeps_the_replys_end_whole(problem: str, reply: str, attempts: int) -> None:
    detail = unrepaired(problem, reply, attempts).detail
    assert detail.endswith(reply[-(MAX_KEPT_CHARS - 1) :])
    assert len(detail) <= MAX_DETAIL_CHARS
