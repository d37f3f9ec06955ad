"""Asking a second time where a call takes long, and taking the reply that comes first.

Off unless it is asked for: the abandoned call may have to be paid for, and its tokens are not counted. Both
calls go to the same endpoint, so that the model of a verdict is the same, both count towards its limits, and
the second is only made while no call waits for a turn there: an endpoint that is slow because it has much to
do is not given more.
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
    """Ask, and once more where that takes long; both count as tries.

    Args:
        chat: The endpoint.
        request: What to ask.
        attempt: The verdict that it is for.
        after_seconds: A call that was sent so long ago is made again; above 0.

    Raises:
        EndpointDownError: The endpoint is down; nothing was sent.
        JudgeUnavailableError: Neither call was answered; the error is that of the first.
        JudgeConfigurationError: No call can succeed as configured.
        EventError: The endpoint refuses this request, or its reply is cut or refused.
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
            # It ends when the first has to, at the latest.
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
