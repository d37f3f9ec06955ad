"""What judges, opened and closed as one."""

from __future__ import annotations

import pytest

from judge.endpoint.scripted import ScriptedChat
from judge.errors import JudgeUnavailableError
from judge.metrics.coverage.metric import Coverage
from judge.pool.pool import Endpoint
from judge.pool.stack import JudgingStack
from judge.verdict.cache import MemoryCache
from tests.judge.tasks import make_task


class NotedCache(MemoryCache):
    """Says whether it was closed."""

    closed = False

    def close(self) -> None:
        self.closed = True


async def test_what_was_opened_is_closed_and_what_was_lent_is_not() -> None:
    """Endpoints and cache; a borrowed endpoint stays its owner's."""
    own, lent, cache = ScriptedChat([]), ScriptedChat([], endpoint="lent"), NotedCache(1)
    async with JudgingStack([Endpoint(own), Endpoint(lent, borrowed=True)], cache=cache):
        assert not own.closed
    assert (own.closed, lent.closed, cache.closed) == (True, False, True)


async def test_the_smallest_window_counts_at_every_endpoint() -> None:
    """What is cut does not depend on which endpoint answers: both get the same words, fewer than there are."""
    chats = [ScriptedChat(["{}"] * 9, endpoint=name) for name in ("wide", "narrow")]
    endpoints = [Endpoint(chats[0], context_tokens=100_000), Endpoint(chats[1], context_tokens=9_000)]
    reference = "".join(f"The tower number {number} stands in the town. " for number in range(2_000))
    async with JudgingStack(endpoints) as stack:
        for endpoint in endpoints:
            await stack.evaluator(Coverage(), endpoint).judge(make_task("coverage", reference=reference))
    wide, narrow = (chat.requests[0].messages for chat in chats)
    assert wide == narrow
    assert sum(len(message.content) for message in narrow) < len(reference)


async def test_an_evaluator_tries_once() -> None:
    """Its errors are the caller's: nothing waits for an endpoint that cannot answer."""
    chat = ScriptedChat([JudgeUnavailableError("gone")])
    async with JudgingStack([Endpoint(chat)]) as stack:
        with pytest.raises(JudgeUnavailableError, match="gone"):
            await stack.evaluator(Coverage()).judge(make_task("coverage", reference="It is that."))
