"""All endpoints of one worker, in order of preference: choice, outages, draining, retries.

The call path of a verdict, from the task to the POST:

    JudgeAgent.handle            one record; the budget
    `- RetryingJudge.judge       choice of the endpoint, retries, who is at fault
       `- Evaluator.judge        prompt, check of the reply, repair turns, price, cache, result
          `- Endpoint.ask        queue, limits, time limit, accounting
             `- OpenAIChat.complete   one call
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Final, TypeAlias

from judge.endpoints.endpoint import Endpoint
from judge.endpoints.health import Trial
from judge.endpoints.limiter import SharedSlots
from judge.endpoints.options import Attempt, EndpointObserver, EndpointOptions, EndpointState, Patience
from judge.errors import DrainingError, EndpointDownError, JudgeConfigurationError, JudgeUnavailableError
from judge.evaluate.evaluator import Evaluator
from schemas import Failed, JudgeTask, Scored, Unscored, Usage

Result: TypeAlias = Scored | Unscored | Failed

TRIES_BEFORE_NEXT: Final = 2
"""Failures at an endpoint before the next is asked: another model gives other scores."""
ENDPOINT_MAY_CAUSE: Final = frozenset(
    {"rejected_request", "content_refused", "context_too_long", "reply_cut", "invalid_verdict"}
)
"""Error types that a faulty endpoint causes, too."""
LONGEST_RETRY_FACTOR: Final = 4.0
"""Longest pause, in first pauses, before an event is repeated that was answered without a verdict."""


class EndpointPool:
    """Endpoints in order of preference.

    The first endpoint that is up is asked. While it is busy or at its limits, calls queue for it, because
    another model would give other scores. For use in one event loop.
    """

    def __init__(
        self,
        endpoints: Sequence[EndpointOptions],
        *,
        max_in_flight: int = 64,
        patience: Patience | None = None,
        observer: EndpointObserver | None = None,
        chance: Callable[[], float] = random.random,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.patience = patience or Patience()
        self.observer = observer or EndpointObserver()
        self.chance = chance
        self.clock = clock
        build = partial(
            Endpoint,
            patience=self.patience,
            slots=SharedSlots(max_in_flight),
            observer=self.observer,
            chance=chance,
            clock=clock,
            on_change=self._changed,
        )
        self.endpoints = tuple(map(build, endpoints))
        self._used_lists: list[tuple[Endpoint, ...]] = []
        self._drains = 0
        self._closed = False
        self._change = asyncio.Event()
        for endpoint in self.endpoints:
            self.observer.down(endpoint.name, None)

    @property
    def trouble(self) -> str | None:
        """Why some metric cannot be judged: all of its endpoints are down. None while all can be judged."""
        troubles = (trouble_of(endpoints) for endpoints in self._used_lists or (self.endpoints,))
        return next((trouble for trouble in troubles if trouble is not None), None)

    @property
    def states(self) -> tuple[EndpointState, ...]:
        return tuple(endpoint.state for endpoint in self.endpoints)

    def named(self, names: Sequence[str] = ()) -> tuple[Endpoint, ...]:
        """Return a metric's endpoints, in order of preference; without names all."""
        known = {endpoint.name: endpoint for endpoint in self.endpoints}
        unknown = ", ".join(name for name in names if name not in known)
        if unknown:
            raise JudgeConfigurationError(f"no judge endpoint is called {unknown}; known: {', '.join(known)}")
        endpoints = tuple(known[name] for name in names) or self.endpoints
        if endpoints not in self._used_lists:
            self._used_lists.append(endpoints)
        return endpoints

    async def until_one_is_up(self, endpoints: Sequence[Endpoint]) -> None:
        drains = self._drains
        while trouble_of(endpoints) is not None:
            errors = [endpoint.misconfigured for endpoint in endpoints]
            if all(errors):
                raise JudgeConfigurationError("; ".join(filter(None, errors)))
            await self._next_change(drains)

    async def pause(self, seconds: float, endpoints: Sequence[Endpoint]) -> None:
        """Wait this long, or until one of these endpoints recovers."""
        drains = self._drains
        try:
            async with asyncio.timeout(seconds):
                await self._next_change(drains)
                while trouble_of(endpoints) is not None:
                    await self._next_change(drains)
        except TimeoutError:
            return

    def drain(self, *, close: bool = False) -> None:
        """Cancel queued calls, except those of verdicts with a call already sent.

        Use it before a worker stops or its partitions are revoked: the result of a new call would be lost.
        """
        self._drains += 1
        self._closed = self._closed or close
        for endpoint in self.endpoints:
            endpoint.limiter.drain(close=close)
        self._changed()

    def stop(self) -> None:
        """Cancel timers and probes; the caller closes the clients."""
        for endpoint in self.endpoints:
            endpoint.stop()

    async def _next_change(self, drains: int) -> None:
        if not self._closed:
            await self._change.wait()
        if self._closed or self._drains != drains:
            raise DrainingError("cancelled while waiting for an endpoint")

    def _changed(self) -> None:
        change, self._change = self._change, asyncio.Event()
        change.set()


def choose(endpoints: Sequence[Endpoint], avoided: Collection[str] = ()) -> Endpoint | None:
    """Return the preferred endpoint that is up, an avoided one only if no other is; None if all are down."""
    up = [endpoint for endpoint in endpoints if endpoint.is_up]
    return next((endpoint for endpoint in up if endpoint.name not in avoided), up[0] if up else None)


def trouble_of(endpoints: Sequence[Endpoint]) -> str | None:
    """Return why all of these endpoints are down; None while one is up."""
    if any(endpoint.is_up for endpoint in endpoints):
        return None
    states = [endpoint.state for endpoint in endpoints]
    return "; ".join(
        one.reason if one.remedy in one.reason else f"{one.reason}. {one.remedy}" for one in states
    )


class RetryingJudge:
    """One metric at the endpoints of a pool, with retries.

    A failure is never published at once: the event is asked again, and `History` decides whether the event
    or its endpoint causes the failures. All calls of a verdict go to one endpoint, so its evaluator names one
    model.
    """

    def __init__(self, judges: Mapping[str, Evaluator], pool: EndpointPool) -> None:
        self._judges = dict(judges)
        self._pool = pool
        self._endpoints = pool.named(tuple(judges))
        self._first = self._endpoints[0]
        self._metric = judges[self._first.name].metric.name
        for endpoint in self._endpoints:
            endpoint.judges[self._metric] = judges[endpoint.name]

    async def judge(self, task: JudgeTask, *, patient: bool = True) -> Result:
        """Judge one answer, retrying transient failures without a time limit.

        Raises:
            JudgeConfigurationError: No endpoint can judge any event as configured.
            DrainingError: The task was cancelled before it was sent, by `EndpointPool.drain`.
            EndpointDownError: All endpoints are down, and `patient` is false.
        """
        attempt = Attempt()
        while True:
            # If all are down, use the first: tasks that need no call are still decided.
            endpoint = choose(self._endpoints, attempt.avoided) or self._first
            judge = self._judges[endpoint.name]
            attempt.begin_round()
            result: Result | None = None
            try:
                result = await judge.judge(task, partial(endpoint.ask, attempt=attempt))
            except DrainingError:
                raise
            except EndpointDownError:
                if not patient:
                    raise
                await self._pool.until_one_is_up(self._endpoints)
            except (JudgeUnavailableError, JudgeConfigurationError) as error:
                result = await self._after_failure(error, endpoint, judge, task, attempt)
            else:
                if not attempt.round_calls:
                    return result
                result = await self._after_result(result, endpoint, attempt)
            if result is not None:
                return self._with_accounts(result, endpoint, attempt)

    async def _after_result(self, result: Result, endpoint: Endpoint, attempt: Attempt) -> Result | None:
        """Return the result, unless it is a failure that the endpoint may cause."""
        kind = result.error_type if isinstance(result, Failed) else result.status
        self._observe(endpoint, kind, attempt)
        if kind not in ENDPOINT_MAY_CAUSE:
            self._judged(endpoint, attempt)
            return result
        if await self._is_fault_of_event(kind, endpoint, attempt):
            return result
        await self._pause_at(endpoint, attempt)
        return None

    async def _after_failure(
        self,
        error: JudgeUnavailableError | JudgeConfigurationError,
        endpoint: Endpoint,
        judge: Evaluator,
        task: JudgeTask,
        attempt: Attempt,
    ) -> Failed | None:
        """Wait after a failure; return the result if the event causes it."""
        refused = isinstance(error, JudgeConfigurationError)
        kind = "configuration" if isinstance(error, JudgeConfigurationError) else error.kind
        self._observe(endpoint, kind, attempt)
        if kind == "rate_limited" or attempt.stalled:
            return None
        if await self._is_fault_of_event(kind, endpoint, attempt):
            if isinstance(error, JudgeConfigurationError):
                detail = f"{error.told} each time to this event, and accepts others"
                return judge.failed(task, "content_refused", detail, tries=attempt.calls)
            failures = attempt.trials[endpoint.name].failures
            detail = f"{failures} calls failed while others succeeded; the last: {error}"
            return judge.failed(task, "no_answer", detail, tries=attempt.calls)
        if refused:
            await self._pause_at(endpoint, attempt)
        else:
            await self._before_next_try(kind, endpoint, attempt)
        return None

    async def _pause_at(self, endpoint: Endpoint, attempt: Attempt) -> None:
        """Pause before an event is asked again that the endpoint answered, but did not judge."""
        failures = attempt.trials[endpoint.name].failures
        if failures > 1 and endpoint.is_up:
            await self._pause(min(2.0 ** (failures - 2), LONGEST_RETRY_FACTOR))

    def _judged(self, endpoint: Endpoint, attempt: Attempt) -> None:
        """Record a verdict: earlier failures of the event were those of its endpoints."""
        if endpoint.name not in attempt.trials:
            endpoint.history(self._metric).judged(attempt.round_sent_at)
        for asked in self._endpoints:
            trial = attempt.trials.get(asked.name)
            if trial is not None and asked.history(self._metric).healed(trial):
                self._pool.observer.failed_event(asked.name, trial.failures)

    async def _is_fault_of_event(self, kind: str, endpoint: Endpoint, attempt: Attempt) -> bool:
        trial = attempt.trials.setdefault(endpoint.name, Trial())
        history = endpoint.history(self._metric)
        history.failed(trial, sent_at=attempt.round_sent_at, now=self._pool.clock())
        is_fault = await endpoint.is_fault_of_event(self._metric, trial, kind, paid=attempt.round_used > 0)
        if is_fault:
            history.excuse(trial)
        return is_fault

    async def _before_next_try(self, kind: str, endpoint: Endpoint, attempt: Attempt) -> None:
        """Avoid an endpoint that does not answer, and pause if there is no other."""
        failures = attempt.trials[endpoint.name].failures
        if failures % TRIES_BEFORE_NEXT == 0 or kind == "timeout":
            attempt.avoided.add(endpoint.name)
        following = choose(self._endpoints, attempt.avoided)
        if following is not None and following is not endpoint and following.name not in attempt.avoided:
            return
        if following is None or following.name in attempt.avoided:
            attempt.avoided.clear()
        attempt.pauses += 1
        await self._pause(2.0 ** min(attempt.pauses - 1, 30))

    async def _pause(self, first_waits: float) -> None:
        """Pause for a multiple of the first wait; jitter of up to half spreads retries."""
        patience = self._pool.patience
        longest = min(patience.longest_wait_seconds, patience.first_wait_seconds * first_waits)
        await self._pool.pause(longest * (0.5 + 0.5 * self._pool.chance()), self._endpoints)

    def _observe(self, endpoint: Endpoint, outcome: str, attempt: Attempt) -> None:
        self._pool.observer.asked(endpoint.name, endpoint.model, outcome, attempt.round_seconds)

    def _with_accounts(self, result: Result, endpoint: Endpoint, attempt: Attempt) -> Result:
        """Add tries, tokens and cost if there was more than one call or a fallback endpoint."""
        call = result.judge
        fallback = endpoint is not self._first
        if call is None or (not fallback and attempt.calls <= 1):
            return result
        update: dict[str, object] = {
            "judge": call.model_copy(update={"fallback": fallback, "tries": max(call.tries, attempt.calls)})
        }
        if attempt.used:
            costs = [self._judges[name].cost_usd(usage) for name, usage in attempt.used]
            update["usage"] = total_usage(usage for _, usage in attempt.used)
            update["cost_usd"] = total_cost(costs)
        return result.model_copy(update=update)


def total_usage(usages: Iterable[Usage]) -> Usage:
    """Return the sum of tokens."""
    given = list(usages)
    counts = ("input_tokens", "cached_tokens", "output_tokens")
    return Usage(**{name: sum(getattr(usage, name) for usage in given) for name in counts})


def total_cost(costs: Sequence[float | None]) -> float | None:
    """Return the sum in USD; None if one is unknown."""
    known = [cost for cost in costs if cost is not None]
    return sum(known) if len(known) == len(costs) else None
