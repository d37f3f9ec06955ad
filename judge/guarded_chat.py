"""One endpoint, asked no more than it bears: its limits, its breaker, and the queue of those who wait for it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Final, Protocol, TypeAlias

from judge.breaker import Breaker
from judge.chat import ChatClient, ChatMessage, ChatReply, ChatRequest
from judge.concurrency import AdaptiveLimit, GentleStart
from judge.errors import EndpointDownError, EventError, JudgeConfigurationError, JudgeUnavailableError
from judge.quota import Quota, RateLimits
from judge.turns import Turns
from schemas import Usage

FIRST_PAUSE_SECONDS: Final = 0.5
"""Asked too often by an endpoint that does not say for how long to stay away, it is left alone for so long; then twice."""
LONGEST_PAUSE_SECONDS: Final = 900.0
"""No endpoint is left alone for longer, whatever it asks for."""
MANY_REFUSALS: Final = 6
"""So many pauses in a row without an answer are an outage."""
ALONE_AFTER_REFUSALS: Final = 2
"""After so many pauses in a row without an answer one call at a time finds out whether there is one."""
MISCONFIGURED_SECONDS: Final = 300.0
"""An endpoint whose configuration cannot work is tried again after so long, where others judge meanwhile."""
CUT_SHORT_SHARE: Final = 0.5
"""A call that had less than this share of its usual time says nothing about the endpoint when it fails."""
CHECK_WEIGHT: Final = 9
"""An answered check tells as much as so many answered calls for other events: it comes right after the failure."""
_CHARS_A_TOKEN: Final = 4
_CHECK: Final = ChatRequest(
    messages=(ChatMessage("user", "Answer with the single word: ready"),), max_output_tokens=64
)


class PoolObserver(Protocol):
    """Hears what happens at the endpoints; for metrics and logs."""

    def in_flight(self, endpoint: str, calls: int) -> None:
        """So many calls to an endpoint are under way."""

    def asked(self, endpoint: str, model: str, outcome: str, seconds: float) -> None:
        """A judge was asked, and this came of it.

        Args:
            endpoint: The endpoint's name.
            model: The model that was asked.
            outcome: A result's status or error_type, or why the endpoint gave none.
            seconds: In calls, waits excluded.
        """

    def used(self, endpoint: str, model: str, usage: Usage, *, for_verdict: bool) -> None:
        """A call has used tokens; called once for each call that an endpoint says so of, whatever came of it.

        Args:
            endpoint: The endpoint's name.
            model: The model that was asked.
            usage: As the endpoint counts.
            for_verdict: Whether some result will carry them; those of a check are on none.
        """

    def down(self, endpoint: str, reason: str | None) -> None:
        """An endpoint is taken for down, for this reason; or not any more (None)."""


_Marks: TypeAlias = tuple[float, float]
"""Where a call stands in the quotas of requests and of tokens."""


@dataclass(slots=True)
class Tally:
    """Calls to one endpoint, by whether they were answered."""

    answered: int = 0
    failed: int = 0


@dataclass(slots=True)
class Verdict:
    """What has been spent on one verdict so far. Follows its task through a context variable."""

    calls: int = 0
    """Calls sent, failed ones included."""
    call_seconds: float = 0.0
    """Time in the calls of this attempt."""
    spent_seconds: float = 0.0
    """Of the time budget."""
    answers: int = 0
    """Own calls that were answered in this attempt; they do not count as others'."""
    used: list[tuple[str, Usage]] = field(default_factory=list)
    """Tokens of its calls, with the endpoint of each, as far as endpoints told them."""
    marks: dict[str, tuple[int, int]] = field(default_factory=dict)
    """The endpoint's tally when this event's evidence there was last drawn."""


VERDICT: Final[ContextVar[Verdict | None]] = ContextVar("verdict", default=None)
"""The verdict that a call is for; None for a call on its own."""


@dataclass(slots=True)
class Slots:
    """Calls at the same time, over all endpoints of a pool."""

    most: int
    taken: int = 0
    turns: Turns = field(default_factory=Turns)
    """In which replies are handed on."""


class GuardedChat:
    """A chat client that waits for its turn, and refuses at once while its endpoint is down.

    Args:
        chat: The endpoint.
        slots: Bound over all endpoints.
        breaker: The endpoint's breaker.
        max_in_flight: Calls at the same time at this endpoint at most; fewer while it is overloaded. At least 1.
        requests_per_minute: Its configured limit; what its headers say counts too. None for none.
        tokens_per_minute: Likewise.
        call_seconds: Bound on one call.
        budget_seconds: Bound on all calls for one verdict, with the pauses between them.
        observer: Hears of calls.
        chance: Gives numbers from 0 to 1, evenly.
        clock: Gives seconds and never goes back.
    """

    def __init__(
        self,
        chat: ChatClient,
        *,
        slots: Slots,
        breaker: Breaker,
        max_in_flight: int,
        requests_per_minute: float | None,
        tokens_per_minute: float | None,
        call_seconds: float,
        budget_seconds: float,
        observer: PoolObserver,
        chance: Callable[[], float],
        clock: Callable[[], float],
    ) -> None:
        self._chat = chat
        self.endpoint = chat.endpoint
        self.model = chat.model
        self._slots = slots
        self.breaker = breaker
        self._limit = AdaptiveLimit(max_in_flight)
        self._requests = Quota(requests_per_minute)
        self._tokens = Quota(tokens_per_minute)
        self._call_seconds = call_seconds
        self._budget_seconds = budget_seconds
        self._observer = observer
        self._chance = chance
        self._clock = clock
        self._in_flight = 0
        self._waiting: deque[tuple[asyncio.Future[_Marks], float]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0
        self._start = GentleStart()
        self._checking = False
        self._paused_until = 0.0
        self._pauses = 0
        self._output_tokens = 0.0
        self.tally = Tally()
        self.trouble: str | None = None
        """Why it is taken for down; None while it is not."""
        self.misconfigured: str | None = None
        """What is wrong with its configuration, as it says."""
        self.on_change: Callable[[], None] = _nothing
        """Called when it goes down or comes back."""
        self.on_free: Callable[[], None] = _nothing
        """Called when a call has ended and one of the common slots is free again."""

    @property
    def waiting(self) -> int:
        """Calls that wait for their turn."""
        return len(self._waiting)

    def may_be_asked(self) -> bool:
        """Whether a call would be sent, at once or after a wait for its turn."""
        return self.breaker.may_try(self._clock())

    async def complete(self, request: ChatRequest) -> ChatReply:
        """Ask once, when it is this call's turn.

        Raises:
            EndpointDownError: The endpoint is taken for down; nothing was sent.
            JudgeUnavailableError: The endpoint cannot answer now.
            JudgeConfigurationError: No call can succeed as configured.
            EventError: The endpoint refuses this request, or its reply is cut or refused.
        """
        tokens = self._estimate(request) if self._tokens.known else 0.0
        if self._waiting or self._wait_seconds(tokens) > 0:
            marks = await self._turn(tokens)
        else:
            marks = self._enter(tokens)
        verdict = VERDICT.get()
        bound = self._call_seconds
        if verdict is not None:
            bound = min(bound, max(0.001, self._budget_seconds - verdict.spent_seconds))
            verdict.calls += 1
            if self.endpoint not in verdict.marks:
                verdict.marks[self.endpoint] = (self.tally.answered, self.tally.failed)
        reply = await self._send(request, tokens, marks, bound, verdict)
        # Whoever was waiting for this call's slot is sent first: checking a reply takes longer.
        await self._slots.turns.mine()
        return reply

    async def check(self) -> bool:
        """Find out whether the endpoint answers anything at all, with a question that any judge can answer.

        Returns:
            Whether it answered. A failure is not counted, for one event's failures are what is being looked into.
        """
        now = self._clock()
        if self._checking or now < self._paused_until or not self.breaker.may_try(now):
            return False
        self._checking = True
        self.breaker.started(now)
        self._requests.take(now, 1)
        try:
            async with asyncio.timeout(self._call_seconds):
                self._used(await self._chat.complete(_CHECK), None)
        except EventError as error:
            self._used(error.reply, None)  # it answers, if only to refuse
        except (JudgeUnavailableError, JudgeConfigurationError) as error:
            self._used(error.reply, None)
            return False
        except TimeoutError:
            return False
        finally:
            self._checking = False
        self.tally.answered += CHECK_WEIGHT - 1
        self._answered()
        return True

    def stop(self) -> None:
        """Let nobody in any more who waits for a turn."""
        if self._timer is not None:
            self._timer.cancel()

    async def close(self) -> None:
        """Release the connections."""
        self.stop()
        await self._chat.close()

    def take_down(self, reason: str, pause_seconds: float, *, misconfigured: bool = False) -> None:
        """Take it for down, whatever was counted; after the pause one call finds out."""
        if misconfigured:
            self.misconfigured = reason
        self._opened(self.breaker.trip(self._clock(), pause_seconds), reason)

    # Turns

    def _wait_seconds(self, tokens: float) -> float:
        """How long the next call must wait; infinite until another one ends.

        Raises:
            EndpointDownError: Nothing is sent there now.
        """
        now = self._clock()
        if not self.breaker.may_try(now):
            raise EndpointDownError(self.trouble or f"judge endpoint {self.endpoint} is down")
        if self._in_flight >= self._most_calls() or self._slots.taken >= self._slots.most:
            self._start.is_over = self._in_flight > 0
            return float("inf")
        waits = max(self._paused_until - now, self._requests.wait_seconds(now, 1))
        if not (self._start.is_over or self._requests.known):
            waits = max(waits, self._start.wait_seconds(now, self._in_flight))
        if tokens:
            waits = max(waits, self._tokens.wait_seconds(now, tokens))
        return waits

    def _most_calls(self) -> int:
        return 1 if self._pauses >= ALONE_AFTER_REFUSALS else self._limit.calls

    def _enter(self, tokens: float) -> _Marks:
        now = self._clock()
        if not self._start.is_over:
            self._start.sent(now, self._limit.calls)
        self.breaker.started(now)
        self._slots.taken += 1
        self._in_flight += 1
        self._observer.in_flight(self.endpoint, self._in_flight)
        return self._requests.take(now, 1), self._tokens.take(now, tokens)

    def _leave(self) -> None:
        self._slots.taken -= 1
        self._in_flight -= 1
        if not self._in_flight:
            self._start.is_over = False
        self._observer.in_flight(self.endpoint, self._in_flight)
        if self._waiting:
            self.admit()
        self.on_free()

    async def _turn(self, tokens: float) -> _Marks:
        turn: asyncio.Future[_Marks] = asyncio.get_running_loop().create_future()
        self._waiting.append((turn, tokens))
        self.admit()
        try:
            return await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                self._leave()  # its turn had come in the same moment
            raise

    def admit(self) -> None:
        """Let those who wait go, as far as limits allow."""
        while self._waiting:
            turn, tokens = self._waiting[0]
            if turn.done():  # cancelled
                self._waiting.popleft()
                continue
            try:
                waits = self._wait_seconds(tokens)
            except EndpointDownError as error:
                self._turn_away(error)
                return
            if waits > 0:
                if waits != float("inf"):
                    self._admit_after(waits)
                return
            self._waiting.popleft()
            turn.set_result(self._enter(tokens))

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

    def _turn_away(self, error: EndpointDownError) -> None:
        waiting, self._waiting = self._waiting, deque()
        for turn, _ in waiting:
            if not turn.done():
                turn.set_exception(EndpointDownError(str(error)))

    # Calls

    async def _send(
        self,
        request: ChatRequest,
        tokens: float,
        marks: _Marks,
        bound: float,
        verdict: Verdict | None,
    ) -> ChatReply:
        started = self._clock()
        try:
            try:
                async with asyncio.timeout(bound):
                    reply = await self._chat.complete(request)
            except TimeoutError as error:
                raise JudgeUnavailableError(
                    f"judge endpoint {self.endpoint} did not answer within {bound:.3g} s", kind="timeout"
                ) from error
        except JudgeUnavailableError as error:
            self._used(error.reply, verdict)
            self._failed(error, started, marks, cut_short=bound < CUT_SHORT_SHARE * self._call_seconds)
            raise
        except JudgeConfigurationError as error:
            self._used(error.reply, verdict)
            self.take_down(str(error), MISCONFIGURED_SECONDS, misconfigured=True)
            raise
        except EventError as error:
            self._used(error.reply, verdict)
            self._answered(verdict, started)
            raise
        else:
            self._used(reply, verdict)
            self._told(reply.limits, marks)
            if self._tokens.known:
                self._settle(reply, tokens)
            if not self._start.is_over:
                self._start.answered(self._clock() - started)
            self._answered(verdict, started)
            return reply
        finally:
            now = self._clock()
            if verdict is not None:
                verdict.call_seconds += now - started
                verdict.spent_seconds += now - started
            self._start.ended(now)
            self._leave()

    def _used(self, reply: ChatReply | None, verdict: Verdict | None) -> None:
        """Book what a call has used."""
        if reply is None:
            return
        if verdict is not None:
            verdict.used.append((self.endpoint, reply.usage))
        self._observer.used(self.endpoint, self.model, reply.usage, for_verdict=verdict is not None)

    def _answered(self, verdict: Verdict | None = None, sent_at: float | None = None) -> None:
        now = self._clock()
        self.tally.answered += 1
        if verdict is not None:
            verdict.answers += 1
        self._pauses = 0
        self._requests.answered(now, sent_at=now if sent_at is None else sent_at)
        self._limit.answered(self._in_flight)
        if self.breaker.answered():
            self._limit.came_back()
            self.trouble = self.misconfigured = None
            self._observer.down(self.endpoint, None)
            self.admit()
            self.on_change()

    def _failed(
        self, error: JudgeUnavailableError, sent_at: float, marks: _Marks, *, cut_short: bool
    ) -> None:
        self._told(error.limits, marks)
        if cut_short and error.kind == "timeout":
            return
        now = self._clock()
        if error.kind == "rate_limited":
            self._refused(error, now, sent_at)
            return
        self.tally.failed += 1
        if error.kind in {"overloaded", "timeout"}:
            self._limit.overloaded(now, sent_at=sent_at)
        if error.retry_after_seconds:
            self._pause(error, now, error.retry_after_seconds)
        self._opened(self.breaker.failed(now), str(error))

    def _refused(self, error: JudgeUnavailableError, now: float, sent_at: float) -> None:
        """It was asked too often: everybody leaves it alone for a while."""
        asked = error.retry_after_seconds or _reset_seconds(error.limits)
        if sent_at < self._paused_until:  # sent before the pause began: the same lesson
            self._pause(error, now, asked)
            self._requests.refused_too()
            return
        self._pauses += 1
        if not asked:
            # Nothing says whether it is calls a minute or calls at the same time.
            self._limit.overloaded(now, sent_at=sent_at)
            pause = FIRST_PAUSE_SECONDS * 2 ** min(self._pauses - 1, 6)
        else:
            pause = asked
            self._requests.refused(now, pause)
        self._pause(error, now, pause)
        if self._pauses >= MANY_REFUSALS:
            self._requests.unlearn()
            self._opened(self.breaker.trip(now, self._paused_until - now), str(error))

    def _pause(self, error: JudgeUnavailableError, now: float, seconds: float) -> None:
        pause = min(seconds, LONGEST_PAUSE_SECONDS)
        pause += min(1.0, 0.1 * pause) * self._chance()
        self._paused_until = max(self._paused_until, now + pause)
        if pause > self._budget_seconds:
            self._opened(self.breaker.trip(now, pause), str(error))

    def _opened(self, opened: bool, reason: str) -> None:
        if self.breaker.is_open:
            self.trouble = reason
        if opened:
            self._observer.down(self.endpoint, reason)
            self._turn_away(EndpointDownError(reason))
            self.on_change()

    # Limits

    def _told(self, limits: RateLimits | None, marks: _Marks) -> None:
        if limits is not None:
            now = self._clock()
            self._requests.report(now, marks[0], limits.requests)
            self._tokens.report(now, marks[1], limits.tokens)

    def _estimate(self, request: ChatRequest) -> float:
        chars = sum(len(message.content) for message in request.messages)
        return chars / _CHARS_A_TOKEN + self._output_tokens

    def _settle(self, reply: ChatReply, estimated: float) -> None:
        usage = reply.usage
        spent = usage.input_tokens + usage.output_tokens
        if spent:
            self._output_tokens += 0.1 * (usage.output_tokens - self._output_tokens)
            self._tokens.settle(spent - estimated)


def _reset_seconds(limits: RateLimits | None) -> float:
    """Until what is used up is there again, by what an endpoint tells; 0 where it tells nothing."""
    if limits is None:
        return 0.0
    used_up = (
        one for one in (limits.requests, limits.tokens) if one.remaining is not None and one.remaining < 1
    )
    return max((one.reset_seconds or 0.0 for one in used_up), default=0.0)


def _nothing() -> None:
    """Nobody listens."""
