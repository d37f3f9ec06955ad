"""Queues: calls that wait for an endpoint, replies that wait to be processed, and the shared slots."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from judge.errors import DrainingError, EndpointDownError

Marks: TypeAlias = tuple[float, float]
"""Position of a call in the quotas of requests and of tokens."""
Turn: TypeAlias = tuple[asyncio.Future[Marks], float, bool]
"""A queued call: its turn, its tokens, and whether a call of its verdict was already sent."""


class Waiting:
    """Queued calls, first in, first out; tasks that timed out before have a lane of their own.

    Args:
        admit: Sends queued calls as far as the limits allow.
    """

    def __init__(self, admit: Callable[[], None]) -> None:
        self.fresh: deque[Turn] = deque()
        self.late: deque[Turn] = deque()
        self.closed = False
        """Whether new verdicts are refused; those with a call already sent still get their turns."""
        self._admit = admit
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0

    def __len__(self) -> int:
        return len(self.fresh) + len(self.late)

    def lane(self, *, late: bool) -> deque[Turn]:
        """Return the late lane or the normal one."""
        return self.late if late else self.fresh

    def add(self, tokens: float, *, late: bool, begun: bool) -> asyncio.Future[Marks]:
        """Queue a call and return its turn."""
        turn: asyncio.Future[Marks] = asyncio.get_running_loop().create_future()
        self.lane(late=late).append((turn, tokens, begun))
        return turn

    def turn_away(self, reason: str) -> None:
        """Fail all queued calls with `EndpointDownError`."""
        for lane in (self.fresh, self.late):
            while lane:
                turn = lane.popleft()[0]
                if not turn.done():
                    turn.set_exception(EndpointDownError(reason))

    def drain(self, *, close: bool) -> None:
        """Cancel queued calls, except those of verdicts with a call already sent.

        Args:
            close: Whether to refuse new verdicts, too.
        """
        self.closed = self.closed or close
        for lane in (self.fresh, self.late):
            for turn, _, begun in lane:
                if not (begun or turn.done()):
                    turn.set_exception(DrainingError("cancelled before it was sent"))

    def look_again(self, seconds: float) -> None:
        """Call `admit` after this time at the latest."""
        loop = asyncio.get_running_loop()
        at = loop.time() + seconds
        if self._timer is not None:
            if self._timer_at <= at:
                return  # the running timer is earlier
            self._timer.cancel()
        # uvloop rounds to milliseconds and may call early; below 1 ms its handle has no time, hence
        # `_timer_at`.
        self._timer, self._timer_at = loop.call_at(at, self._time_is_up), at

    def stop(self) -> None:
        """Cancel the timer."""
        if self._timer is not None:
            self._timer.cancel()

    def _time_is_up(self) -> None:
        self._timer = None
        self._admit()


class Turns:
    """Resumes waiting coroutines one at a time, one per round of the event loop, first in, first out.

    Checking a reply blocks the event loop. If many replies arrive together, their slots would stay idle until
    all are checked, and the next calls would start together again. With a turn before each check, queued
    calls are sent first.
    """

    __slots__ = ("_is_armed", "_waiting")

    def __init__(self) -> None:
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._is_armed = False

    async def mine(self) -> None:
        """Wait for a turn."""
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
    """Concurrent calls over all endpoints of a pool."""

    most: int
    taken: int = 0
    turns: Turns = field(default_factory=Turns)
    """Order in which replies are processed."""
