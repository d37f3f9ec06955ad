"""One endpoint: its client behind a limiter and a breaker, and the neutral event that tests it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Final

from judge.chat import ChatClient, ChatReply, ChatRequest
from judge.endpoints.health import (
    LATEST,
    OUTAGE_CALLS,
    PAID_TRIES,
    UNWELL_SHARE,
    Breaker,
    History,
    Trial,
    share_of,
)
from judge.endpoints.limiter import Limiter, SharedSlots
from judge.endpoints.reply import is_about_another
from judge.errors import (
    EndpointDownError,
    EventError,
    JudgeConfigurationError,
    JudgeError,
    JudgeUnavailableError,
    UnavailableKind,
)
from judge.verdict.evaluator import Judge
from schemas import Usage

MISCONFIGURED_SECONDS: Final = 300.0
"""Pause before a misconfigured endpoint is probed again."""
MOST_PROBES: Final = 8
"""Concurrent probes: a hanging one does not delay the next; beyond this number the oldest is cancelled."""
FEWEST_EVENTS: Final = 20
"""Decided events from which on a share of failures is stated."""
RECENT_SECONDS: Final = 900.0
"""Older events are no part of that share."""
MOST_MODELS: Final = 20
"""Names of models that are remembered for each endpoint."""
FIRST_TURNS: Final = 2
"""Messages of a request that is no repair turn."""
OVERLOAD_SHARE: Final = 0.2
"""Share of failures above which time-outs mean overload; below it, single events cause them."""
STALLED: Final = 2
"""If a call ends after this multiple of its limit, this process was stalled, which is no failure."""
CONFIRM_SECONDS: Final = 10.0
"""Long enough for a gateway whose backend is still starting."""


@dataclass(frozen=True, slots=True)
class EndpointOptions:
    """One endpoint with its limits and parameters.

    Args:
        chat: The endpoint.
        max_in_flight: Limit of concurrent calls, at least 1; None: only the pool's limit.
        requests_per_minute: Its limit, if its headers report none or one that is too high; above 0.
        tokens_per_minute: Likewise, input and output together.
        call_seconds: Time limit of one call, above 0; None: the pool's.
        parameters: Sampling parameters as the endpoint names them (temperature, seed, ...).
        context_tokens: The model's context window; None: unknown, the endpoint refuses texts that are too
            long.
        borrowed: Whether the caller closes the chat.
    """

    chat: ChatClient
    max_in_flight: int | None = None
    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None
    call_seconds: float | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    context_tokens: int | None = None
    borrowed: bool = False


@dataclass(frozen=True, slots=True)
class Patience:
    """Retries, time limit and breaker; pass it in `JudgingOptions` to change them.

    Args:
        timeout_seconds: Time limit of one call, unless the endpoint has its own.
        first_wait_seconds: Upper limit of the first pause after a failure; it doubles with each further one.
        longest_wait_seconds: Upper limit of the doubling pauses.
        breaker_failures: Consecutive failures that open the breaker.
        longest_breaker_seconds: Longest pause between two probes of an endpoint that is down.
        confirm_seconds: Time during which an endpoint that never answered must refuse neutral events because
            of the configuration before it is abandoned.
    """

    timeout_seconds: float = 30.0
    first_wait_seconds: float = 0.5
    longest_wait_seconds: float = 30.0
    breaker_failures: int = 10
    longest_breaker_seconds: float = 5.0
    confirm_seconds: float = CONFIRM_SECONDS


@dataclass(frozen=True, slots=True)
class EndpointState:
    """What there is to say of one endpoint, for status and pages.

    Args:
        name: The endpoint's name.
        up: Whether it is asked.
        reason: Why it is down; empty while it is up.
        remedy: What to do about it; empty while it is up.
        since: When it went down; None while it is up.
        failed_share: Share of the latest events that it failed at the first try and judged later, 0 to 1.
        model: The model that answered last; empty before the first answer.
        earlier_model: The model that answered before that one; empty if it never changed.
        model_changed_at: When it changed; None if it never did.
    """

    name: str
    up: bool
    reason: str = ""
    remedy: str = ""
    since: datetime | None = None
    failed_share: float = 0.0
    model: str = ""
    earlier_model: str = ""
    model_changed_at: datetime | None = None

    @property
    def is_unwell(self) -> bool:
        """Whether it is up and fails more than `UNWELL_SHARE` of its events at the first try."""
        return self.up and self.failed_share > UNWELL_SHARE


class EndpointObserver:
    """Receives the events of endpoints, for metrics and logs; override what you need."""

    def in_flight(self, endpoint: str, calls: int) -> None:
        """The number of calls in flight at an endpoint has changed."""

    def asked(self, endpoint: str, model: str, outcome: str, seconds: float) -> None:
        """An endpoint was asked for a verdict.

        Args:
            endpoint: The endpoint's name.
            model: The model that was asked.
            outcome: A result's status or error_type, or the kind of the endpoint's failure.
            seconds: Time in calls, waits excluded.
        """

    def used(self, endpoint: str, model: str, usage: Usage, *, for_verdict: bool) -> None:
        """A call used tokens, failed ones included; `for_verdict`: a result will carry them."""

    def down(self, endpoint: str, reason: str | None) -> None:
        """An endpoint's breaker opened, for this reason, or closed (None)."""

    def failed_event(self, endpoint: str, tries: int) -> None:
        """An event was judged after an endpoint had failed it this many times."""

    def model_changed(self, endpoint: str, before: str, after: str) -> None:
        """A model answered that had not answered at this endpoint before, after another one."""

    def cache_failed(self) -> None:
        """Reading a verdict from the cache or writing it failed."""


@dataclass(slots=True)
class Attempt:
    """Calls, tokens and failures of one task; created per task and passed to every call."""

    calls: int = 0
    """Calls sent, failed ones included."""
    used: list[tuple[str, Usage]] = field(default_factory=list)
    """Endpoint and reported tokens of each call."""
    trials: dict[str, Trial] = field(default_factory=dict)
    """Failures by endpoint."""
    avoided: set[str] = field(default_factory=set)
    """Endpoints to ask only if no other is available."""
    pauses: int = 0
    round_calls: int = 0
    """Calls of the current round: one run of the evaluator at one endpoint."""
    round_seconds: float = 0.0
    round_used: int = 0
    """Calls of the current round that used tokens."""
    round_sent_at: float = 0.0
    """When the first call of the current round was sent."""
    stalled: bool = False
    """Whether the last call ended late because this process was stopped."""

    def begin_round(self) -> None:
        """Reset the counts of the current round."""
        self.round_calls, self.round_seconds, self.round_used, self.stalled = 0, 0.0, 0, False


class Endpoint:
    """Calls one endpoint within its limits, and only while its breaker is closed.

    While it is open, neutral events probe the endpoint, because a failing event may be at fault itself.

    Args:
        options: The endpoint.
        patience: Time limit and breaker.
        slots: Slots shared by all endpoints.
        observer: Notified of calls and outages.
        chance: Returns uniform random numbers from 0 to 1.
        clock: Monotonic clock, in seconds.
        on_change: Called when it goes down or recovers.
    """

    def __init__(
        self,
        options: EndpointOptions,
        patience: Patience,
        slots: SharedSlots,
        *,
        observer: EndpointObserver,
        chance: Callable[[], float],
        clock: Callable[[], float],
        on_change: Callable[[], None],
    ) -> None:
        self._chat = options.chat
        self.name = options.chat.endpoint
        self.model = options.chat.model
        self._call_seconds = min(patience.timeout_seconds, options.call_seconds or patience.timeout_seconds)
        self._patience = patience
        self._observer = observer
        self._clock = clock
        self._on_change = on_change
        self.histories: dict[str, History] = {}
        """The latest outcomes by metric."""
        self.breaker = Breaker(
            failures=patience.breaker_failures,
            longest_pause_seconds=patience.longest_breaker_seconds,
            chance=chance,
        )
        self.limiter = Limiter(
            slots,
            max_in_flight=min(slots.most, options.max_in_flight or slots.most),
            requests_per_minute=options.requests_per_minute,
            tokens_per_minute=options.tokens_per_minute,
            chance=chance,
            clock=clock,
            on_change=lambda calls: observer.in_flight(self.name, calls),
        )
        self.judges: dict[str, Judge] = {}
        """Evaluators by metric name; they judge the neutral event."""
        self.trouble: str | None = None
        """Why it is down; None while it is up."""
        self.misconfigured: str | None = None
        """Its configuration error, if it has never answered and refuses neutral events."""
        self._remedy = ""
        self._down_since: datetime | None = None
        self._models: list[str] = []
        self._model_changed_at: datetime | None = None
        self._kind: str | None = None
        """Error type that took it down; None if it does not answer."""
        self._metric = ""
        self._ever_answered = False
        self._refused_since: float | None = None
        self._neutral_calls: dict[tuple[str, str | None], asyncio.Task[JudgeError | None]] = {}
        self._probes: deque[asyncio.Task[None]] = deque()
        self._timer: asyncio.TimerHandle | None = None

    @property
    def is_up(self) -> bool:
        """Whether a call would be sent now or queued."""
        return not self.breaker.is_open

    @property
    def refuses(self) -> bool:
        """Whether it has never answered and refused the last neutral event for its configuration."""
        return self._refused_since is not None and not self._ever_answered

    @property
    def state(self) -> EndpointState:
        """Whether it is up, and if not, why, since when, and what to do."""
        return EndpointState(
            self.name,
            up=self.is_up,
            reason=self.trouble or "",
            remedy=self._remedy,
            since=self._down_since,
            failed_share=self._failed_share(),
            model=self._models[-1] if self._models else "",
            earlier_model=self._models[-2] if len(self._models) > 1 else "",
            model_changed_at=self._model_changed_at,
        )

    async def ask(self, request: ChatRequest, attempt: Attempt) -> ChatReply:
        """Wait in the queue, then send one call.

        Raises:
            EndpointDownError: The endpoint is down; nothing was sent.
            DrainingError: Queued calls were cancelled; nothing was sent.
            JudgeUnavailableError: The endpoint cannot answer now.
            JudgeConfigurationError: It refuses the call because of the configuration.
            EventError: It refuses this request, or its reply is truncated or refused.
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
            reply = await self._complete(request)
        except JudgeUnavailableError as error:
            self._used(error.reply, attempt)
            attempt.stalled = self._clock() - sent_at > STALLED * self._call_seconds
            if not attempt.stalled:
                # A repeated time-out may be the event's own.
                is_repeated = error.kind == "timeout" and self.name in attempt.trials
                self._unanswered(error, sent_at, counts=not is_repeated)
            raise
        except EventError as error:
            self._used(error.reply, attempt)
            self._answered(None)
            raise
        finally:
            attempt.round_seconds += self._clock() - sent_at
            self.limiter.leave()
        self._used(reply, attempt)
        self._answered(reply, tokens)
        self._answered_by(reply.model)
        # A repair turn repeats the first reply, so only that one is compared.
        own = request.messages[-1].content if len(request.messages) <= FIRST_TURNS else ""
        if own and not request.fresh and is_about_another(own, reply.text):
            return await self.ask(replace(request, fresh=True), attempt)
        return reply

    def history(self, metric: str) -> History:
        """Return the latest outcomes of a metric."""
        return self.histories.setdefault(metric, History())

    async def is_fault_of_event(self, metric: str, trial: Trial, kind: str, *, paid: bool) -> bool:
        """Return whether an event itself causes its failures; if the endpoint does, it is marked down.

        Args:
            metric: The metric.
            trial: The event's failures at this endpoint.
            kind: Error type of the last one; `unavailable` or the like if there was no answer.
            paid: Whether they cost tokens.
        """
        history = self.history(metric)
        while self.is_up and self._clock() >= self.limiter.paused_until:
            decision = history.decide(trial, paid=paid, now=self._clock())
            if decision != "neutral":
                return decision == "event"
            trial.neutral_calls += 1
            trouble = await self._neutral_trouble(metric, kind)
            if trouble is None or not self.is_up:
                continue
            if isinstance(trouble, JudgeUnavailableError) and trouble.kind == "rate_limited":
                return False
            since = history.since(trial.since, trial.outcome)
            never_worked = isinstance(trouble, JudgeConfigurationError) and not self._ever_answered
            needed = 1 if never_worked or isinstance(trouble, JudgeUnavailableError) else OUTAGE_CALLS
            failed = sum(one.is_neutral and one.state == "failed" for one in since)
            if failed < needed or any(one.state == "judged" for one in since):
                continue
            if not isinstance(trouble, JudgeUnavailableError) and await self._judges_another(metric, kind):
                history.forget_neutral_failures()
                return trial.failures >= PAID_TRIES  # only this metric cannot be judged here
            why = f"it fails every event ({kind}), and a neutral one: {trouble}"
            self._take_down(str(trouble) if _is_silence(trouble) else why, trouble, metric=metric, kind=kind)
        return False

    def stop(self) -> None:
        """Cancel timers and neutral calls."""
        self.limiter.stop()
        if self._timer is not None:
            self._timer.cancel()
        for task in (*self._probes, *self._neutral_calls.values()):
            task.cancel()

    # Calls

    async def _complete(self, request: ChatRequest) -> ChatReply:
        try:
            async with asyncio.timeout(self._call_seconds):
                return await self._chat.complete(request)
        except TimeoutError as error:
            raise JudgeUnavailableError(
                f"judge endpoint {self.name} did not answer within {self._call_seconds:.3g} s", kind="timeout"
            ) from error

    def _used(self, reply: ChatReply | None, attempt: Attempt | None) -> None:
        """Record the tokens of a call."""
        if reply is None:
            return
        if attempt is not None:
            attempt.used.append((self.name, reply.usage))
            attempt.round_used += reply.usage != Usage()
        self._observer.used(self.name, self.model, reply.usage, for_verdict=attempt is not None)

    def _answered(self, reply: ChatReply | None, tokens: float = 0.0) -> None:
        self._ever_answered = True
        self.breaker.answered()
        self.limiter.answered(reply, tokens)

    def _unanswered(self, error: JudgeUnavailableError, sent_at: float, *, counts: bool) -> None:
        """Slow down, pause or open the breaker after a call without an answer."""
        now = self._clock()
        if error.kind == "rate_limited" or error.retry_after_seconds:
            counts = self.limiter.refused(
                error, sent_at=sent_at
            )  # of the refusals of one pause only the first
        elif error.kind == "overloaded" or (
            error.kind == "timeout" and self._share_since(sent_at) > OVERLOAD_SHARE
        ):
            self.limiter.concurrency.overloaded(now, sent_at=sent_at)
        pause_seconds = self.limiter.paused_until - now
        if (counts and self.breaker.failed(now)) or pause_seconds > self._patience.timeout_seconds:
            self._take_down(str(error), error, pause_seconds=pause_seconds)

    def _failed_share(self) -> float:
        """Return the share of decided outcomes that were the endpoint's failures; 0 while there are few."""
        now = self._clock()
        found = [one for history in self.histories.values() for one in history.latest(now)]
        latest = sorted(found, key=lambda one: one.sent_at)[-LATEST:]
        decided = [
            one.state for one in latest if one.state != "pending" and now - one.sent_at <= RECENT_SECONDS
        ]
        return decided.count("failed") / len(decided) if len(decided) >= FEWEST_EVENTS else 0.0

    def _answered_by(self, model: str) -> None:
        """Notice a model that answers for the first time."""
        if model in self._models or len(self._models) >= MOST_MODELS:
            return
        if self._models:
            self._model_changed_at = datetime.now(UTC)
            self._observer.model_changed(self.name, self._models[-1], model)
        self._models.append(model)

    def _share_since(self, moment: float) -> float:
        return share_of(one for history in self.histories.values() for one in history.since(moment))

    # Outages

    def _down(self) -> EndpointDownError:
        return EndpointDownError(self.trouble or f"judge endpoint {self.name} is down")

    def _take_down(
        self,
        reason: str,
        error: JudgeError,
        *,
        metric: str = "",
        kind: str | None = None,
        pause_seconds: float = 0.0,
    ) -> None:
        """Open the breaker until a neutral event is judged."""
        if not self.breaker.open(self._clock(), pause_seconds):
            return
        self.trouble, self._metric, self._kind = reason, metric, kind
        self._remedy, self._down_since = remedy_for(error), datetime.now(UTC)
        self._refused_since = self._clock() if isinstance(error, JudgeConfigurationError) else None
        self._observer.down(self.name, reason)
        self.limiter.reject_waiting(self._down)
        self._on_change()
        if self.judges:
            self._probe_later()

    def _came_back(self) -> None:
        self.breaker.close()
        self.trouble = self.misconfigured = self._refused_since = self._down_since = None
        self._remedy = ""
        for history in self.histories.values():
            history.begin(self._clock())
        self._observer.down(self.name, None)
        self.limiter.concurrency.came_back(self._clock())
        self.limiter.admit()
        self._on_change()

    def _probe_later(self) -> None:
        seconds = max(self.breaker.next_try_at - self._clock(), 0.0) + 0.001  # timers may be early
        self._timer = asyncio.get_running_loop().call_later(seconds, self._start_probe)

    def _start_probe(self) -> None:
        if not self.breaker.is_open:
            return
        if self._clock() >= self.breaker.next_try_at:
            self.breaker.probed(self._clock())
            while self._probes and (self._probes[0].done() or len(self._probes) >= MOST_PROBES):
                self._probes.popleft().cancel()
            self._probes.append(asyncio.create_task(self._probe()))
        self._probe_later()

    async def _probe(self) -> None:
        trouble = await self._any_trouble()
        if not self.breaker.is_open:
            return
        if trouble is None:
            self._came_back()
            return
        now = self._clock()
        self.breaker.probe_failed(now)
        if not isinstance(trouble, JudgeConfigurationError):
            self._refused_since = None
        elif self._refused_since is None:
            self._refused_since = now
        elif now - self._refused_since >= self._patience.confirm_seconds and not self._ever_answered:
            self.misconfigured = str(trouble)
            self.breaker.open(now, MISCONFIGURED_SECONDS)
            self._on_change()
        if self._kind is None or not isinstance(trouble, EventError):
            self.trouble, self._remedy = str(trouble), remedy_for(trouble)

    async def _any_trouble(self) -> JudgeError | None:
        """Return the first error if every metric fails the neutral event in the same way, else None."""
        found: JudgeError | None = None
        for metric in dict.fromkeys((self._metric or next(iter(self.judges)), *self.judges)):
            trouble = await self._judge_neutral(metric)
            if trouble is None or (isinstance(trouble, EventError) and trouble.error_type != self._kind):
                return None
            found = found or trouble
            if isinstance(trouble, JudgeUnavailableError):
                break  # the other metrics would fail in the same way
        return found

    # The neutral event

    async def _judges_another(self, metric: str, kind: str | None) -> bool:
        """Return whether the neutral event is judged for another metric."""
        for other in self.judges:
            if other != metric and await self._neutral_trouble(other, kind) is None:
                return True
        return False

    async def _neutral_trouble(self, metric: str, kind: str | None) -> JudgeError | None:
        """Return the error of judging the neutral event; None also if it fails otherwise than the events did.

        Concurrent callers share one call.

        Args:
            metric: The metric.
            kind: Error type of the events' failures; None if there was no answer, then any answer passes.
        """
        task = self._neutral_calls.get((metric, kind))
        if task is None or task.done():
            task = self._neutral_calls[metric, kind] = asyncio.create_task(self._recorded(metric, kind))
        return await asyncio.shield(task)

    async def _recorded(self, metric: str, kind: str | None) -> JudgeError | None:
        sent_at = self._clock()
        trouble = await self._judge_neutral(metric)
        if isinstance(trouble, EventError) and trouble.error_type != kind:
            trouble = None
        is_pause = isinstance(trouble, JudgeUnavailableError) and trouble.kind == "rate_limited"
        if self.is_up and not is_pause:
            self.history(metric).neutral(sent_at, is_failure=trouble is not None)
        return trouble

    async def _judge_neutral(self, metric: str) -> JudgeError | None:
        try:
            await self.judges[metric].try_neutral(self._ask_neutral)
        except (JudgeUnavailableError, JudgeConfigurationError, EventError) as error:
            return error
        return None

    async def _ask_neutral(self, request: ChatRequest) -> ChatReply:
        """Send a neutral event's request without queueing and without a slot."""
        self.limiter.sent_without_slot()
        sent_at = self._clock()
        try:
            reply = await self._complete(request)
        except JudgeError as error:
            self._used(error.reply, None)
            if isinstance(error, EventError):
                self._answered(None)
            elif isinstance(error, JudgeUnavailableError) and error.kind == "rate_limited":
                self.limiter.refused(error, sent_at=sent_at)
            raise
        self._used(reply, None)
        self._answered(None)
        return reply


def remedy_for(error: JudgeError) -> str:
    """Return what to do about an endpoint that is down."""
    if isinstance(error, JudgeConfigurationError):
        return error.remedy or "Correct the endpoint's settings"
    if isinstance(error, JudgeUnavailableError):
        return _REMEDIES[error.kind]
    return "It answers without a verdict: look at its log and at the model that it serves"


_REMEDIES: Final[Mapping[UnavailableKind, str]] = {
    "rate_limited": "Raise its quota, or lower requests_per_minute or the sampling rate",
    "overloaded": "Give it more capacity, or lower max_in_flight",
    "timeout": "Look at its load; raise timeout_seconds if it is slower than that",
    "unavailable": "Check that it runs and that base_url can be reached from here",
}


def _is_silence(error: JudgeError) -> bool:
    return isinstance(error, JudgeUnavailableError | JudgeConfigurationError)
