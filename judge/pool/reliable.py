"""A judge that retries transient failures: one metric over all endpoints of a pool.

The call path of a verdict, from the task to the POST:

    JudgeAgent.handle            streams/judging/agent        one record; the budget
    `- ReliableJudge.judge       judge/pool/reliable          choice of the endpoint, retries
       `- Judge.judge            judge/verdict/evaluator      prompt, price, cache, result
          `- Dialogue.outcome    judge/verdict/dialogue       request, check of the reply, repair turns
             `- GuardedChat.ask       judge/pool/guarded_chat      queue, limits, time limit, accounting
                `- OpenAIChat.complete   judge/endpoint/openai_chat   one call
                   `- Connection.post    judge/endpoint/connection    HTTP

`Attempt` (judge/pool/attempt) accounts for one task; it is created here and passed to every call.
`Admission` holds the limits of an endpoint, `Breaker` whether it is down.

Transient failures are retried at the same endpoint, then at the next. If all endpoints are down, the judge
waits without a time limit. Calls for other events and for a neutral event (judge/pool/neutral_probe) decide
whether the event or its endpoint causes a failure. All calls of a verdict go to one endpoint, so its
evaluator names one model.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Final, TypeAlias

from judge.errors import DrainingError, EndpointDownError, JudgeConfigurationError, JudgeUnavailableError
from judge.pool.attempt import Attempt
from judge.pool.guarded_chat import GuardedChat
from judge.pool.hedging import ask_twice
from judge.pool.pool import EndpointPool
from judge.verdict.dialogue import Ask, Asking
from judge.verdict.evaluator import Judge
from schemas import Failed, JudgeTask, Scored, Unscored, Usage

Result: TypeAlias = Scored | Unscored | Failed

TRIES_BEFORE_NEXT: Final = 2
"""Failures at an endpoint before the next is asked: another model gives other scores."""
ALONE_FAILURES: Final = 2
"""Failures, without an answer to another event meanwhile, from which a neutral event is tried."""
_BY_ENDPOINT: Final = frozenset(
    {"rejected_request", "content_refused", "context_too_long", "reply_cut", "invalid_verdict"}
)
"""Error types that a faulty endpoint causes for all events, too.
"""
LEAST_REST_SHARE: Final = 0.1
"""With less than this share of the time budget left, the verdict restarts."""


class ReliableJudge:
    """One metric at the endpoints of a pool.

    Args:
        judges: One evaluator per endpoint, by name, in order of preference.
        pool: The endpoints; the caller closes it.
        hedge_after_seconds: Time without a reply after which a call is repeated; None: never.
    """

    def __init__(
        self, judges: Mapping[str, Judge], pool: EndpointPool, *, hedge_after_seconds: float | None = None
    ) -> None:
        self._judges = dict(judges)
        self._pool = pool
        self._chats = pool.ask_among(tuple(judges))
        self._first = self._chats[0]
        self._metric = judges[self._first.endpoint].metric.name
        for chat in self._chats:
            chat.probe.judges[self._metric] = judges[chat.endpoint]
        self._hedge_after_seconds = hedge_after_seconds

    async def judge(self, task: JudgeTask, *, patient: bool = True) -> Result:
        """Judge one answer, retrying transient failures without a time limit.

        Args:
            task: A task of this judge's metric.
            patient: Whether to wait while all endpoints are down.

        Returns:
            The result; `Failed("no_answer")` if the judge answers calls for other events but repeatedly not
            for this one.

        Raises:
            JudgeConfigurationError: No endpoint can judge any event as configured.
            DrainingError: The task was cancelled before it was sent, by `EndpointPool.drain`.
            EndpointDownError: All endpoints are down, and `patient` is false.
            ValueError: The task belongs to another metric.
        """
        attempt = Attempt()
        while True:
            # If all are down, use the first: tasks that need no call are still decided.
            chat = self._pool.choose(attempt.avoided, self._chats) or self._first
            judge = self._judges[chat.endpoint]
            attempt.calls_before, attempt.call_seconds = attempt.calls, 0.0
            result: Result | None
            try:
                result = await judge.judge(task, self._asking(chat, attempt))
            except (EndpointDownError, DrainingError) as error:
                if not patient or isinstance(error, DrainingError):
                    raise
                await self._pool.someone(self._chats)
                continue
            except JudgeConfigurationError as error:
                self._observe(chat, "configuration", attempt)
                result = await self._after_refusal(error, chat, judge, task, attempt)
            except JudgeUnavailableError as error:
                result = await self._after_failure(error, chat, judge, task, attempt)
            else:
                if attempt.calls == attempt.calls_before:
                    return result  # it needed no call
                outcome = result.error_type if isinstance(result, Failed) else result.status
                self._observe(chat, outcome, attempt)
                if not await self._holds(result, chat):
                    continue
            if result is not None:
                return self._with_accounts(result, chat, attempt)

    async def _holds(self, result: Result, chat: GuardedChat) -> bool:
        """Return whether the result depends on the event, not on an endpoint that fails all events."""
        if not isinstance(result, Failed):
            chat.judged()
            return True
        return result.error_type not in _BY_ENDPOINT or not await chat.fails_all(self._metric, result)

    async def _after_refusal(
        self,
        error: JudgeConfigurationError,
        chat: GuardedChat,
        judge: Judge,
        task: JudgeTask,
        attempt: Attempt,
    ) -> Failed | None:
        """Return a failure if a configuration refusal affects only this event."""
        # Every second time: an endpoint that refuses every other call would never refuse the probe.
        if attempt.refusals % 2 == 0 and await chat.refuses_all(self._metric, error):
            return None
        attempt.refusals += 1
        if chat.refusals.prove(attempt.refusals):
            detail = f"{error.told} each time to this event, and accepts others"
            return judge.failed(task, "content_refused", detail, tries=attempt.calls)
        if attempt.refusals > 1:
            await self._pool.rest(self._pool.patience.first_wait_seconds, self._chats)
        return None

    def _asking(self, chat: GuardedChat, attempt: Attempt) -> Asking:
        """Return the functions with which the evaluator asks this endpoint for this task.

        Parallel parts share the time budget.
        """

        @contextmanager
        def apart() -> Iterator[Ask]:
            beside = attempt.beside(0.0)
            try:
                yield self._ask(chat, beside)
            finally:
                attempt.join(beside)

        return Asking(self._ask(chat, attempt), apart)

    def _ask(self, chat: GuardedChat, attempt: Attempt) -> Ask:
        """Return the function that sends this task's calls to this endpoint."""
        if self._hedge_after_seconds is None:
            return partial(chat.ask, attempt=attempt)
        return partial(ask_twice, chat, attempt=attempt, after_seconds=self._hedge_after_seconds)

    async def _after_failure(
        self,
        error: JudgeUnavailableError,
        chat: GuardedChat,
        judge: Judge,
        task: JudgeTask,
        attempt: Attempt,
    ) -> Failed | None:
        """Handle a failure and wait; return the result if the task fails."""
        if attempt.calls == attempt.calls_before:
            # No call was sent: the endpoint asked for a pause.
            await self._pool.rest(error.retry_after_seconds or self._wait_seconds(attempt), self._chats)
            return None
        self._observe(chat, error.kind, attempt)
        if error.kind == "rate_limited":
            # Not the event's fault, so it does not count towards its time budget.
            attempt.spent_seconds -= attempt.call_seconds
            return None
        attempt.failures += 1
        if not attempt.cut_short:
            await self._suspect(chat, attempt)
        if attempt.suspicion.proven:
            detail = f"{attempt.failures} calls failed while others succeeded; the last: {error}"
            return judge.failed(task, "no_answer", detail, tries=attempt.calls)
        here = attempt.failed_at[chat.endpoint] = attempt.failed_at.get(chat.endpoint, 0) + 1
        if here >= TRIES_BEFORE_NEXT or error.kind == "timeout":
            attempt.avoided.add(chat.endpoint)
        next_chat = self._pool.choose(attempt.avoided, self._chats)
        if next_chat is None or next_chat.endpoint in attempt.avoided:
            attempt.avoided.clear()
            attempt.failed_at.clear()
            await self._pause(attempt)
        elif next_chat is chat:
            await self._pause(attempt)
        timeout_seconds = self._pool.patience.timeout_seconds
        if timeout_seconds - attempt.spent_seconds < LEAST_REST_SHARE * timeout_seconds:
            attempt.spent_seconds = 0.0
        return None

    async def _suspect(self, chat: GuardedChat, attempt: Attempt) -> None:
        """Add the failure to the evidence against the event, weighted by the calls answered meanwhile."""
        answered, failed = attempt.failed_mark
        counted = attempt.counted
        if chat.tally.answered == answered and attempt.failures >= ALONE_FAILURES and chat.may_be_asked():
            await chat.probe.trouble(self._metric)
        attempt.suspicion.failed(
            others_answered=chat.tally.answered - answered,
            others_failed=max(0, chat.tally.failed - failed - counted),
        )

    async def _pause(self, attempt: Attempt) -> None:
        seconds = self._wait_seconds(attempt)
        attempt.spent_seconds += seconds
        await self._pool.rest(seconds, self._chats)

    def _wait_seconds(self, attempt: Attempt) -> float:
        """Return the next pause: exponential, capped, with up to 50% jitter to spread retries."""
        patience = self._pool.patience
        attempt.pauses += 1
        longest = min(
            patience.longest_wait_seconds, patience.first_wait_seconds * 2.0 ** min(attempt.pauses - 1, 30)
        )
        return longest * (0.5 + 0.5 * self._pool.chance())

    def _observe(self, chat: GuardedChat, outcome: str, attempt: Attempt) -> None:
        self._pool.observer.asked(chat.endpoint, chat.model, outcome, attempt.call_seconds)

    def _with_accounts(self, result: Result, chat: GuardedChat, attempt: Attempt) -> Result:
        """Add tries, tokens and cost if there was more than one call or a fallback endpoint."""
        call = result.judge
        fallback = chat is not self._first
        if call is None or (not fallback and attempt.calls <= 1):
            return result
        update: dict[str, object] = {
            "judge": call.model_copy(update={"fallback": fallback, "tries": max(call.tries, attempt.calls)})
        }
        if attempt.used:
            tokens = [usage for _, usage in attempt.used]
            costs = [self._judges[endpoint].cost_usd(usage) for endpoint, usage in attempt.used]
            known = [cost for cost in costs if cost is not None]
            update["usage"] = Usage(
                input_tokens=sum(one.input_tokens for one in tokens),
                cached_tokens=sum(one.cached_tokens for one in tokens),
                output_tokens=sum(one.output_tokens for one in tokens),
            )
            update["cost_usd"] = sum(known) if len(known) == len(costs) else None
        return result.model_copy(update=update)
