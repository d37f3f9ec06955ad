"""Who may call one endpoint now: its limits, the pauses it asked for, the queue, and what calls teach."""

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
"""Asked too often by an endpoint that does not say for how long to stay away, it is left alone for this long;
then twice."""
LONGEST_PAUSE_SECONDS: Final = 900.0
"""No endpoint is left alone for longer, whatever it asks for."""
MANY_REFUSALS: Final = 6
"""This many pauses in a row without an answer are an outage."""
ALONE_AFTER_REFUSALS: Final = 2
"""After this many pauses in a row without an answer one call at a time finds out whether there is one."""
LATE_SHARE: Final = 0.1
"""Of the concurrent calls, tasks that timed out before get this share (at least one call) while others
want to be judged."""
OVERLOAD_SHARE: Final = 0.2
"""Time-outs speak of overload from this share of the calls on that ended in the same time; fewer speak of
single events."""
_CHARS_A_TOKEN: Final = 4
_NEVER: Final = float("inf")


class Admission:
    """Lets calls to an endpoint go when it is their turn.

    Tasks that timed out before go behind the others: they have few slots of their own, and more only while
    others leave them free. So events that the endpoint never answers cannot keep it from judging the rest.

    Args:
        endpoint: Its name.
        slots: Bound over all endpoints.
        breaker: The endpoint's breaker.
        max_in_flight: Maximum concurrent calls at this endpoint; fewer while it is overloaded. At least
            1.
        requests_per_minute: Its configured limit; what its headers say counts too. None: calls begin gently,
            and refusals teach a limit.
        tokens_per_minute: Its configured limit; what its headers say counts too. None for none.
        longest_pause_seconds: An endpoint that asks for a longer pause is down for that time.
        observer: Is notified of calls.
        chance: Gives numbers from 0 to 1, evenly.
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
        """Called when a call has ended and one of the common slots is free again."""
        self.waiting = Waiting(self.admit)
        """The calls that wait for their turn."""
        self._output_tokens = 0.0

    @property
    def pausing(self) -> bool:
        """Whether the endpoint is left alone because it asked for a pause."""
        return self._clock() < self._paused_until

    # Turns

    def estimate(self, request: ChatRequest) -> float:
        """Say how many tokens a call will count for; 0 where the endpoint has no such limit."""
        if not self._tokens.known:
            return 0.0
        chars = sum(len(message.content) for message in request.messages)
        return chars / _CHARS_A_TOKEN + self._output_tokens

    async def enter(self, tokens: float, *, late: bool = False, begun: bool = False) -> Marks:
        """Wait for the turn of a call of this many tokens, and count it; `leave` ends it.

        Args:
            tokens: What it is estimated to use.
            late: Whether its task timed out before.
            begun: Whether giving it up would waste an earlier call for the same verdict.

        Raises:
            EndpointDownError: The endpoint is down; nothing is sent there now.
            DrainingError: Waiting calls were cancelled, or no verdict may start any longer.
        """
        if self.waiting.closed and not begun:
            raise DrainingError("not started: the pool is closed")
        if self.waiting.lane(late=late) or self.wait_seconds(tokens, late=late) > 0:
            return await self._turn(tokens, late=late, begun=begun)
        return self._enter_now(tokens, late=late)

    def enter_out_of_turn(self) -> None:
        """Count a call that waits for no turn and takes no slot; no `leave` ends it."""
        self._requests.take(self._clock(), 1)

    def wait_seconds(self, tokens: float, *, late: bool = False) -> float:
        """Say how long the next call must wait; infinite until another one ends.

        Raises:
            EndpointDownError: Nothing is sent there now.
        """
        if self._breaker.is_open:
            raise EndpointDownError(self.trouble or f"judge endpoint {self._endpoint} is down")
        now = self._clock()
        # One call at a time finds out whether there is an answer at all.
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
        """Whether one more late call leaves the others what they need."""
        if self._late_in_flight < max(1, int(most * LATE_SHARE)):
            return True
        if self.waiting.fresh:
            return False
        # While others come at all, half of the slots stay theirs.
        return self._in_flight < most // 2 or self._in_flight == self._late_in_flight

    def leave(self, *, late: bool = False) -> None:
        """A call has ended: the next of those who wait for its slot goes."""
        if self._start is not None:
            self._start.ended(self._clock())
        self._free_slot(late=late)

    def admit(self) -> None:
        """Let those who wait go, as far as limits allow."""
        try:
            # The few slots of late calls are theirs even while others wait, so that their tasks come to an
            # end.
            waits = min(
                self._admit(self.waiting.late, late=True), self._admit(self.waiting.fresh, late=False)
            )
        except EndpointDownError as error:
            self.waiting.turn_away(str(error))
            return
        if waits != _NEVER:
            self.waiting.look_again(waits)

    def _admit(self, queue: deque[Turn], *, late: bool) -> float:
        """Let go those at the head of a queue.

        Say how long the next one waits, infinite where only a free slot helps.
        """
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

    # Lessons

    def replied(self, reply: ChatReply, marks: Marks, tokens: float, *, sent_at: float) -> None:
        """Learn from a reply: what it says of limits, what it used, how long it took."""
        self._told(reply.limits, marks)
        spent = reply.usage.input_tokens + reply.usage.output_tokens
        if spent and self._tokens.known:
            self._output_tokens += 0.1 * (reply.usage.output_tokens - self._output_tokens)
            self._tokens.settle(spent - tokens)
        if self._start is not None and not self._start.is_over:
            self._start.answered(self._clock() - sent_at)

    def answered(self, *, sent_at: float) -> None:
        """A call that was sent then was answered, if only by a refusal."""
        self._answered += 1
        self._pauses = 0
        if self._learned is not None:
            self._learned.answered(self._clock(), sent_at=sent_at)
        self._limit.answered(self._in_flight)

    def came_back(self) -> None:
        """The endpoint was down and answers again."""
        self._limit.came_back()
        self.trouble = None
        self.admit()

    def ended(self) -> tuple[int, int]:
        """Calls so far that were answered, and those that timed out at their first try."""
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
        """Learn from a call that was not answered.

        Args:
            error: How it failed.
            marks: What `enter` gave for it.
            sent_at: When it was sent.
            ended: What `ended` gave then.
            late: Whether its task timed out before.
            cut_short: Whether it had too little time to say anything about the endpoint.

        Returns:
            For how many seconds the endpoint wants to be left alone, where that is an outage; else None.
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
        """Count a time-out.

        Say whether this many calls timed out in its time that the endpoint has too much to do.
        """
        self._timed_out += 1
        answered, timed_out = self._answered - ended[0], self._timed_out - ended[1]
        return timed_out > OVERLOAD_SHARE * (answered + timed_out)

    def _told(self, limits: RateLimits | None, marks: Marks) -> None:
        if limits is not None:
            now = self._clock()
            self._requests.report(now, marks[0], limits.requests)
            self._tokens.report(now, marks[1], limits.tokens)

    def _refused(self, error: JudgeUnavailableError, sent_at: float) -> float | None:
        """It was asked too often: everybody leaves it alone for a while."""
        now = self._clock()
        asked = error.retry_after_seconds or reset_seconds(error.limits)
        if sent_at < self._paused_until:  # sent before the pause began: the same lesson
            if self._learned is not None:
                self._learned.refused_too()
            return self._pause(asked)
        self._pauses += 1
        if asked:
            if self._learned is not None:
                self._learned.refused(now, asked)
        else:
            # Nothing says whether it is calls a minute or concurrent calls.
            self._limit.overloaded(now, sent_at=sent_at)
        down = self._pause(asked or FIRST_PAUSE_SECONDS * 2 ** min(self._pauses - 1, 6))
        if self._pauses < MANY_REFUSALS:
            return down
        if self._learned is not None:
            self._learned.unlearn()
        return self._paused_until - now

    def _pause(self, seconds: float) -> float | None:
        """Leave it alone; give the pause where it is an outage."""
        pause = min(seconds, LONGEST_PAUSE_SECONDS)
        pause += min(1.0, 0.1 * pause) * self._chance()
        self._paused_until = max(self._paused_until, self._clock() + pause)
        return pause if pause > self._longest_pause_seconds else None

    # Queue

    def _enter_now(self, tokens: float, *, late: bool) -> Marks:
        """Count a call that goes without a wait, which `wait_seconds` allows."""
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
                self._free_slot(late=late)  # its turn had come in the same moment
            raise


def _nothing() -> None:
    """Nobody listens."""
