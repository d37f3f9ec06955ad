"""What waits: calls for their turn at an endpoint, and replies to be handed on. Slots are shared by all."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from judge.errors import DrainingError, EndpointDownError

Marks: TypeAlias = tuple[float, float]
"""Where a call stands in the quotas of requests and of tokens."""
Turn: TypeAlias = tuple[asyncio.Future[Marks], float, bool]
"""A call that waits: its turn, its tokens, and whether its verdict has begun (an earlier call for it was
answered)."""


class Waiting:
    """Calls in the order in which they came; those for tasks that timed out before have a lane of their own.

    Args:
        admit: Lets those who wait go, as far as limits allow.
    """

    def __init__(self, admit: Callable[[], None]) -> None:
        self.fresh: deque[Turn] = deque()
        self.late: deque[Turn] = deque()
        self.closed = False
        """Whether no verdict may begin any longer; those that have begun still get their turns."""
        self._admit = admit
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0

    def __len__(self) -> int:
        return len(self.fresh) + len(self.late)

    def lane(self, *, late: bool) -> deque[Turn]:
        """The lane of a task that timed out before, or of the others."""
        return self.late if late else self.fresh

    def add(self, tokens: float, *, late: bool, begun: bool) -> asyncio.Future[Marks]:
        """Let a call wait; its turn is the result."""
        turn: asyncio.Future[Marks] = asyncio.get_running_loop().create_future()
        self.lane(late=late).append((turn, tokens, begun))
        return turn

    def turn_away(self, reason: str) -> None:
        """Send off all, for the endpoint is down."""
        for lane in (self.fresh, self.late):
            while lane:
                turn = lane.popleft()[0]
                if not turn.done():
                    turn.set_exception(EndpointDownError(reason))

    def drain(self, *, close: bool) -> None:
        """Give up all but those for a verdict that has begun.

        Args:
            close: Whether those that come later are abandoned, too.
        """
        self.closed = self.closed or close
        for lane in (self.fresh, self.late):
            for turn, _, begun in lane:
                if not (begun or turn.done()):
                    turn.set_exception(DrainingError("cancelled before it was sent"))

    def look_again(self, seconds: float) -> None:
        """Let those who wait go, after so long at the latest."""
        loop = asyncio.get_running_loop()
        at = loop.time() + seconds
        if self._timer is not None:
            if self._timer_at <= at:
                return  # it looks again then
            self._timer.cancel()
        # uvloop counts whole milliseconds: it may call too early, and what it gives for less than one knows
        # no time.
        self._timer, self._timer_at = loop.call_at(at, self._time_is_up), at

    def stop(self) -> None:
        """Admit no further calls automatically."""
        if self._timer is not None:
            self._timer.cancel()

    def _time_is_up(self) -> None:
        self._timer = None
        self._admit()


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


@dataclass(slots=True)
class Slots:
    """Concurrent calls, over all endpoints of a pool."""

    most: int
    taken: int = 0
    turns: Turns = field(default_factory=Turns)
    """In which replies are handed on."""
