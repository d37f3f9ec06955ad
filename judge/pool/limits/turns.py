"""One piece of work at a time for an event loop that has more to do than to work."""

from __future__ import annotations

import asyncio
from collections import deque


class Turns:
    """Lets coroutines through one by one, a round of the event loop each, in the order in which they came.

    Work that takes long, like the checking of a reply, keeps replies from being read and calls from being
    sent. Where many replies come together, all calls after them would set out together, too, and their slots
    be idle until all is checked: the calls march in step. With a turn before each such work, what waits for a
    slot is sent first.
    """

    __slots__ = ("_is_armed", "_waiting")

    def __init__(self) -> None:
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._is_armed = False

    async def mine(self) -> None:
        """Wait for a turn; others come to theirs in a later round."""
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[None] = loop.create_future()
        self._waiting.append(turn)
        if not self._is_armed:
            self._is_armed = True
            loop.call_soon(self._next, loop)
        await turn

    def _next(self, loop: asyncio.AbstractEventLoop) -> None:
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():  # else cancelled
                turn.set_result(None)
                loop.call_soon(self._next, loop)
                return
        self._is_armed = False
