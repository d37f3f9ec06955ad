"""One endpoint of the pool: a call waits for its turn, is bounded in time, and how it ends is counted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

from judge.chat import ChatClient, ChatReply, ChatRequest
from judge.errors import EventError, JudgeConfigurationError, JudgeUnavailableError
from judge.pool.attempt import Attempt
from judge.pool.breaker import Breaker
from judge.pool.limits.admission import Admission
from judge.pool.limits.waiting import Turns
from judge.pool.neutral_probe import NeutralProbe
from judge.pool.observer import PoolObserver
from judge.pool.recovery import Recovery
from judge.pool.suspicion import Refusals, Streak, Tally
from schemas import Failed

MISCONFIGURED_SECONDS: Final = 300.0
"""An endpoint whose configuration cannot work is retried after so long, where others judge meanwhile."""
CONFIRMATIONS: Final = 2
"""Refused neutral events after which an endpoint that never answered counts as misconfigured."""
CUT_SHORT_SHARE: Final = 0.5
"""A call that had less than this share of its usual time says nothing about the endpoint when it fails."""
STALLED: Final = 2
"""A time-out after this multiple of its limit means that this process was stalled."""
PROBE_WEIGHT: Final = 9
"""An answered probe counts as this many answered calls for other events: it comes right after the failure."""
_CONFIGURATION: Final = frozenset({"configuration"})


class GuardedChat:
    """An endpoint within its limits, which gets no event while it is down.

    While it is down, neutral events probe it: single events say nothing about the others.

    Args:
        chat: The endpoint.
        admission: Whose turn it is there, and what calls teach.
        breaker: The endpoint's breaker.
        turns: In which replies are handed on.
        call_seconds: Time limit of one call.
        budget_seconds: Bound on all calls for one verdict, with the pauses between them.
        confirm_seconds: For so long one that never answered refuses neutral events before it is abandoned.
        observer: Is notified of calls.
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
        confirm_seconds: float,
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
        self._confirm_seconds = confirm_seconds
        self._observer = observer
        self._clock = clock
        self.tally = Tally()
        self.refusals = Refusals()
        self.probe = NeutralProbe(self._ask_neutral)
        self._streak = Streak()
        self._kinds: frozenset[str] = frozenset()
        """How verdicts fail for which it is down; empty where it is down because it does not answer."""
        self._metric = ""  # tried first while it is down
        self._ever_answered = False
        self._refused_since = 0.0
        self._refusals = 0
        self._recovery = Recovery(breaker, self._find_out, clock)
        self.misconfigured: str | None = None
        """What is wrong with its configuration: it refuses everything, and has never answered."""
        self.on_change: Callable[[], None] = lambda: None
        """Called when it goes down or comes back."""

    def may_be_asked(self) -> bool:
        """Whether a call would be sent, at once or after a wait for its turn."""
        return not self.breaker.is_open

    @property
    def refuses(self) -> bool:
        """Whether it has never answered and last refused a neutral event for its configuration."""
        return bool(self._refusals) and not self._ever_answered

    def is_free(self, request: ChatRequest) -> bool:
        """Whether a call would be sent at once, and none waits."""
        waiting = self.admission.waiting
        if waiting or waiting.closed or not self.may_be_asked():
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
            DrainingError: Waiting calls were cancelled; nothing was sent.
            JudgeUnavailableError: The endpoint cannot answer now.
            JudgeConfigurationError: It refuses the call for a reason that lies in the configuration.
            EventError: The endpoint refuses this request, or its reply is cut or refused.
        """
        late, tokens = attempt.timed_out, self.admission.estimate(request)
        marks = await self.admission.enter(tokens, late=late, begun=attempt.begun)
        attempt.calls += 1
        if on_sent is not None:
            on_sent()
        started = self._clock()
        bound = min(self._call_seconds, max(0.001, self._budget_seconds - attempt.spent_seconds))
        ended, mark = self.admission.ended(), (self.tally.answered, self.tally.failed)
        try:
            async with self._bounded(bound):
                reply = await self._chat.complete(request)
            self._used(reply, attempt)
            self.admission.replied(reply, marks, tokens, sent_at=started)
            self._ever_answered = True
            self._answered(started, first=not attempt.refusals)
        except JudgeUnavailableError as error:
            self._used(error.reply, attempt)
            attempt.unanswered, attempt.failed_mark = True, mark
            cut_short = bound < CUT_SHORT_SHARE * self._call_seconds
            stalled = self._clock() - started > STALLED * bound
            attempt.cut_short = error.kind == "timeout" and (cut_short or stalled)
            down_seconds = self.admission.failed(
                error, marks, sent_at=started, ended=ended, late=late, cut_short=attempt.cut_short
            )
            self._failed(error, attempt, down_seconds)
            raise
        except (JudgeConfigurationError, EventError) as error:
            self._used(error.reply, attempt)
            if isinstance(error, EventError):
                self._answered(started, first=not attempt.refusals)
            elif not attempt.refusals:
                self.refusals.count(refused=True)
            raise
        finally:
            seconds = self._clock() - started
            attempt.call_seconds += seconds
            attempt.spent_seconds += seconds
            self.admission.leave(late=late)
        # A call that was waiting for this one's slot is sent first: checking a reply takes longer.
        await self._turns.mine()
        return reply

    @asynccontextmanager
    async def _bounded(self, seconds: float) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(seconds):
                yield
        except TimeoutError as error:
            raise JudgeUnavailableError(
                f"judge endpoint {self.endpoint} did not answer within {seconds:.3g} s", kind="timeout"
            ) from error

    async def _ask_neutral(self, request: ChatRequest) -> ChatReply:
        """Ask for the neutral event, out of turn and in no slot."""
        if self.admission.pausing and not self.breaker.is_open:
            raise JudgeUnavailableError(
                f"judge endpoint {self.endpoint} asked for a pause", kind="rate_limited"
            )
        self.admission.enter_out_of_turn()
        started = self._clock()
        try:
            async with self._bounded(self._call_seconds):
                reply = await self._chat.complete(request)
        except JudgeUnavailableError as error:
            self._used(error.reply, None)
            if not self.breaker.is_open and error.kind != "rate_limited":
                self._opened(self.breaker.failed(self._clock()), str(error))
            raise
        except JudgeConfigurationError as error:
            self._used(error.reply, None)
            self.refusals.count(refused=True)
            raise
        except EventError as error:
            self._used(error.reply, None)
            self._probe_answered(started)
            raise
        self._used(reply, None)
        self._probe_answered(started)
        return reply

    def judged(self) -> None:
        """A verdict was given here."""
        self._streak.judged()

    async def fails_all(self, metric: str, failed: Failed) -> bool:
        """Say whether a failed verdict is not to be believed, because the endpoint fails all.

        After several in a row a neutral event is tried: where it fails, too, the endpoint is down.
        """
        doubted = self._streak.failed(failed.error_type)
        if self._kinds and self.breaker.is_open:
            return True
        if not doubted:
            self._streak.believed()
            return False
        kinds = self._streak.kinds
        # Twice: one that fails nearly all verdicts judges a neutral event occasionally.
        probe = self.probe.trouble_for_all
        trouble = await probe(metric, kinds) or await probe(metric, kinds)
        if self._kinds and self.breaker.is_open:
            return True  # found out meanwhile, for another verdict
        if trouble is None:
            self._streak.excused()
            return False
        if isinstance(trouble, JudgeUnavailableError):
            return True  # its failure was counted
        why = f"it fails every verdict ({', '.join(sorted(kinds))}), and a neutral one"
        before = f"{self._streak.published} results were published before that"
        self.take_down(f"{why}; {before}: {trouble}", metric, kinds)
        return True

    async def refuses_all(self, metric: str, error: JudgeConfigurationError) -> bool:
        """Say whether a refusal that concerns the configuration affects all events.

        Then the endpoint is down. If a neutral event is judged, only this event is refused.
        """
        if self.breaker.is_open:
            return True
        trouble = await self.probe.trouble_for_all(metric, ())
        if trouble is None:
            return False
        if isinstance(trouble, JudgeConfigurationError) and not self.breaker.is_open:
            self.take_down(str(error), metric, _CONFIGURATION)
            self._refusals = 0
            self._refused(trouble)
        return True

    def take_down(self, reason: str, metric: str, kinds: frozenset[str]) -> None:
        """Ask for no event until a neutral one is judged."""
        self._metric, self._kinds = metric, kinds
        self._opened(self.breaker.open(self._clock()), reason)

    def _refused(self, error: JudgeConfigurationError) -> None:
        """A neutral event was refused because of the configuration."""
        now = self._clock()
        self._refused_since = self._refused_since if self._refusals else now
        self._refusals += 1
        confirmed = self._refusals >= CONFIRMATIONS and now - self._refused_since >= self._confirm_seconds
        if confirmed and not self._ever_answered:
            self.misconfigured = str(error)
            self.breaker.trip(now, MISCONFIGURED_SECONDS)
            self.on_change()

    def _used(self, reply: ChatReply | None, attempt: Attempt | None) -> None:
        """Book what a call has used."""
        if reply is None:
            return
        if attempt is not None:
            attempt.used.append((self.endpoint, reply.usage))
        self._observer.used(self.endpoint, self.model, reply.usage, for_verdict=attempt is not None)

    def _answered(self, sent_at: float, *, first: bool) -> None:
        self.tally.answered += 1
        if first:
            self.refusals.count(refused=False)
        self.admission.answered(sent_at=sent_at)
        if self._kinds:
            return  # it did answer all the time; a verdict is what is missing
        if self.breaker.answered():
            self._came_back()

    def _probe_answered(self, sent_at: float) -> None:
        self.tally.answered += PROBE_WEIGHT
        self.refusals.count(refused=False)
        self.admission.answered(sent_at=sent_at)
        if not self.breaker.is_open:
            self.breaker.answered()

    def _failed(self, error: JudgeUnavailableError, attempt: Attempt, down_seconds: float | None) -> None:
        if attempt.cut_short:
            return
        now, opened = self._clock(), False
        # What timed out before may do so forever, whatever the endpoint does for others.
        attempt.counted = error.kind != "rate_limited" and not (attempt.timed_out and error.kind == "timeout")
        if attempt.counted:
            self.tally.failed += 1
            # Those that were under way when it went down tell nothing new, and put no probe off.
            opened = not self.breaker.is_open and self.breaker.failed(now)
        if down_seconds is not None:
            opened = self.breaker.trip(now, down_seconds) or opened
        attempt.timed_out = attempt.timed_out or error.kind == "timeout"
        self._opened(opened, str(error))

    def _opened(self, opened: bool, reason: str) -> None:
        if self.breaker.is_open:
            self.admission.trouble = reason
        if opened:
            self._observer.down(self.endpoint, reason)
            self.admission.waiting.turn_away(reason)
            self.on_change()
            if self.probe.judges:
                self._recovery.arm()

    def _came_back(self) -> None:
        self._streak = Streak(relapse=bool(self._kinds))
        self._kinds = frozenset()
        self.misconfigured = None
        self._recovery.disarm()
        self._observer.down(self.endpoint, None)
        self.admission.came_back()
        self.on_change()

    async def _find_out(self) -> None:
        """Have a neutral event judged while the endpoint is down."""
        metric = self._metric or next(iter(self.probe.judges))
        trouble = await self.probe.trouble_for_all(metric, self._kinds, shared=False)
        if not self.breaker.is_open:
            return
        if trouble is None:
            self.breaker.answered()
            self._came_back()
            return
        self.breaker.failed(self._clock())
        if not self._kinds:
            self.admission.trouble = str(trouble)
        if isinstance(trouble, JudgeConfigurationError):
            self._refused(trouble)
        else:
            self._refusals = 0
        self._recovery.arm()

    def stop(self) -> None:
        """Start no more calls of its own accord."""
        self.admission.waiting.stop()
        self.probe.stop()
        self._recovery.stop()
