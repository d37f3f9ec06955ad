"""One endpoint: its client behind a limiter and a breaker, and the neutral event that tests it."""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from judge.chat import ChatReply, ChatRequest
from judge.endpoints.health import (
    OUTAGE_CALLS,
    PAID_TRIES,
    Breaker,
    CallHistory,
    Outcome,
    failed_share,
    share_of,
)
from judge.endpoints.limiter import Limiter
from judge.endpoints.options import Attempt, EndpointOptions, EndpointState, remedy_for
from judge.endpoints.payloads import is_about_another
from judge.errors import (
    EndpointDownError,
    EventError,
    JudgeConfigurationError,
    JudgeError,
    JudgeUnavailableError,
)
from judge.evaluate.evaluator import Evaluator
from schemas import Usage

if TYPE_CHECKING:
    from judge.endpoints.lane import BatchLane
    from judge.endpoints.pool import EndpointPool

MISCONFIGURED_SECONDS: Final = 300.0
"""Pause before a misconfigured endpoint is probed again."""
MOST_PROBES: Final = 8
"""Concurrent probes: a hanging one does not delay the next; beyond this number the oldest is cancelled."""
ALONE_EVERY: Final = 20
"""After so many probes one has its whole time limit alone: the others may be all that keeps it busy."""
OVERLOAD_SHARE: Final = 0.2
"""Share of failures above which time-outs mean overload; below it, single events cause them."""


class Endpoint:
    """Calls one endpoint within its limits while its breaker is closed; else neutral events probe it."""

    def __init__(self, options: EndpointOptions, pool: EndpointPool) -> None:
        self._patience = patience = pool.options.patience
        self.options = options
        self.name = options.chat.endpoint
        self.model = options.chat.model
        self._call_seconds = min(patience.timeout_seconds, options.call_seconds or patience.timeout_seconds)
        self._pool = pool
        self._clock = pool.clock
        self.histories: dict[str, CallHistory] = defaultdict(CallHistory)
        self.breaker = Breaker(patience.breaker_failures, patience.longest_breaker_seconds, pool.chance)
        self.limiter = Limiter(options, pool)
        self.evaluators: dict[str, Evaluator] = {}
        """Evaluators by metric name; they judge the neutral event."""
        self.lane: BatchLane | None = None
        self._state = EndpointState(self.name, up=True)
        self.misconfigured: str | None = None
        """Its configuration error, if it has never answered and refuses neutral events."""
        self._models: set[str] = set()
        self._kind: str | None = None
        """Error type that took it down; None if it does not answer."""
        self._metric = ""
        self._ever_answered = False
        self._refused_since: float | None = None
        self._neutral_calls: dict[tuple[str, str | None], asyncio.Task[JudgeError | None]] = {}
        self._probes: deque[asyncio.Task[None]] = deque()
        self._probed = 0
        """Probes since it was taken down."""
        self._alone = False
        """Whether the latest one is alone, because those before it were not answered."""
        self._timer: asyncio.TimerHandle | None = None

    @property
    def is_up(self) -> bool:
        return not self.breaker.is_open

    @property
    def refuses(self) -> bool:
        """Whether it has never answered and refused the last neutral event for its configuration."""
        return self._refused_since is not None and not self._ever_answered

    @property
    def state(self) -> EndpointState:
        return replace(self._state, failed_share=failed_share(self.histories.values(), self._clock()))

    async def ask(self, request: ChatRequest, attempt: Attempt) -> ChatReply:
        """Wait in the queue and send a call; EndpointDownError and DrainingError: nothing was sent.

        A first reply that quotes none of the sent text is asked for again, on a new connection.
        """
        if self.breaker.is_open:
            raise self._down()
        tokens = self.limiter.estimate(request)
        await self.limiter.enter(tokens, begun=attempt.round_calls > 0)
        sent_at = self._clock()
        if not attempt.round_calls:
            attempt.round_sent_at = sent_at
        attempt.calls += 1
        attempt.round_calls += 1
        try:
            reply = await self._call(request, attempt, tokens)
        except JudgeUnavailableError as error:
            # Beyond twice the limit this process was stalled, which is no failure.
            attempt.stalled = self._clock() - sent_at > 2 * self._call_seconds
            if not attempt.stalled:
                # A repeated time-out may be the event's own.
                is_repeated = error.kind == "timeout" and self.name in attempt.outcomes
                self._unanswered(error, sent_at, counts=not is_repeated)
            raise
        finally:
            attempt.round_seconds += self._clock() - sent_at
            self.limiter.leave()
        self._answered_by(reply.model)
        # A repair turn (a third message) repeats the first reply, so only that one is compared.
        is_first_turn = len(request.messages) <= 2 and not request.fresh
        if is_first_turn and is_about_another(request.messages[-1].content, reply.text):
            return await self.ask(replace(request, fresh=True), attempt)
        return reply

    async def is_fault_of_event(self, metric: str, event: Outcome, kind: str, *, paid: bool) -> bool:
        """Return whether an event itself causes its failures; if the endpoint does, it is marked down."""
        history = self.histories[metric]
        while self.is_up and self._clock() >= self.limiter.paused_until:
            decision = history.decide(event, paid=paid, now=self._clock())
            if decision != "neutral":
                return decision == "event"
            event.neutral_calls += 1
            trouble = await self._neutral_trouble(metric, kind)
            if trouble is None or not self.is_up:
                continue
            if isinstance(trouble, JudgeUnavailableError) and trouble.kind == "rate_limited":
                return False
            since = history.since(event.since, event)
            never_worked = isinstance(trouble, JudgeConfigurationError) and not self._ever_answered
            needed = 1 if never_worked or isinstance(trouble, JudgeUnavailableError) else OUTAGE_CALLS
            failed = sum(one.is_neutral and one.state == "failed" for one in since)
            if failed < needed or any(one.state == "judged" for one in since):
                continue
            is_silent = isinstance(trouble, JudgeUnavailableError)
            others = [] if is_silent else [other for other in self.evaluators if other != metric]
            if others and await self._any_trouble(others, kind) is None:
                history.forget_neutral_failures()
                return event.failures >= PAID_TRIES  # only this metric cannot be judged here
            why = f"it fails every event ({kind}), and a neutral one: {trouble}"
            reason = why if isinstance(trouble, EventError) else str(trouble)
            self._take_down(reason, trouble, metric=metric, kind=kind)
        return False

    def stop(self) -> None:
        self.limiter.stop()
        if self._timer is not None:
            self._timer.cancel()
        for task in (*self._probes, *self._neutral_calls.values()):
            task.cancel()

    async def _call(self, request: ChatRequest, attempt: Attempt | None, tokens: float) -> ChatReply:
        """Send a call, a neutral event's without `attempt`, and record the answer."""
        try:
            async with asyncio.timeout(self._call_seconds):
                reply = await self.options.chat.complete(request)
        except TimeoutError as error:
            told = f"judge endpoint {self.name} did not answer within {self._call_seconds:.3g} s"
            raise JudgeUnavailableError(told, kind="timeout") from error
        except JudgeError as error:
            self._used(error.reply, attempt)
            if isinstance(error, EventError):
                self._answered(None)
            raise
        self._used(reply, attempt)
        self._answered(reply, tokens)
        return reply

    def _used(self, reply: ChatReply | None, attempt: Attempt | None) -> None:
        if reply is None:
            return
        if attempt is not None:
            attempt.used.append((self.name, reply.usage))
            attempt.round_used += reply.usage != Usage()
        self._pool.observer.used(self.name, self.model, reply.usage, for_verdict=attempt is not None)

    def _answered(self, reply: ChatReply | None, tokens: float = 0.0) -> None:
        self._ever_answered = True
        self.breaker.answered()
        self.limiter.answered(reply, tokens)

    def _unanswered(self, error: JudgeUnavailableError, sent_at: float, *, counts: bool) -> None:
        now = self._clock()
        if error.kind == "rate_limited" or error.retry_after_seconds:
            # Of the refusals of one pause only the first counts.
            counts = self.limiter.refused(error, sent_at=sent_at)
        elif error.kind == "overloaded" or (error.kind == "timeout" and self._fails_many(sent_at)):
            self.limiter.concurrency.overloaded(now, sent_at=sent_at)
        pause_seconds = self.limiter.paused_until - now
        if (counts and self.breaker.failed(now)) or pause_seconds > self._patience.timeout_seconds:
            self._take_down(str(error), error, pause_seconds=pause_seconds)

    def _fails_many(self, moment: float) -> bool:
        since = (one for history in self.histories.values() for one in history.since(moment))
        return share_of(since) > OVERLOAD_SHARE

    def _answered_by(self, model: str) -> None:
        if model in self._models or len(self._models) >= 20:
            return
        self._models.add(model)
        before, changed_at = self._state.model, None
        if before:
            changed_at = datetime.now(UTC)
            self._pool.observer.model_changed(self.name, before, model)
        self._state = replace(self._state, model=model, earlier_model=before, model_changed_at=changed_at)

    def _down(self) -> EndpointDownError:
        return EndpointDownError(self._state.reason or f"judge endpoint {self.name} is down")

    def _take_down(
        self,
        reason: str,
        error: JudgeError,
        *,
        metric: str = "",
        kind: str | None = None,
        pause_seconds: float = 0.0,
    ) -> None:
        if not self.breaker.open(self._clock(), pause_seconds):
            return
        self._metric, self._kind = metric, kind
        self._probed, self._alone = 0, False
        now, remedy = datetime.now(UTC), remedy_for(error)
        self._state = replace(self._state, up=False, reason=reason, remedy=remedy, since=now)
        self._refused_since = self._clock() if isinstance(error, JudgeConfigurationError) else None
        self._pool.observer.down(self.name, reason)
        self.limiter.reject_waiting(self._down)
        self._pool.changed()
        if self.evaluators:
            self._probe_later()

    def _came_back(self) -> None:
        self.breaker.close()
        self.misconfigured = self._refused_since = None
        self._state = replace(self._state, up=True, reason="", remedy="", since=None)
        for history in self.histories.values():
            history.begin(self._clock())
        self._pool.observer.down(self.name, None)
        self.limiter.concurrency.came_back(self._clock(), alone=self._alone)
        self.limiter.admit()
        self._pool.changed()

    def _probe_later(self) -> None:
        seconds = max(self.breaker.next_try_at - self._clock(), 0.0) + 0.001  # timers may be early
        self._timer = asyncio.get_running_loop().call_later(seconds, self._start_probe)

    def _start_probe(self) -> None:
        if not self.breaker.is_open:
            return
        if self._clock() >= self.breaker.next_try_at:
            self.breaker.probed(self._clock())
            self._probed += 1
            while self._probes and self._probes[0].done():
                self._probes.popleft()
            self._alone = bool(self._probes) and self._probed % ALONE_EVERY == 0
            while len(self._probes) >= (1 if self._alone else MOST_PROBES):
                self._probes.popleft().cancel()
            self._probes.append(asyncio.create_task(self._probe()))
            if self._alone:
                self.breaker.open(self._clock(), self._call_seconds)
        self._probe_later()

    async def _probe(self) -> None:
        first = self._metric or next(iter(self.evaluators))
        trouble = await self._any_trouble((first, *self.evaluators), self._kind)
        if not self.breaker.is_open:
            return
        if trouble is None:
            self._came_back()
            return
        now = self._clock()
        if not isinstance(trouble, JudgeConfigurationError):
            self._refused_since = None
        elif self._refused_since is None:
            self._refused_since = now
        elif now - self._refused_since >= self._patience.confirm_seconds and not self._ever_answered:
            self.misconfigured = str(trouble)
            self.breaker.open(now, MISCONFIGURED_SECONDS)
            self._pool.changed()
        if self._kind is None or not isinstance(trouble, EventError):
            self._state = replace(self._state, reason=str(trouble), remedy=remedy_for(trouble))

    async def _any_trouble(self, metrics: Iterable[str], kind: str | None) -> JudgeError | None:
        """Return the first error if all metrics fail the neutral event in the same way, else None."""
        found: JudgeError | None = None
        for metric in dict.fromkeys(metrics):
            trouble = await self._judge_neutral(metric, kind)
            if trouble is None:
                return None
            found = found or trouble
            if isinstance(trouble, JudgeUnavailableError):
                break  # the other metrics would fail in the same way
        return found

    async def _neutral_trouble(self, metric: str, kind: str | None) -> JudgeError | None:
        """Return the neutral event's error, None if it differs from the events'; callers share a call."""
        task = self._neutral_calls.get((metric, kind))
        if task is None or task.done():
            task = self._neutral_calls[metric, kind] = asyncio.create_task(self._recorded(metric, kind))
        return await asyncio.shield(task)

    async def _recorded(self, metric: str, kind: str | None) -> JudgeError | None:
        sent_at = self._clock()
        trouble = await self._judge_neutral(metric, kind)
        is_pause = isinstance(trouble, JudgeUnavailableError) and trouble.kind == "rate_limited"
        if self.is_up and not is_pause:
            self.histories[metric].neutral(sent_at, is_failure=trouble is not None)
        return trouble

    async def _judge_neutral(self, metric: str, kind: str | None) -> JudgeError | None:
        try:
            await self.evaluators[metric].try_neutral(self._ask_neutral)
        except EventError as error:
            return error if error.error_type == kind else None
        except (JudgeUnavailableError, JudgeConfigurationError) as error:
            return error
        return None

    async def _ask_neutral(self, request: ChatRequest) -> ChatReply:
        self.limiter.sent_without_slot()
        sent_at = self._clock()
        try:
            return await self._call(request, None, 0.0)
        except JudgeUnavailableError as error:
            if error.kind == "rate_limited":
                self.limiter.refused(error, sent_at=sent_at)
            raise
