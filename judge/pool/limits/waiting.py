"""The calls that wait for their turn at one endpoint, in two lanes."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
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
        """Whether no verdict may begin any more; those that have begun still get their turns."""
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
            close: Whether those that come later are given up, too.
        """
        self.closed = self.closed or close
        for lane in (self.fresh, self.late):
            for turn, _, begun in lane:
                if not (begun or turn.done()):
                    turn.set_exception(DrainingError("given up before it was sent"))

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
        """Let nobody in any more of its own accord."""
        if self._timer is not None:
            self._timer.cancel()

    def _time_is_up(self) -> None:
        self._timer = None
        self._admit()
