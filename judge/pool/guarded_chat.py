"""One endpoint of the pool: a call waits for its turn, is bounded in time, and how it ends is counted."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from judge.chat import ChatClient, ChatMessage, ChatReply, ChatRequest
from judge.errors import EventError, JudgeConfigurationError, JudgeUnavailableError
from judge.pool.admission import Admission, Marks
from judge.pool.attempt import Attempt
from judge.pool.breaker import Breaker
from judge.pool.observer import PoolObserver
from judge.pool.turns import Turns

MISCONFIGURED_SECONDS: Final = 300.0
"""An endpoint whose configuration cannot work is tried again after so long, where others judge meanwhile."""
CUT_SHORT_SHARE: Final = 0.5
"""A call that had less than this share of its usual time says nothing about the endpoint when it fails."""
CHECK_WEIGHT: Final = 9
"""An answered check tells as much as so many answered calls for other events: it comes right after the failure."""
_CHECK: Final = ChatRequest(
    messages=(ChatMessage("user", "Answer with the single word: ready"),), max_output_tokens=64
)


@dataclass(slots=True)
class Tally:
    """Calls to one endpoint, by whether they were answered."""

    answered: int = 0
    failed: int = 0


class GuardedChat:
    """An endpoint that is asked no more than it bears, and not at all while it is down.

    Args:
        chat: The endpoint.
        admission: Whose turn it is there, and what calls teach.
        breaker: The endpoint's breaker.
        turns: In which replies are handed on.
        call_seconds: Bound on one call.
        budget_seconds: Bound on all calls for one verdict, with the pauses between them.
        observer: Hears of calls.
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
        clock: Callable[[], float],
    ) -> None:
        self._chat = chat
        self.endpoint = chat.endpoint
        self.model = chat.model
        self.admission = admission
        self.breaker = breaker
        self._turns = turns
        self._call_seconds = call_seconds
        self._budget_seconds = budget_seconds
        self._observer = observer
        self._clock = clock
        self._checking = False
        self.tally = Tally()
        self.misconfigured: str | None = None
        """What is wrong with its configuration, as it says."""
        self.on_change: Callable[[], None] = _nothing
        """Called when it goes down or comes back."""

    def may_be_asked(self) -> bool:
        """Whether a call would be sent, at once or after a wait for its turn."""
        return self.breaker.may_try(self._clock())

    def is_free(self, request: ChatRequest) -> bool:
        """Whether a call would be sent at once, and nobody waits."""
        if self.admission.waiting or not self.may_be_asked():
            return False
        return self.admission.wait_seconds(self.admission.estimate(request)) <= 0

    async def ask(
        self, request: ChatRequest, attempt: Attempt, on_sent: Callable[[], None] | None = None
    ) -> ChatReply:
        """Ask once, when it is this call's turn.

        Args:
            request: What to ask.
            attempt: The verdict that it is for; the call is booked on it.
            on_sent: Called when it is sent.

        Raises:
            EndpointDownError: The endpoint is down; nothing was sent.
            JudgeUnavailableError: The endpoint cannot answer now.
            JudgeConfigurationError: No call can succeed as configured.
            EventError: The endpoint refuses this request, or its reply is cut or refused.
        """
        tokens = self.admission.estimate(request)
        marks = await self.admission.enter(tokens)
        attempt.calls += 1
        attempt.marks.setdefault(self.endpoint, (self.tally.answered, self.tally.failed))
        if on_sent is not None:
            on_sent()
        started = self._clock()
        try:
            reply = await self._send(request, attempt, marks, started)
            self.admission.replied(reply, marks, tokens, sent_at=started)
            self._answered(started, attempt)
        finally:
            seconds = self._clock() - started
            attempt.call_seconds += seconds
            attempt.spent_seconds += seconds
            self.admission.leave()
        # A call that was waiting for this one's slot is sent first: checking a reply takes longer.
        await self._turns.mine()
        return reply

    async def _send(self, request: ChatRequest, attempt: Attempt, marks: Marks, started: float) -> ChatReply:
        bound = min(self._call_seconds, max(0.001, self._budget_seconds - attempt.spent_seconds))
        try:
            reply = await self._bounded(request, bound)
        except JudgeUnavailableError as error:
            self._used(error.reply, attempt)
            cut_short = error.kind == "timeout" and bound < CUT_SHORT_SHARE * self._call_seconds
            self._failed(error, marks, sent_at=started, cut_short=cut_short)
            raise
        except JudgeConfigurationError as error:
            self._used(error.reply, attempt)
            self.take_down(str(error), MISCONFIGURED_SECONDS, misconfigured=True)
            raise
        except EventError as error:
            self._used(error.reply, attempt)
            self._answered(started, attempt)
            raise
        self._used(reply, attempt)
        return reply

    async def _bounded(self, request: ChatRequest, seconds: float) -> ChatReply:
        try:
            async with asyncio.timeout(seconds):
                return await self._chat.complete(request)
        except TimeoutError as error:
            raise JudgeUnavailableError(
                f"judge endpoint {self.endpoint} did not answer within {seconds:.3g} s", kind="timeout"
            ) from error

    async def check(self) -> bool:
        """Find out whether the endpoint answers anything at all, with a question that any judge can answer.

        Returns:
            Whether it answered. A failure is not counted, for one event's failures are what is being looked into.
        """
        if self._checking or self.admission.pausing or not self.may_be_asked():
            return False
        self._checking = True
        self.admission.enter_out_of_turn()
        started = self._clock()
        try:
            self._used(await self._bounded(_CHECK, self._call_seconds), None)
        except EventError as error:
            self._used(error.reply, None)  # it answers, if only to refuse
        except (JudgeUnavailableError, JudgeConfigurationError) as error:
            self._used(error.reply, None)
            return False
        finally:
            self._checking = False
        self.tally.answered += CHECK_WEIGHT - 1
        self._answered(started)
        return True

    def take_down(self, reason: str, pause_seconds: float, *, misconfigured: bool = False) -> None:
        """Open the breaker, whatever was counted; after the pause one call finds out."""
        if misconfigured:
            self.misconfigured = reason
        self._opened(self.breaker.trip(self._clock(), pause_seconds), reason)

    def _used(self, reply: ChatReply | None, attempt: Attempt | None) -> None:
        """Book what a call has used."""
        if reply is None:
            return
        if attempt is not None:
            attempt.used.append((self.endpoint, reply.usage))
        self._observer.used(self.endpoint, self.model, reply.usage, for_verdict=attempt is not None)

    def _answered(self, sent_at: float, attempt: Attempt | None = None) -> None:
        self.tally.answered += 1
        if attempt is not None:
            attempt.answers += 1
        self.admission.answered(sent_at=sent_at)
        if self.breaker.answered():
            self.misconfigured = None
            self._observer.down(self.endpoint, None)
            self.admission.came_back()
            self.on_change()

    def _failed(self, error: JudgeUnavailableError, marks: Marks, *, sent_at: float, cut_short: bool) -> None:
        down_seconds = self.admission.failed(error, marks, sent_at=sent_at, cut_short=cut_short)
        if cut_short:
            return
        now = self._clock()
        opened = False
        if error.kind != "rate_limited":
            self.tally.failed += 1
            opened = self.breaker.failed(now)
        if down_seconds is not None:
            opened = self.breaker.trip(now, down_seconds) or opened
        self._opened(opened, str(error))

    def _opened(self, opened: bool, reason: str) -> None:
        if self.breaker.is_open:
            self.admission.trouble = reason
        if opened:
            self._observer.down(self.endpoint, reason)
            self.admission.turn_away(reason)
            self.on_change()


def _nothing() -> None:
    """Nobody listens."""
