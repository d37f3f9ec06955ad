"""Admission of calls to one endpoint: limits, requested pauses, queue, learning from outcomes."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

from judge.chat import ChatReply, ChatRequest, RateLimits
from judge.errors import DrainingError, EndpointDownError, JudgeUnavailableError
from judge.pool.breaker import Breaker
from judge.pool.limits.concurrency import AdaptiveLimit, GentleStart
from judge.pool.limits.quota import LearnedQuota, Quota, reset_seconds
from judge.pool.limits.waiting import Marks, Slots, Turn, Waiting
from judge.pool.observer import PoolObserver

FIRST_PAUSE_SECONDS: Final = 0.5
"""First pause after a rate limit without `Retry-After`; it doubles."""
LONGEST_PAUSE_SECONDS: Final = 900.0
"""Upper limit of a requested pause."""
MANY_REFUSALS: Final = 6
"""Consecutive pauses without an answer that count as an outage."""
ALONE_AFTER_REFUSALS: Final = 2
"""Consecutive pauses without an answer after which only one call is in flight at a time."""
LATE_SHARE: Final = 0.1
"""Share of the concurrent calls (at least one) for tasks that timed out before, while others wait."""
OVERLOAD_SHARE: Final = 0.2
"""Share of timed-out calls above which time-outs mean overload; below it, single events cause them."""
_CHARS_A_TOKEN: Final = 4
_NEVER: Final = float("inf")


class Admission:
    """Sends queued calls to an endpoint within its limits.

    Tasks that timed out before queue in the late lane: it has few slots of its own, and more only while other
    calls leave them free. So events that never get an answer cannot block the others.

    Args:
        endpoint: Its name.
        slots: Slots shared by all endpoints.
        breaker: The endpoint's breaker.
        max_in_flight: Limit of concurrent calls at this endpoint, at least 1; reduced during overload.
        requests_per_minute: Configured limit; limits in headers apply too. None: calls start slowly, and a
            limit is learned from refusals.
        tokens_per_minute: Configured limit; limits in headers apply too. None: no configured limit.
        longest_pause_seconds: An endpoint that requests a longer pause counts as down for that time.
        observer: Notified of calls.
        chance: Returns uniform random numbers from 0 to 1.
        clock: Monotonic clock, in seconds.
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
        longest_pause_seconds: float,
        observer: PoolObserver,
        chance: Callable[[], float],
        clock: Callable[[], float],
    ) -> None:
        self._endpoint = endpoint
        self._slots = slots
        self._breaker = breaker
        self._longest_pause_seconds = longest_pause_seconds
        self._observer = observer
        self._chance = chance
        self._clock = clock
        self._limit = AdaptiveLimit(max_in_flight)
        self._learned = LearnedQuota() if requests_per_minute is None else None
        self._start = GentleStart() if requests_per_minute is None else None
        self._requests = self._learned or Quota(requests_per_minute)
        self._tokens = Quota(tokens_per_minute)
        self._in_flight = 0
        self._late_in_flight = 0
        self._answered = 0
        self._timed_out = 0
        self._paused_until = 0.0
        self._pauses = 0
        self.trouble: str | None = None
        """Why the endpoint is down; None while it is not."""
        self.on_free: Callable[[], None] = _nothing
        """Called when a call has ended and freed a shared slot."""
        self.waiting = Waiting(self.admit)
        """The queued calls."""
        self._output_tokens = 0.0

    @property
    def pausing(self) -> bool:
        """Whether a pause that the endpoint requested is running."""
        return self._clock() < self._paused_until

    # Queueing

    def estimate(self, request: ChatRequest) -> float:
        """Return the estimated tokens of a call; 0 if the endpoint has no token limit."""
        if not self._tokens.known:
            return 0.0
        chars = sum(len(message.content) for message in request.messages)
        return chars / _CHARS_A_TOKEN + self._output_tokens

    async def enter(self, tokens: float, *, late: bool = False, begun: bool = False) -> Marks:
        """Wait until a call may be sent, and count it. Call `leave` when it has ended.

        Args:
            tokens: Its estimated tokens.
            late: Whether its task timed out before.
            begun: Whether an earlier call of the same verdict would be wasted by cancelling.

        Raises:
            EndpointDownError: The endpoint is down.
            DrainingError: Queued calls were cancelled, or the pool is closed.
        """
        if self.waiting.closed and not begun:
            raise DrainingError("not started: the pool is closed")
        if self.waiting.lane(late=late) or self.wait_seconds(tokens, late=late) > 0:
            return await self._turn(tokens, late=late, begun=begun)
        return self._enter_now(tokens, late=late)

    def enter_out_of_turn(self) -> None:
        """Count a call that needs neither queue nor slot; do not call `leave` for it."""
        self._requests.take(self._clock(), 1)

    def wait_seconds(self, tokens: float, *, late: bool = False) -> float:
        """Return how long the next call must wait; infinite if another call must end first.

        Raises:
            EndpointDownError: The endpoint is down.
        """
        if self._breaker.is_open:
            raise EndpointDownError(self.trouble or f"judge endpoint {self._endpoint} is down")
        now = self._clock()
        # After repeated pauses, one call at a time.
        most = 1 if self._pauses >= ALONE_AFTER_REFUSALS else self._limit.calls
        if self._in_flight >= most or self._slots.taken >= self._slots.most:
            if self._start is not None:
                self._start.is_over = self._in_flight > 0
            return _NEVER
        if late and not self._leaves_room(most):
            return _NEVER
        waits = max(self._paused_until - now, self._requests.wait_seconds(now, 1))
        if self._start is not None and not (self._start.is_over or self._requests.known):
            waits = max(waits, self._start.wait_seconds(now, self._in_flight))
        if tokens:
            waits = max(waits, self._tokens.wait_seconds(now, tokens))
        return waits

    def _leaves_room(self, most: int) -> bool:
        """Return whether one more late call leaves enough slots for the others."""
        if self._late_in_flight < max(1, int(most * LATE_SHARE)):
            return True
        if self.waiting.fresh:
            return False
        # While other calls are in flight, half of the slots are reserved for them.
        return self._in_flight < most // 2 or self._in_flight == self._late_in_flight

    def leave(self, *, late: bool = False) -> None:
        """Record that a call has ended, and send the next queued one."""
        if self._start is not None:
            self._start.ended(self._clock())
        self._free_slot(late=late)

    def admit(self) -> None:
        """Send queued calls as far as the limits allow."""
        try:
            # Late calls first, so that their tasks end; their share of the slots is small.
            waits = min(
                self._admit(self.waiting.late, late=True), self._admit(self.waiting.fresh, late=False)
            )
        except EndpointDownError as error:
            self.waiting.turn_away(str(error))
            return
        if waits != _NEVER:
            self.waiting.look_again(waits)

    def _admit(self, queue: deque[Turn], *, late: bool) -> float:
        """Send calls from the head of a queue; return the next one's wait, infinite if it needs a slot."""
        while queue:
            turn, tokens, _ = queue[0]
            if turn.done():  # cancelled
                queue.popleft()
                continue
            waits = self.wait_seconds(tokens, late=late)
            if waits > 0:
                return waits
            queue.popleft()
            turn.set_result(self._enter_now(tokens, late=late))
        return _NEVER

    # Learning from outcomes

    def replied(self, reply: ChatReply, marks: Marks, tokens: float, *, sent_at: float) -> None:
        """Update limits, tokens and call duration from a reply."""
        self._told(reply.limits, marks)
        spent = reply.usage.input_tokens + reply.usage.output_tokens
        if spent and self._tokens.known:
            self._output_tokens += 0.1 * (reply.usage.output_tokens - self._output_tokens)
            self._tokens.settle(spent - tokens)
        if self._start is not None and not self._start.is_over:
            self._start.answered(self._clock() - sent_at)

    def answered(self, *, sent_at: float) -> None:
        """Record an answered call; a refusal of the request counts as an answer."""
        self._answered += 1
        self._pauses = 0
        if self._learned is not None:
            self._learned.answered(self._clock(), sent_at=sent_at)
        self._limit.answered(self._in_flight)

    def came_back(self) -> None:
        """Record that the endpoint has recovered."""
        self._limit.came_back()
        self.trouble = None
        self.admit()

    def ended(self) -> tuple[int, int]:
        """Number of answered calls, and of first tries that timed out."""
        return self._answered, self._timed_out

    def failed(
        self,
        error: JudgeUnavailableError,
        marks: Marks,
        *,
        sent_at: float,
        ended: tuple[int, int],
        late: bool,
        cut_short: bool,
    ) -> float | None:
        """Update limits and pauses from a call without an answer.

        Args:
            error: How it failed.
            marks: Returned by `enter` for it.
            sent_at: When it was sent.
            ended: Returned by `ended` at that time.
            late: Whether its task timed out before.
            cut_short: Whether it had too little time to be evidence about the endpoint.

        Returns:
            The requested pause in seconds if it counts as an outage, else None.
        """
        self._told(error.limits, marks)
        if cut_short:
            return None
        if error.kind == "rate_limited":
            return self._refused(error, sent_at)
        if error.kind == "overloaded" or (
            error.kind == "timeout" and not late and self._many_time_out(ended)
        ):
            self._limit.overloaded(self._clock(), sent_at=sent_at)
        return self._pause(error.retry_after_seconds) if error.retry_after_seconds else None

    def _many_time_out(self, ended: tuple[int, int]) -> bool:
        """Count a time-out; return whether the share of time-outs during the call means overload."""
        self._timed_out += 1
        answered, timed_out = self._answered - ended[0], self._timed_out - ended[1]
        return timed_out > OVERLOAD_SHARE * (answered + timed_out)

    def _told(self, limits: RateLimits | None, marks: Marks) -> None:
        if limits is not None:
            now = self._clock()
            self._requests.report(now, marks[0], limits.requests)
            self._tokens.report(now, marks[1], limits.tokens)

    def _refused(self, error: JudgeUnavailableError, sent_at: float) -> float | None:
        """Pause all calls after a rate limit."""
        now = self._clock()
        asked = error.retry_after_seconds or reset_seconds(error.limits)
        if sent_at < self._paused_until:  # sent before the pause: part of the same rate limit
            if self._learned is not None:
                self._learned.refused_too()
            return self._pause(asked)
        self._pauses += 1
        if asked:
            if self._learned is not None:
                self._learned.refused(now, asked)
        else:
            # Unknown whether calls per minute or concurrent calls are limited.
            self._limit.overloaded(now, sent_at=sent_at)
        down = self._pause(asked or FIRST_PAUSE_SECONDS * 2 ** min(self._pauses - 1, 6))
        if self._pauses < MANY_REFUSALS:
            return down
        if self._learned is not None:
            self._learned.unlearn()
        return self._paused_until - now

    def _pause(self, seconds: float) -> float | None:
        """Pause all calls; return the pause if it counts as an outage."""
        pause = min(seconds, LONGEST_PAUSE_SECONDS)
        pause += min(1.0, 0.1 * pause) * self._chance()
        self._paused_until = max(self._paused_until, self._clock() + pause)
        return pause if pause > self._longest_pause_seconds else None

    # Queue

    def _enter_now(self, tokens: float, *, late: bool) -> Marks:
        """Count a call that is sent now."""
        now = self._clock()
        if self._start is not None and not self._start.is_over:
            self._start.sent(now, self._limit.calls)
        self._slots.taken += 1
        self._in_flight += 1
        self._late_in_flight += late
        self._observer.in_flight(self._endpoint, self._in_flight)
        return self._requests.take(now, 1), self._tokens.take(now, tokens)

    def _free_slot(self, *, late: bool) -> None:
        self._slots.taken -= 1
        self._in_flight -= 1
        self._late_in_flight -= late
        if not self._in_flight and self._start is not None:
            self._start.is_over = False
        self._observer.in_flight(self._endpoint, self._in_flight)
        if self.waiting:
            self.admit()
        self.on_free()

    async def _turn(self, tokens: float, *, late: bool, begun: bool) -> Marks:
        turn = self.waiting.add(tokens, late=late, begun=begun)
        self.admit()
        try:
            return await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                self._free_slot(late=late)  # cancelled in the same round in which its turn came
            raise


def _nothing() -> None:
    """Do nothing."""
