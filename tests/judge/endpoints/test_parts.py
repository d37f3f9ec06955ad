"""A task that is judged in parts, over a pool, in virtual time."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from judge.chat import ChatReply, ChatRequest
from judge.endpoints.options import EndpointObserver, EndpointOptions, Patience
from judge.endpoints.pool import EndpointPool, RetryingJudge
from judge.metrics.coverage.metric import Coverage
from judge.metrics.prompting import parse_fenced
from judge.verdict import aside
from judge.verdict.evaluator import Judge
from judge.verdict.repair import REPAIR_BEGINNING
from schemas import Scored, Usage
from tests.judge.built_tasks import task_for
from tests.judge.metrics.coverage.test_parts import SENTENCES, honest
from tests.judge.virtual_time import run_virtually


class Slow:
    """A judge that takes 20 s a part and 5 s a repair turn; its first reply is invalid."""

    endpoint = "slow"
    model = "slow-1"

    def __init__(self) -> None:
        self.calls = 0

    async def complete(self, request: ChatRequest) -> ChatReply:
        """Reply late."""
        self.calls += 1
        is_first = self.calls == 1
        repairs = request.messages[-1].content.startswith(REPAIR_BEGINNING)
        await asyncio.sleep(5 if repairs else 20)
        event = parse_fenced(request.messages[1].content)
        text = "rubbish" if is_first else honest(event["reference"], event["answer"])
        return ChatReply(text, self.model, Usage(input_tokens=1), 20.0)

    async def close(self) -> None:
        """Nothing to close."""


def test_each_part_has_the_time_of_a_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two parts of 20 s and a repair turn take 25 s of the 30 s that a verdict may take.

    All calls are counted.
    """
    # A child process does not run in virtual time.
    monkeypatch.setattr(aside, "INLINE_BYTES", 1_000_000)

    async def scenario() -> Any:
        slow = Slow()
        loop = asyncio.get_running_loop()
        pool = EndpointPool(
            [EndpointOptions(slow)],
            max_in_flight=64,
            patience=Patience(timeout_seconds=30),
            observer=EndpointObserver(),
            chance=lambda: 1.0,
            clock=loop.time,
        )
        judge = RetryingJudge({"slow": Judge(Coverage(), slow)}, pool)
        started = loop.time()
        # Short enough to be read in the loop: a child process keeps another time.
        task = task_for(Coverage(), answer=SENTENCES[0], reference=" ".join(SENTENCES[:56]))
        result = await judge.judge(task)
        assert isinstance(result, Scored), result
        assert result.score == 2  # 1 of 56 facts: 5 * (0.0125 + 0.21 + 0.09) = 1.56
        assert loop.time() - started < 26
        assert result.judge is not None
        assert result.judge.tries == slow.calls == 3
        assert result.usage.input_tokens == slow.calls

    run_virtually(scenario())
