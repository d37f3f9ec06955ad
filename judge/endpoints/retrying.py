"""A metric's judge that retries: which endpoint is asked, and whether a failure is the event's own."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Final

from judge.chat import ChatReply, ChatRequest
from judge.endpoints.endpoint import Endpoint
from judge.endpoints.options import Attempt
from judge.errors import DrainingError, EndpointDownError, JudgeConfigurationError, JudgeUnavailableError
from judge.evaluate.evaluator import Evaluator
from judge.evaluate.prices import total_cost, total_usage
from schemas import Failed, JudgeTask, Result

if TYPE_CHECKING:
    from judge.endpoints.lane import BatchLane
    from judge.endpoints.pool import EndpointPool

TRIES_BEFORE_NEXT: Final = 2
"""Failures at an endpoint before the next is asked: another model gives other scores."""
ENDPOINT_MAY_CAUSE: Final = frozenset(
    {"rejected_request", "content_refused", "context_too_long", "reply_cut", "invalid_verdict"}
)
"""Error types that a faulty endpoint causes, too."""


class RetryingJudge:
    """One metric at the endpoints of a pool; all calls of a verdict go to one of them.

    A failure is never published at once: the event is asked again, and `CallHistory` decides who is at fault.
    """

    def __init__(self, evaluators: Mapping[str, Evaluator], pool: EndpointPool) -> None:
        self._evaluators = dict(evaluators)
        self._pool = pool
        self._endpoints = pool.named(tuple(evaluators))
        self._first = self._endpoints[0]
        self._metric = evaluators[self._first.name].metric.name
        self.endpoint, self.model = self._first.name, self._first.model
        self.evaluator = evaluators[self._first.name].evaluator
        for endpoint in self._endpoints:
            endpoint.evaluators[self._metric] = evaluators[endpoint.name]

    async def judge(self, task: JudgeTask, *, patient: bool = True) -> Result:
        """Judge one answer, retrying transient failures without a time limit.

        Raises:
            JudgeConfigurationError: No endpoint can judge any event as configured.
            DrainingError: By `EndpointPool.drain`, before a call was sent.
            EndpointDownError: All endpoints are down, and `patient` is false.
        """
        attempt = Attempt()
        while True:
            # If all are down, use the first: tasks that need no call are still decided.
            endpoint = self._pool.choose(self._endpoints, attempt.avoided) or self._first
            attempt.begin_round()
            result: Result | None = None
            try:
                result = await self._evaluators[endpoint.name].judge(
                    task, partial(endpoint.ask, attempt=attempt)
                )
            except DrainingError:
                raise
            except EndpointDownError:
                if not patient:
                    raise
                await self._pool.until_one_is_up(self._endpoints)
            except (JudgeUnavailableError, JudgeConfigurationError) as error:
                result = await self._after_failure(error, endpoint, task, attempt)
            else:
                if not attempt.round_calls:
                    return result
                result = await self._after_result(result, endpoint, attempt)
            if result is not None:
                return self._with_accounts(result, endpoint, attempt)

    @property
    def lane(self) -> BatchLane | None:
        return self._first.lane

    async def judge_in_batch(self, task: JudgeTask) -> Result | None:
        """Judge one answer with a reply from a batch; repair turns are made at once.

        Returns None, or a failure that `is_endpoint_s`, if the answer is to be judged by `judge`.
        """
        first, attempt = self._first, Attempt()
        lanes = [] if first.lane is None else [first.lane]

        async def ask(request: ChatRequest) -> ChatReply:
            if lanes and not request.embeds:
                return await lanes.pop().ask(task, request)
            return await first.ask(request, attempt)

        try:
            return await self._evaluators[first.name].judge(task, ask)
        except DrainingError:
            raise
        except (JudgeUnavailableError, JudgeConfigurationError):
            return None

    async def _after_result(self, result: Result, endpoint: Endpoint, attempt: Attempt) -> Result | None:
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
        task: JudgeTask,
        attempt: Attempt,
    ) -> Failed | None:
        """Wait after a failure; return the result if the event causes it."""
        kind = "configuration" if isinstance(error, JudgeConfigurationError) else error.kind
        self._observe(endpoint, kind, attempt)
        if kind == "rate_limited" or attempt.stalled:
            return None
        if await self._is_fault_of_event(kind, endpoint, attempt):
            judge = self._evaluators[endpoint.name]
            if isinstance(error, JudgeConfigurationError):
                detail = f"{error.told} each time to this event, and accepts others"
                return judge.failed(task, "content_refused", detail, tries=attempt.calls)
            failures = attempt.outcomes[endpoint.name].failures
            detail = f"{failures} calls failed while others succeeded; the last: {error}"
            return judge.failed(task, "no_answer", detail, tries=attempt.calls)
        if kind == "configuration":
            await self._pause_at(endpoint, attempt)
        else:
            await self._before_next_try(kind, endpoint, attempt)
        return None

    async def _pause_at(self, endpoint: Endpoint, attempt: Attempt) -> None:
        """Pause before an event is asked again that the endpoint answered, but did not judge."""
        failures = attempt.outcomes[endpoint.name].failures
        if failures > 1 and endpoint.is_up:
            await self._pause(min(2.0 ** (failures - 2), 4.0))  # at most four first pauses

    def _judged(self, endpoint: Endpoint, attempt: Attempt) -> None:
        """Record a verdict: earlier failures of the event were those of its endpoints."""
        if endpoint.name not in attempt.outcomes:
            endpoint.histories[self._metric].judged(attempt.round_sent_at)
        for asked in self._endpoints:
            event = attempt.outcomes.get(asked.name)
            if event is not None and asked.histories[self._metric].healed(event):
                self._pool.observer.failed_event(asked.name, event.failures)

    async def _is_fault_of_event(self, kind: str, endpoint: Endpoint, attempt: Attempt) -> bool:
        history, known = endpoint.histories[self._metric], attempt.outcomes.get(endpoint.name)
        event = history.failed(known, sent_at=attempt.round_sent_at, now=self._pool.clock())
        attempt.outcomes[endpoint.name] = event
        is_fault = await endpoint.is_fault_of_event(self._metric, event, kind, paid=attempt.round_used > 0)
        if is_fault:
            history.excuse(event)
        return is_fault

    async def _before_next_try(self, kind: str, endpoint: Endpoint, attempt: Attempt) -> None:
        """Avoid an endpoint that does not answer, and pause if there is no other."""
        failures = attempt.outcomes[endpoint.name].failures
        if failures % TRIES_BEFORE_NEXT == 0 or kind == "timeout":
            attempt.avoided.add(endpoint.name)
        following = self._pool.choose(self._endpoints, attempt.avoided)
        if following is None or following.name in attempt.avoided:
            attempt.avoided.clear()
        elif following is not endpoint:
            return
        attempt.pauses += 1
        await self._pause(2.0 ** min(attempt.pauses - 1, 30))

    async def _pause(self, first_waits: float) -> None:
        """Pause for a multiple of the first wait; jitter of up to half spreads retries."""
        patience = self._pool.options.patience
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
        told = {"fallback": fallback, "tries": max(call.tries, attempt.calls)}
        update: dict[str, object] = {"judge": call.model_copy(update=told)}
        if attempt.used:
            update["usage"] = total_usage(usage for _, usage in attempt.used)
            costs = (self._evaluators[name].cost_usd(usage) for name, usage in attempt.used)
            update["cost_usd"] = total_cost(costs)
        return result.model_copy(update=update)


def is_endpoint_s(result: Result) -> bool:
    """Whether a faulty endpoint may cause this failure, so that the event is asked again."""
    return isinstance(result, Failed) and result.error_type in ENDPOINT_MAY_CAUSE
