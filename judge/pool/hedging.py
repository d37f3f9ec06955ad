"""Asking a second time where a call takes long, and taking the reply that comes first.

Off unless it is asked for: the call that is given up may be paid for, and nobody tells how much. Both calls go to the same
endpoint, so that the model of a verdict is the same, both count towards its limits, and the second is only made while
nobody waits for a turn there: an endpoint that is slow because it has much to do is not given more.
"""

from __future__ import annotations

import asyncio

from judge.chat import ChatReply, ChatRequest
from judge.endpoint.tally import VERDICT, Verdict
from judge.errors import JudgeUnavailableError
from judge.pool.guarded_chat import GuardedChat


class HedgedChat:
    """A chat client that makes a slow call a second time.

    Args:
        chat: The endpoint. Closed with this one.
        after_seconds: A call that was sent so long ago is made again; above 0.
    """

    def __init__(self, chat: GuardedChat, *, after_seconds: float) -> None:
        self._chat = chat
        self._after_seconds = after_seconds
        self.endpoint = chat.endpoint
        self.model = chat.model

    async def complete(self, request: ChatRequest) -> ChatReply:
        """Ask, and once more where that takes long; both count as tries.

        Raises:
            EndpointDownError: The endpoint is taken for down; nothing was sent.
            JudgeUnavailableError: Neither call was answered; the error is that of the first.
            JudgeConfigurationError: No call can succeed as configured.
            EventError: The endpoint refuses this request, or its reply is cut or refused.
        """
        sent = asyncio.Event()
        first = asyncio.create_task(self._chat.complete(request, on_sent=sent.set))
        sending = asyncio.create_task(sent.wait())
        second: asyncio.Task[ChatReply] | None = None
        beside = Verdict()
        try:
            await asyncio.wait({first, sending}, return_when=asyncio.FIRST_COMPLETED)
            await asyncio.wait({first}, timeout=self._after_seconds)
            if not first.done() and self._chat.is_free(request):
                second = asyncio.create_task(self._again(request, beside))
                await asyncio.wait({first, second}, return_when=asyncio.FIRST_COMPLETED)
                if first.done() and isinstance(first.exception(), JudgeUnavailableError):
                    await asyncio.wait({second})
                if second.done() and not isinstance(second.exception(), JudgeUnavailableError):
                    return second.result()
            return await first
        finally:
            await _give_up(first, sending, *(() if second is None else (second,)))
            verdict = VERDICT.get()
            if verdict is not None:
                # Their time runs side by side and is the first one's.
                verdict.calls += beside.calls
                verdict.answers += beside.answers
                verdict.used += beside.used

    async def _again(self, request: ChatRequest, beside: Verdict) -> ChatReply:
        """The second call, which ends when the first has to, at the latest."""
        verdict = VERDICT.get()
        if verdict is not None:
            beside.spent_seconds = verdict.spent_seconds + self._after_seconds
            beside.marks = verdict.marks
            VERDICT.set(beside)  # for this task alone
        return await self._chat.complete(request)

    async def close(self) -> None:
        """Release the connections."""
        await self._chat.close()


async def _give_up(*tasks: asyncio.Task[ChatReply] | asyncio.Task[bool]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
