"""One endpoint of the pool: queue, time limit, and accounting of each call."""

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
"""Pause before a misconfigured endpoint is probed again."""
CONFIRMATIONS: Final = 2
"""Consecutive refused neutral events before an endpoint that never answered counts as misconfigured."""
CUT_SHORT_SHARE: Final = 0.5
"""A time-out counts against the endpoint only if the call had at least this share of its usual time."""
STALLED: Final = 2
"""If a time-out comes after this multiple of its limit, this process was stalled."""
PROBE_WEIGHT: Final = 9
"""Weight of an answered probe in the tally: it follows the failure directly."""
_CONFIGURATION: Final = frozenset({"configuration"})


class GuardedChat:
    """Calls one endpoint within its limits, and only while it is up.

    While it is down, neutral events probe it, because a failing event may be at fault itself.

    Args:
        chat: The endpoint.
        admission: Queue and limits of the endpoint.
        breaker: The endpoint's breaker.
        turns: Order in which replies are returned.
        call_seconds: Time limit of one call.
        budget_seconds: Limit on all calls for one verdict, pauses included.
        confirm_seconds: How long it must refuse neutral events before it counts as misconfigured.
        observer: Notified of calls.
        clock: Monotonic clock, in seconds.
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
        """Error types that took it down; empty if it does not answer."""
        self._metric = ""  # probed first while it is down
        self._ever_answered = False
        self._refused_since = 0.0
        self._refusals = 0
        self._recovery = Recovery(breaker, self._find_out, clock)
        self.misconfigured: str | None = None
        """Its last configuration error, if it has never answered and refuses neutral events."""
        self.on_change: Callable[[], None] = lambda: None
        """Called when it goes down or recovers."""

    def may_be_asked(self) -> bool:
        """Return whether a call would be sent now or queued."""
        return not self.breaker.is_open

    @property
    def refuses(self) -> bool:
        """Whether it has never answered and refused the last neutral event for its configuration."""
        return bool(self._refusals) and not self._ever_answered

    def is_free(self, request: ChatRequest) -> bool:
        """Return whether a call would be sent at once and the queue is empty."""
        waiting = self.admission.waiting
        if waiting or waiting.closed or not self.may_be_asked():
            return False
        return self.admission.wait_seconds(self.admission.estimate(request)) <= 0

    async def ask(
        self, request: ChatRequest, attempt: Attempt, on_sent: Callable[[], None] | None = None
    ) -> ChatReply:
        """Wait in the queue, then send one call.

        Args:
            request: What to ask.
            attempt: The verdict's accounts; the call is added to them.
            on_sent: Called when it is sent.

        Raises:
            EndpointDownError: The endpoint is down; nothing was sent.
            DrainingError: Waiting calls were cancelled; nothing was sent.
            JudgeUnavailableError: The endpoint cannot answer now.
            JudgeConfigurationError: It refuses the call because of the configuration.
            EventError: The endpoint refuses this request, or its reply is truncated or refused.
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
        # Send the call that waits for this slot first; checking a reply takes longer.
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
        """Send a neutral event's request without queueing and without a slot."""
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
        """Record that the endpoint gave a verdict."""
        self._streak.judged()

    async def fails_all(self, metric: str, failed: Failed) -> bool:
        """Return whether the endpoint fails every verdict, so that this failure is not the event's own.

        After several consecutive failures a neutral event is tried; if that fails too, the endpoint is down.
        """
        doubted = self._streak.failed(failed.error_type)
        if self._kinds and self.breaker.is_open:
            return True
        if not doubted:
            self._streak.believed()
            return False
        kinds = self._streak.kinds
        # Twice, because an endpoint that fails nearly all verdicts still judges some neutral events.
        probe = self.probe.trouble_for_all
        trouble = await probe(metric, kinds) or await probe(metric, kinds)
        if self._kinds and self.breaker.is_open:
            return True  # another verdict took it down meanwhile
        if trouble is None:
            self._streak.excused()
            return False
        if isinstance(trouble, JudgeUnavailableError):
            return True  # already counted
        why = f"it fails every verdict ({', '.join(sorted(kinds))}), and a neutral one"
        before = f"{self._streak.published} results were published before that"
        self.take_down(f"{why}; {before}: {trouble}", metric, kinds)
        return True

    async def refuses_all(self, metric: str, error: JudgeConfigurationError) -> bool:
        """Return whether a configuration refusal affects all events, and if so mark the endpoint down.

        A neutral event decides: if it is judged, the refusal affects only this event.
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
        """Mark the endpoint down until a neutral event is judged."""
        self._metric, self._kinds = metric, kinds
        self._opened(self.breaker.open(self._clock()), reason)

    def _refused(self, error: JudgeConfigurationError) -> None:
        """Record a neutral event refused because of the configuration."""
        now = self._clock()
        self._refused_since = self._refused_since if self._refusals else now
        self._refusals += 1
        confirmed = self._refusals >= CONFIRMATIONS and now - self._refused_since >= self._confirm_seconds
        if confirmed and not self._ever_answered:
            self.misconfigured = str(error)
            self.breaker.trip(now, MISCONFIGURED_SECONDS)
            self.on_change()

    def _used(self, reply: ChatReply | None, attempt: Attempt | None) -> None:
        """Record the tokens of a call."""
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
            return  # it answers, but gives no valid verdict
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
        # A repeated time-out may be the event's own and is not counted.
        attempt.counted = error.kind != "rate_limited" and not (attempt.timed_out and error.kind == "timeout")
        if attempt.counted:
            self.tally.failed += 1
            # Calls in flight when it went down are no new evidence and must not delay a probe.
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
        """Probe the endpoint with a neutral event while it is down."""
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
        """Cancel timers and probes."""
        self.admission.waiting.stop()
        self.probe.stop()
        self._recovery.stop()
