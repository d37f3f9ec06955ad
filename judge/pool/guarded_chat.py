"""One endpoint, asked no more than it bears, and what is learned from how each call ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from judge.chat import ChatClient, ChatMessage, ChatReply, ChatRequest, RateLimits
from judge.endpoint.tally import VERDICT, Tally, Verdict
from judge.errors import EventError, JudgeConfigurationError, JudgeUnavailableError
from judge.pool.admission import Admission, Marks
from judge.pool.breaker import Breaker
from judge.pool.observer import PoolObserver
from judge.verdict.turns import Turns

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
_CHECK: Final = ChatRequest(
    messages=(ChatMessage("user", "Answer with the single word: ready"),), max_output_tokens=64
)


class GuardedChat:
    """A chat client that waits for its turn, and refuses at once while its endpoint is down.

    Args:
        chat: The endpoint.
        admission: Whose turn it is there.
        breaker: The endpoint's breaker.
        turns: In which replies are handed on.
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
        admission: Admission,
        breaker: Breaker,
        turns: Turns,
        call_seconds: float,
        budget_seconds: float,
        observer: PoolObserver,
        chance: Callable[[], float],
        clock: Callable[[], float],
    ) -> None:
        self._chat = chat
        self.endpoint = chat.endpoint
        self.model = chat.model
        self._turns = turns
        self.breaker = breaker
        self._admission = admission
        self._call_seconds = call_seconds
        self._budget_seconds = budget_seconds
        self._observer = observer
        self._chance = chance
        self._clock = clock
        self._checking = False
        self._pauses = 0
        self.tally = Tally()
        self.misconfigured: str | None = None
        """What is wrong with its configuration, as it says."""
        self.on_change: Callable[[], None] = _nothing
        """Called when it goes down or comes back."""

    @property
    def trouble(self) -> str | None:
        """Why it is taken for down; None while it is not."""
        return self._admission.trouble

    @property
    def waiting(self) -> int:
        """Calls that wait for their turn."""
        return self._admission.waiting

    def admit(self) -> None:
        """Let those who wait go, as far as limits allow."""
        self._admission.admit()

    def when_free(self, call: Callable[[], None]) -> None:
        """Have something called when a call has ended and one of the common slots is free again."""
        self._admission.on_free = call

    def may_be_asked(self) -> bool:
        """Whether a call would be sent, at once or after a wait for its turn."""
        return self.breaker.may_try(self._clock())

    def is_free(self, request: ChatRequest) -> bool:
        """Whether a call would be sent at once, and nobody waits."""
        admission = self._admission
        if admission.waiting or not self.may_be_asked():
            return False
        return admission.wait_seconds(admission.estimate(request)) <= 0

    async def complete(self, request: ChatRequest, on_sent: Callable[[], None] | None = None) -> ChatReply:
        """Ask once, when it is this call's turn.

        Args:
            request: What to ask.
            on_sent: Called when it is.

        Raises:
            EndpointDownError: The endpoint is taken for down; nothing was sent.
            JudgeUnavailableError: The endpoint cannot answer now.
            JudgeConfigurationError: No call can succeed as configured.
            EventError: The endpoint refuses this request, or its reply is cut or refused.
        """
        tokens = self._admission.estimate(request)
        marks = await self._admission.enter(tokens)
        verdict = VERDICT.get()
        bound = self._call_seconds
        if verdict is not None:
            bound = min(bound, max(0.001, self._budget_seconds - verdict.spent_seconds))
            verdict.calls += 1
            if self.endpoint not in verdict.marks:
                verdict.marks[self.endpoint] = (self.tally.answered, self.tally.failed)
        if on_sent is not None:
            on_sent()
        reply = await self._send(request, tokens, marks, bound, verdict)
        # Whoever was waiting for this call's slot is sent first: checking a reply takes longer.
        await self._turns.mine()
        return reply

    async def check(self) -> bool:
        """Find out whether the endpoint answers anything at all, with a question that any judge can answer.

        Returns:
            Whether it answered. A failure is not counted, for one event's failures are what is being looked into.
        """
        now = self._clock()
        if self._checking or now < self._admission.paused_until or not self.breaker.may_try(now):
            return False
        self._checking = True
        self.breaker.started(now)
        self._admission.requests.take(now, 1)
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
        self._admission.stop()

    async def close(self) -> None:
        """Release the connections."""
        self.stop()
        await self._chat.close()

    def take_down(self, reason: str, pause_seconds: float, *, misconfigured: bool = False) -> None:
        """Take it for down, whatever was counted; after the pause one call finds out."""
        if misconfigured:
            self.misconfigured = reason
        self._opened(self.breaker.trip(self._clock(), pause_seconds), reason)

    async def _send(
        self,
        request: ChatRequest,
        tokens: float,
        marks: Marks,
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
            self._admission.told(reply.limits, marks)
            self._admission.settle(reply, tokens)
            if not self._admission.start.is_over:
                self._admission.start.answered(self._clock() - started)
            self._answered(verdict, started)
            return reply
        finally:
            if verdict is not None:
                seconds = self._clock() - started
                verdict.call_seconds += seconds
                verdict.spent_seconds += seconds
            self._admission.leave()

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
        admission = self._admission
        self._pauses, admission.one_at_a_time = 0, False
        admission.requests.answered(now, sent_at=now if sent_at is None else sent_at)
        admission.limit.answered(admission.in_flight)
        if self.breaker.answered():
            admission.limit.came_back()
            admission.trouble = self.misconfigured = None
            self._observer.down(self.endpoint, None)
            admission.admit()
            self.on_change()

    def _failed(self, error: JudgeUnavailableError, sent_at: float, marks: Marks, *, cut_short: bool) -> None:
        self._admission.told(error.limits, marks)
        if cut_short and error.kind == "timeout":
            return
        now = self._clock()
        if error.kind == "rate_limited":
            self._refused(error, now, sent_at)
            return
        self.tally.failed += 1
        if error.kind in {"overloaded", "timeout"}:
            self._admission.limit.overloaded(now, sent_at=sent_at)
        if error.retry_after_seconds:
            self._pause(error, now, error.retry_after_seconds)
        self._opened(self.breaker.failed(now), str(error))

    def _refused(self, error: JudgeUnavailableError, now: float, sent_at: float) -> None:
        """It was asked too often: everybody leaves it alone for a while."""
        asked = error.retry_after_seconds or _reset_seconds(error.limits)
        if sent_at < self._admission.paused_until:  # sent before the pause began: the same lesson
            self._pause(error, now, asked)
            self._admission.requests.refused_too()
            return
        self._pauses += 1
        self._admission.one_at_a_time = self._pauses >= ALONE_AFTER_REFUSALS
        if not asked:
            # Nothing says whether it is calls a minute or calls at the same time.
            self._admission.limit.overloaded(now, sent_at=sent_at)
            pause = FIRST_PAUSE_SECONDS * 2 ** min(self._pauses - 1, 6)
        else:
            pause = asked
            self._admission.requests.refused(now, pause)
        self._pause(error, now, pause)
        if self._pauses >= MANY_REFUSALS:
            self._admission.requests.unlearn()
            self._opened(self.breaker.trip(now, self._admission.paused_until - now), str(error))

    def _pause(self, error: JudgeUnavailableError, now: float, seconds: float) -> None:
        pause = min(seconds, LONGEST_PAUSE_SECONDS)
        pause += min(1.0, 0.1 * pause) * self._chance()
        self._admission.paused_until = max(self._admission.paused_until, now + pause)
        if pause > self._budget_seconds:
            self._opened(self.breaker.trip(now, pause), str(error))

    def _opened(self, opened: bool, reason: str) -> None:
        if self.breaker.is_open:
            self._admission.trouble = reason
        if opened:
            self._observer.down(self.endpoint, reason)
            self._admission.turn_away(reason)
            self.on_change()


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
