from __future__ import annotations

import asyncio
import json
import os
import signal
import time

import pytest

from judge.chat import ChatMessage, ChatRequest
from judge.errors import EventError, InvalidVerdictError
from judge.evaluate import limited
from judge.evaluate.evaluator import Evaluator
from judge.metric import READ_AT_ONCE, Outcome, ScoredOutcome
from judge.metrics.packs.metric import PackMetric
from judge.metrics.registry import build_metric
from judge.metrics.replies import MAX_REPLY_CHARS
from judge.text.redaction import KINDS
from schemas import Failed, JudgeTask, Scored
from tests.judge.replies import listed_claim, relevance_reply
from tests.judge.scripted import ScriptedChat
from tests.judge.tasks import TONE, guarded, make_task

LONG = READ_AT_ONCE + 1
MIB = 1024 * 1024


def _hold(size: int) -> int:
    return len(bytearray(size))


def _full_as_orjson_says() -> None:
    raise SystemError("returned a result with an exception set") from MemoryError()


def _never_ends() -> None:
    while True:
        pass


def _refused(detail: str) -> None:
    raise InvalidVerdictError(detail)


def _broken() -> None:
    raise KeyError("no")


async def test_short_texts_are_read_at_once_and_long_ones_by_a_child() -> None:
    assert await limited.run_limited(READ_AT_ONCE, 1, os.getpid) == os.getpid()
    assert await limited.run_limited(LONG, 20, os.getpid) != os.getpid()


async def test_errors_of_a_function_are_returned() -> None:
    with pytest.raises(InvalidVerdictError, match="score is missing"):
        await limited.run_limited(LONG, 20, _refused, "score is missing")
    with pytest.raises(RuntimeError, match="KeyError: 'no'"):
        await limited.run_limited(LONG, 20, _broken)


async def test_a_call_that_does_not_end_is_ended_and_the_next_one_is_answered() -> None:
    before = await limited.run_limited(LONG, 20, os.getpid)
    with pytest.raises(EventError, match=r"longer than 0\.2 s") as caught:
        await limited.run_limited(LONG, 0.2, _never_ends)
    assert caught.value.error_type == "verification_timeout"
    after = await limited.run_limited(LONG, 20, os.getpid)
    assert after != before


async def test_a_call_that_is_still_being_sent_is_ended() -> None:
    """A child that does not read is killed at the time limit, while a thread still writes to it."""
    child = limited.Child("stopped", limited.MEMORY_BYTES)
    try:
        os.kill(await child.call(60, os.getpid), signal.SIGSTOP)
        with pytest.raises(limited.LateError, match=r"longer than 0\.2 s"):
            await child.call(0.2, len, bytes(8 * MIB))
        assert await child.call(60, len, bytes(8 * MIB)) == 8 * MIB
    finally:
        child.close()


_held: list[bytes] = []


def _load() -> None:
    _held.append(bytes(240 * MIB))


async def test_memory_of_a_loaded_model_is_not_counted() -> None:
    child = limited.Child("test", limited.MEMORY_BYTES, first=_load, counts_first=False)
    try:
        first = await child.call(20, os.getpid)
        assert await child.call(20, _hold, 20 * MIB) == 20 * MIB
        assert await child.call(20, os.getpid) == first
        with pytest.raises(EventError, match="more than 160 MiB"):
            await child.call(20, _hold, 2 * limited.MEMORY_BYTES)
    finally:
        child.close()


async def test_a_call_that_needs_too_much_memory_fails_alone() -> None:
    with pytest.raises(EventError, match="needed more than 160 MiB"):
        await limited.run_limited(LONG, 20, _hold, 2 * limited.MEMORY_BYTES)
    with pytest.raises(EventError, match="needed more than 160 MiB"):
        await limited.run_limited(LONG, 20, _full_as_orjson_says)
    assert await limited.run_limited(LONG, 20, _hold, MIB) == MIB


@pytest.mark.slow
async def test_an_ordinary_text_does_not_wait_behind_hostile_ones() -> None:
    """Three texts that do not end leave the quick child after a second each; an ordinary one is next."""
    hostile = [asyncio.create_task(limited.run_limited(LONG, 60, _never_ends)) for _ in range(3)]
    await asyncio.sleep(0)
    assert await limited.run_limited(LONG, 60, os.getpid) != os.getpid()
    assert not any(task.done() for task in hostile)
    for name in ("quick", "slow"):
        limited._shared(name).close()
    limited._shared.cache_clear()
    await asyncio.gather(*hostile, return_exceptions=True)


async def test_a_function_that_cannot_be_pickled_has_the_same_time_limit() -> None:
    assert await limited.run_limited(LONG, 20, lambda: os.getpid()) == os.getpid()  # noqa: PLW0108 - a lambda is the point
    with pytest.raises(EventError, match="longer than"):
        await limited.run_limited(LONG, 0.05, lambda: time.sleep(0.5))


class Endless(PackMetric):
    def interpret(self, task: JudgeTask, reply: str) -> Outcome:
        del task
        while reply == "hostile " * LONG:
            pass
        return ScoredOutcome({"score": 3}, 3)


@pytest.mark.slow
async def test_an_event_whose_reply_takes_too_long_fails_as_such() -> None:
    chat = ScriptedChat(["hostile " * LONG, "honest " * LONG])
    judge = Evaluator(Endless("endless", TONE.pack, score_range=(1, 5)), chat, verification_seconds=5)
    first = await judge.judge(make_task("endless"))
    assert isinstance(first, Failed)
    assert first.error_type == "verification_timeout"
    assert isinstance(await judge.judge(make_task("endless")), Scored)


class Where(PackMetric):
    def prepare(self, task: JudgeTask) -> ChatRequest:
        del task
        return ChatRequest((ChatMessage("user", str(os.getpid())),))


@pytest.mark.parametrize("answer", ["short", "long " * LONG])
async def test_long_texts_are_prepared_by_a_child(answer: str) -> None:
    chat = ScriptedChat(['{"score": 4}'])
    judge = Evaluator(Where("where", TONE.pack, score_range=(1, 5)), chat)
    assert isinstance(await judge.judge(make_task("where", answer=answer)), Scored)
    assert (chat.requests[0].messages[0].content == str(os.getpid())) is (answer == "short")


async def test_a_long_honest_event_has_the_verdict_of_a_short_one() -> None:
    metric = guarded(build_metric("relevance"), *KINDS)
    page = "Rain fell on 3 days in May. " * 2_000
    said = "Rain fell on 3 days in May."
    reply = json.dumps(relevance_reply([listed_claim(said, [1], said)]))
    task = make_task(
        "relevance",
        question="On how many days in May did rain fall?",
        answer="Rain fell on 3 days in May. [Page 1]",
        context={"Page-1": page},
    )
    result = await Evaluator(metric, ScriptedChat([reply])).judge(task)
    assert isinstance(result, Scored)
    assert (result.score, result.corrections) == (5, ())


async def test_a_reply_beyond_all_bounds_is_not_read() -> None:
    chat = ScriptedChat(["{" * (MAX_REPLY_CHARS + 1)])
    judge = Evaluator(build_metric("coverage"), chat, repair_attempts=0)
    result = await judge.judge(make_task("coverage", reference="It is that."))
    assert isinstance(result, Failed)
    assert result.error_type == "invalid_verdict"
    assert "at most 1000000 are read" in result.detail
