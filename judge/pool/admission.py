"""Who may call one endpoint now: its limits, the pauses that it asked for, and the queue of those who wait."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from judge.chat import ChatReply, ChatRequest, RateLimits
from judge.errors import EndpointDownError
from judge.pool.breaker import Breaker
from judge.pool.concurrency import AdaptiveLimit, GentleStart
from judge.pool.observer import PoolObserver
from judge.pool.quota import Quota
from judge.verdict.turns import Turns

_CHARS_A_TOKEN: Final = 4

Marks: TypeAlias = tuple[float, float]
"""Where a call stands in the quotas of requests and of tokens."""


@dataclass(slots=True)
class Slots:
    """Calls at the same time, over all endpoints of a pool."""

    most: int
    taken: int = 0
    turns: Turns = field(default_factory=Turns)
    """In which replies are handed on."""


class Admission:
    """Lets calls to an endpoint go when it is their turn.

    Args:
        endpoint: Its name.
        slots: Bound over all endpoints.
        breaker: The endpoint's breaker.
        max_in_flight: Calls at the same time at this endpoint at most; fewer while it is overloaded. At least 1.
        requests_per_minute: Its configured limit; what its headers say counts too. None for none.
        tokens_per_minute: Likewise.
        observer: Hears of calls.
        clock: Gives seconds and never goes back.
    """

    def __init__(
        self,
        endpoint: str,
        *,
        slots: Slots,
        breaker: Breaker,
        max_in_flight: int,
        requests_per_minute: float | None,
        tokens_per_minute: float | None,
        observer: PoolObserver,
        clock: Callable[[], float],
    ) -> None:
        self._endpoint = endpoint
        self._slots = slots
        self._breaker = breaker
        self._observer = observer
        self._clock = clock
        self.limit = AdaptiveLimit(max_in_flight)
        self.requests = Quota(requests_per_minute)
        self.tokens = Quota(tokens_per_minute)
        self.start = GentleStart()
        self.in_flight = 0
        self.paused_until = 0.0
        self.one_at_a_time = False
        """Whether the next call is to find out if there is an answer at all."""
        self.trouble: str | None = None
        """Why the endpoint is taken for down; None while it is not."""
        self.on_free: Callable[[], None] = _nothing
        """Called when a call has ended and one of the common slots is free again."""
        self._waiting: deque[tuple[asyncio.Future[Marks], float]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0
        self._output_tokens = 0.0

    @property
    def waiting(self) -> int:
        """Calls that wait for their turn."""
        return len(self._waiting)

    def estimate(self, request: ChatRequest) -> float:
        """Say how many tokens a call will count for; 0 where the endpoint has no such limit."""
        if not self.tokens.known:
            return 0.0
        chars = sum(len(message.content) for message in request.messages)
        return chars / _CHARS_A_TOKEN + self._output_tokens

    async def enter(self, tokens: float) -> Marks:
        """Wait for the turn of a call of so many tokens, and count it; `leave` ends it.

        Raises:
            EndpointDownError: The endpoint is taken for down; nothing is sent there now.
        """
        if self._waiting or self.wait_seconds(tokens) > 0:
            return await self._turn(tokens)
        return self.enter_now(tokens)

    def wait_seconds(self, tokens: float) -> float:
        """Say how long the next call must wait; infinite until another one ends.

        Raises:
            EndpointDownError: Nothing is sent there now.
        """
        now = self._clock()
        if not self._breaker.may_try(now):
            raise EndpointDownError(self.trouble or f"judge endpoint {self._endpoint} is down")
        most = 1 if self.one_at_a_time else self.limit.calls
        if self.in_flight >= most or self._slots.taken >= self._slots.most:
            self.start.is_over = self.in_flight > 0
            return float("inf")
        waits = max(self.paused_until - now, self.requests.wait_seconds(now, 1))
        if not (self.start.is_over or self.requests.known):
            waits = max(waits, self.start.wait_seconds(now, self.in_flight))
        if tokens:
            waits = max(waits, self.tokens.wait_seconds(now, tokens))
        return waits

    def enter_now(self, tokens: float) -> Marks:
        """Count a call that goes without a wait, which `wait_seconds` allows."""
        now = self._clock()
        if not self.start.is_over:
            self.start.sent(now, self.limit.calls)
        self._breaker.started(now)
        self._slots.taken += 1
        self.in_flight += 1
        self._observer.in_flight(self._endpoint, self.in_flight)
        return self.requests.take(now, 1), self.tokens.take(now, tokens)

    def leave(self) -> None:
        """A call has ended: whoever waits for its slot goes."""
        self.start.ended(self._clock())
        self._free_slot()

    def admit(self) -> None:
        """Let those who wait go, as far as limits allow."""
        while self._waiting:
            turn, tokens = self._waiting[0]
            if turn.done():  # cancelled
                self._waiting.popleft()
                continue
            try:
                waits = self.wait_seconds(tokens)
            except EndpointDownError as error:
                self.turn_away(str(error))
                return
            if waits > 0:
                if waits != float("inf"):
                    self._admit_after(waits)
                return
            self._waiting.popleft()
            turn.set_result(self.enter_now(tokens))

    def turn_away(self, reason: str) -> None:
        """Send off all who wait, for the endpoint is taken for down."""
        waiting, self._waiting = self._waiting, deque()
        for turn, _ in waiting:
            if not turn.done():
                turn.set_exception(EndpointDownError(reason))

    def told(self, limits: RateLimits | None, marks: Marks) -> None:
        """Believe what the reply to a call says of the limits."""
        if limits is not None:
            now = self._clock()
            self.requests.report(now, marks[0], limits.requests)
            self.tokens.report(now, marks[1], limits.tokens)

    def settle(self, reply: ChatReply, estimated: float) -> None:
        """Put what a call has used in the place of what was estimated."""
        usage = reply.usage
        spent = usage.input_tokens + usage.output_tokens
        if spent and self.tokens.known:
            self._output_tokens += 0.1 * (usage.output_tokens - self._output_tokens)
            self.tokens.settle(spent - estimated)

    def stop(self) -> None:
        """Let nobody in any more who waits for a turn."""
        if self._timer is not None:
            self._timer.cancel()

    def _free_slot(self) -> None:
        self._slots.taken -= 1
        self.in_flight -= 1
        if not self.in_flight:
            self.start.is_over = False
        self._observer.in_flight(self._endpoint, self.in_flight)
        if self._waiting:
            self.admit()
        self.on_free()

    async def _turn(self, tokens: float) -> Marks:
        turn: asyncio.Future[Marks] = asyncio.get_running_loop().create_future()
        self._waiting.append((turn, tokens))
        self.admit()
        try:
            return await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                self._free_slot()  # its turn had come in the same moment
            raise

    def _admit_after(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        at = loop.time() + seconds
        if self._timer is not None:
            if self._timer_at <= at:
                return  # it looks again then
            self._timer.cancel()
        # uvloop counts whole milliseconds: it may call too early, and what it gives for less than one knows no time.
        self._timer, self._timer_at = loop.call_at(at, self._time_is_up), at

    def _time_is_up(self) -> None:
        self._timer = None
        self.admit()


def _nothing() -> None:
    """Nobody listens."""
