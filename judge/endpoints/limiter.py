"""Limits of one endpoint: calls and tokens per minute, concurrent calls, pauses, and the queue."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from judge.chat import ChatReply, ChatRequest, RateLimits
from judge.errors import DrainingError, JudgeError, JudgeUnavailableError

if TYPE_CHECKING:
    from judge.endpoints.options import EndpointOptions
    from judge.endpoints.pool import EndpointPool

MARGIN: Final = 0.97
"""Share of a limit per minute to use, because calls may arrive closer together than they were sent."""
BURST_SECONDS: Final = 1.0
"""Depth of the token bucket."""
DECREASE: Final = 0.5
FAST_UNTIL: Final = 0.75
"""After a decrease the limit doubles per round of calls up to this share of its former value; beyond that it
grows by one per round."""
RETURN_SHARE: Final = 0.25
"""Share of the maximum with which a recovered endpoint restarts."""
FIRST_PAUSE_SECONDS: Final = 0.5
"""First pause after a rate limit without `Retry-After`; it doubles."""
HOLD_SECONDS: Final = 60.0
"""Time after a long requested pause in which the concurrency is not raised."""
LEAST_HOLD_SECONDS: Final = 10.0
LONGEST_PAUSE_SECONDS: Final = 900.0
_NEVER: Final = float("inf")


class Quota:
    """Requests or tokens per minute, spread evenly, which respects windows and token buckets alike. Pure."""

    def __init__(self, per_minute: float | None = None) -> None:
        self._configured = per_minute
        self.per_minute = per_minute
        """The lower of the configured and the reported limit; None if neither is known."""
        self._level = 0.0
        self._level_at: float | None = None

    def wait_seconds(self, now: float) -> float:
        """Return how long the next call must wait; a large call is paid for afterwards."""
        per_second = self._refill(now)
        return 0.0 if not per_second or self._level >= -1e-9 else -self._level / per_second

    def take(self, now: float, cost: float) -> None:
        if self._refill(now):
            self._level -= cost

    def settle(self, difference: float) -> None:
        """Correct the cost of a call by the difference between actual and estimated tokens."""
        if self._level_at is not None:
            self._level -= difference

    def report(self, limit: float | None) -> None:
        if limit:
            self.per_minute = limit if self._configured is None else min(limit, self._configured)

    def _refill(self, now: float) -> float:
        """Return what is granted per second; 0 without a limit."""
        if self.per_minute is None:
            return 0.0
        per_second = self.per_minute * MARGIN / 60
        elapsed = 0.0 if self._level_at is None else now - self._level_at
        self._level = min(self._level + elapsed * per_second, BURST_SECONDS * per_second)
        self._level_at = now
        return per_second


class Concurrency:
    """Adaptive limit of concurrent calls: additive increase, multiplicative decrease (RFC 5681). Pure.

    Latency is no signal, because an endpoint may queue requests; refusals and many time-outs are.
    """

    def __init__(self, most: int) -> None:
        self._most = float(most)
        self._fast_until = float(most)
        self._limit = float(most)
        self._decreased_at = float("-inf")
        self._held_until = float("-inf")

    @property
    def calls(self) -> int:
        return int(self._limit)

    def answered(self, in_flight: int, now: float) -> None:
        """Raise the limit after an answered call, if the calls in flight (this one included) reached it."""
        limit = self._limit
        if limit < self._most and in_flight >= int(limit) and now >= self._held_until:
            self._limit = min(self._most, limit + (1.0 if limit < self._fast_until else 1.0 / limit))

    def overloaded(self, now: float, *, sent_at: float, hold_seconds: float = 0.0) -> None:
        """Halve the limit and hold it, unless the failed call was sent before the last decrease."""
        if sent_at < self._decreased_at:
            return
        self._held_until = now + hold_seconds
        self._decreased_at = now
        self._fast_until = max(1.0, self._limit * FAST_UNTIL)
        self._limit = max(1.0, self._limit * DECREASE)

    def came_back(self, now: float, *, alone: bool = False) -> None:
        """Raise the limit after an outage, whose failures are no evidence about capacity.

        That it answered only a call that was `alone` is: it starts again with one.
        """
        if alone:
            self._limit = 1.0
        elif now >= self._held_until:
            self._fast_until = self._most
            self._limit = max(1.0, self._limit, self._most * RETURN_SHARE)


@dataclass(slots=True)
class _Waiting:
    """A queued call; `begun`: an earlier call of its verdict would be wasted by cancelling."""

    tokens: float
    begun: bool
    turn: asyncio.Future[None]


class Limiter:
    """Sends the calls of one endpoint within its limits, first in, first out."""

    def __init__(self, options: EndpointOptions, pool: EndpointPool) -> None:
        self._pool = pool
        self._most = pool.options.max_in_flight
        self._name = options.chat.endpoint
        self.concurrency = Concurrency(min(self._most, options.max_in_flight or self._most))
        self._requests = Quota(options.requests_per_minute)
        self._tokens = Quota(options.tokens_per_minute)
        self._output_tokens = 0.0
        self._in_flight = 0
        self._pauses = 0
        self.paused_until = 0.0
        self._closed = False
        self.waiting: deque[_Waiting] = deque()
        self._timer: asyncio.TimerHandle | None = None

    def estimate(self, request: ChatRequest) -> float:
        if self._tokens.per_minute is None:
            return 0.0
        chars = sum(len(message.content) for message in request.messages)
        return chars / 4 + self._output_tokens

    async def enter(self, tokens: float, *, begun: bool) -> None:
        """Wait until a call may be sent, and count it. Call `leave` when it has ended."""
        if self._closed and not begun:
            raise DrainingError("not started: the pool is closed")
        if not self.waiting and self._wait_seconds() <= 0:
            self._start(tokens)
            return
        call = _Waiting(tokens, begun, asyncio.get_running_loop().create_future())
        self.waiting.append(call)
        self.admit()
        try:
            await call.turn
        except asyncio.CancelledError:
            if call.turn.done() and not call.turn.cancelled() and call.turn.exception() is None:
                self.leave()  # cancelled in the same round in which its turn came
            raise

    def leave(self) -> None:
        self._in_flight -= 1
        self._pool.observer.in_flight(self._name, self._in_flight)
        self._pool.call_ended()

    def sent_without_slot(self) -> None:
        """Count a neutral event's call, which needs neither queue nor slot."""
        self._requests.take(self._pool.clock(), 1)

    def admit(self) -> None:
        while self.waiting:
            if self.waiting[0].turn.done():  # cancelled
                self.waiting.popleft()
                continue
            seconds = self._wait_seconds()
            if seconds > 0:
                self.stop()
                if seconds != _NEVER:  # uvloop rounds to milliseconds and may call early
                    self._timer = asyncio.get_running_loop().call_later(seconds, self.admit)
                return
            call = self.waiting.popleft()
            self._start(call.tokens)
            call.turn.set_result(None)

    def reject_waiting(self, error: Callable[[], JudgeError], *, begun: bool = True) -> None:
        """Fail the queued calls; without `begun`, only those of verdicts without a call so far."""
        for call in self.waiting:
            if not call.turn.done() and (begun or not call.begun):
                call.turn.set_exception(error())

    def drain(self, *, close: bool) -> None:
        """Cancel queued calls that begin a verdict; `close`: refuse new verdicts, too."""
        self._closed = self._closed or close
        self.reject_waiting(lambda: DrainingError("cancelled before it was sent"), begun=False)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def answered(self, reply: ChatReply | None = None, tokens: float = 0.0) -> None:
        """Update the limits from an answered call; a refusal of the request counts as an answer."""
        self._pauses = 0
        self.concurrency.answered(self._in_flight, self._pool.clock())
        if reply is None:
            return
        self._reported(reply.limits)
        spent = reply.usage.input_tokens + reply.usage.output_tokens
        if spent and self._tokens.per_minute is not None:
            if tokens:  # a neutral event's reply is shorter than others
                self._output_tokens += 0.1 * (reply.usage.output_tokens - self._output_tokens)
            self._tokens.settle(spent - tokens)

    def refused(self, error: JudgeUnavailableError, *, sent_at: float) -> bool:
        """Pause all calls after a rate limit or another failure with `Retry-After`."""
        self._reported(error.limits)
        now = self._pool.clock()
        is_new = sent_at >= self.paused_until
        seconds = error.retry_after_seconds or (error.limits.reset_seconds if error.limits else 0.0)
        if is_new:
            self._pauses += 1
            # A long stated pause ends when a quota is renewed: without hold, each renewal would be overrun.
            hold_seconds = seconds + HOLD_SECONDS if seconds >= LEAST_HOLD_SECONDS else 0.0
            self.concurrency.overloaded(now, sent_at=sent_at, hold_seconds=hold_seconds)
            seconds = seconds or FIRST_PAUSE_SECONDS * 2 ** min(self._pauses - 1, 6)
        seconds = min(seconds, LONGEST_PAUSE_SECONDS)
        # Jitter spreads the calls of several workers.
        seconds += min(1.0, 0.1 * seconds) * self._pool.chance()
        self.paused_until = max(self.paused_until, now + seconds)
        return is_new

    def _reported(self, limits: RateLimits | None) -> None:
        if limits is not None:
            self._requests.report(limits.requests)
            self._tokens.report(limits.tokens)

    def _wait_seconds(self) -> float:
        """Return how long the next call must wait; infinite if another call must end first."""
        # After repeated pauses, one call at a time.
        most = 1 if self._pauses > 1 else self.concurrency.calls
        if self._in_flight >= most or self._pool.in_flight >= self._most:
            return _NEVER
        now = self._pool.clock()
        return max(self.paused_until - now, self._requests.wait_seconds(now), self._tokens.wait_seconds(now))

    def _start(self, tokens: float) -> None:
        now = self._pool.clock()
        self._requests.take(now, 1)
        self._tokens.take(now, tokens)
        self._pool.in_flight += 1
        self._in_flight += 1
        self._pool.observer.in_flight(self._name, self._in_flight)
