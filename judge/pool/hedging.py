"""Hedged calls: repeat a slow call and take the first reply.

Off by default: the abandoned call may still be billed, and its tokens are not counted. Both calls go to the
same endpoint, so the verdict's model does not change, and both count towards its limits. The second call is
sent only if no call waits in the queue, so that an overloaded endpoint gets no extra load.
"""

from __future__ import annotations

import asyncio

from judge.chat import ChatReply, ChatRequest
from judge.errors import JudgeUnavailableError
from judge.pool.attempt import Attempt
from judge.pool.guarded_chat import GuardedChat


async def ask_twice(
    chat: GuardedChat, request: ChatRequest, attempt: Attempt, *, after_seconds: float
) -> ChatReply:
    """Send a call, and a second one if it is slow; both count as tries.

    Args:
        chat: The endpoint.
        request: What to ask.
        attempt: The verdict's accounts.
        after_seconds: Time without a reply after which the second call is sent; above 0.

    Raises:
        EndpointDownError: The endpoint is down; nothing was sent.
        JudgeUnavailableError: Neither call was answered; the error is that of the first.
        JudgeConfigurationError: No call can succeed as configured.
        EventError: The endpoint refuses this request, or its reply is truncated or refused.
    """
    sent = asyncio.Event()
    first = asyncio.create_task(chat.ask(request, attempt, on_sent=sent.set))
    sending = asyncio.create_task(sent.wait())
    second: asyncio.Task[ChatReply] | None = None
    beside = Attempt()
    try:
        await asyncio.wait({first, sending}, return_when=asyncio.FIRST_COMPLETED)
        await asyncio.wait({first}, timeout=after_seconds)
        if not first.done() and chat.is_free(request):
            # Both calls share one deadline.
            beside = attempt.beside(after_seconds)
            second = asyncio.create_task(chat.ask(request, beside))
            await asyncio.wait({first, second}, return_when=asyncio.FIRST_COMPLETED)
            if first.done() and isinstance(first.exception(), JudgeUnavailableError):
                await asyncio.wait({second})
            if second.done() and not isinstance(second.exception(), JudgeUnavailableError):
                return second.result()
        return await first
    finally:
        await _give_up(first, sending, *(() if second is None else (second,)))
        attempt.join(beside)


async def _give_up(*tasks: asyncio.Task[ChatReply] | asyncio.Task[bool]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
