"""A judge that waits out what passes: one metric over all endpoints of a pool, one verdict from one of them.

The way of a verdict, from the task to the POST and back:

    JudgeAgent.handle            streams/judging/agent        a record, and what the budget admits
    `- ReliableJudge.judge       judge/pool/reliable          which endpoint, and what a failure means
       `- Judge.judge            judge/verdict/evaluator      prompt, check of the reply, repair turns, price, cache
          `- GuardedChat.ask     judge/pool/guarded_chat      a turn within limits, a bound in time, the accounts
             `- OpenAIChat.complete   judge/endpoint/openai_chat   one call: request, reply, refusal
                `- Connection.post    judge/endpoint/connection    HTTP

`Attempt` (judge/pool/attempt) holds the accounts of one task. It is made here and passed with every call. What calls teach about an
endpoint's limits lives in its `Admission`; whether it is down, in its `Breaker`.

Transient failures are tried again, at the same endpoint and then at the next; an outage of all is waited for, however
long it takes. A verdict comes whole from one endpoint, so its evaluator names the model that gave it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Final, TypeAlias

from judge.errors import EndpointDownError, JudgeConfigurationError, JudgeUnavailableError
from judge.pool.attempt import Attempt
from judge.pool.guarded_chat import GuardedChat
from judge.pool.hedging import ask_twice
from judge.pool.pool import EndpointPool
from judge.verdict.dialogue import Ask, Asking
from judge.verdict.evaluator import Judge
from schemas import Failed, JudgeTask, Scored, Unscored, Usage

Result: TypeAlias = Scored | Unscored | Failed

TRIES_BEFORE_NEXT: Final = 2
"""Failures at an endpoint before the next one is asked: a single hiccup is not worth a number of another model."""
ALONE_FAILURES: Final = 2
"""After so many failures without an answer to anybody else, the endpoint is asked whether it answers at all."""
LEAST_REST_SHARE: Final = 0.1
"""With less than this left of the time budget, the verdict starts again."""


class ReliableJudge:
    """One metric at the endpoints of a pool.

    Args:
        judges: One for each of the pool's endpoints, by name.
        pool: The endpoints. Stays the caller's to close.
        hedge_after_seconds: A call without a reply for so long is made a second time; None: never.
    """

    def __init__(
        self, judges: Mapping[str, Judge], pool: EndpointPool, *, hedge_after_seconds: float | None = None
    ) -> None:
        self._judges = {chat.endpoint: judges[chat.endpoint] for chat in pool.chats}
        self._pool = pool
        self._first = pool.chats[0]
        self._hedge_after_seconds = hedge_after_seconds

    async def judge(self, task: JudgeTask) -> Result:
        """Judge one answer, however long it takes. Cancellation passes through.

        Args:
            task: A task of this judge's metric.

        Returns:
            The result; `Failed("no_answer")` where the judge answers others but, by all evidence, never this event.

        Raises:
            JudgeConfigurationError: No endpoint can judge any event as configured.
            ValueError: The task is another metric's.
        """
        attempt = Attempt()
        while True:
            # With all of them down the first is "asked" too: what needs no call is decided all the same.
            chat = self._pool.choose(attempt.avoided) or self._first
            judge = self._judges[chat.endpoint]
            calls = attempt.calls
            attempt.call_seconds = 0.0
            try:
                result = await judge.judge(task, self._asking(chat, attempt))
            except EndpointDownError:
                await self._pool.someone()
            except JudgeConfigurationError as error:
                self._observe(chat, "configuration", attempt)
                self._pool.take_out(chat, error)
            except JudgeUnavailableError as error:
                if attempt.calls == calls:
                    # No call failed: somebody before it asks for patience.
                    await self._pool.rest(error.retry_after_seconds or self._wait_seconds(attempt))
                    continue
                self._observe(chat, error.kind, attempt)
                detail = await self._after(error, chat, attempt)
                if detail is not None:
                    given_up = judge.failed(task, "no_answer", detail, tries=attempt.calls)
                    return self._with_accounts(given_up, chat, attempt)
            else:
                if attempt.calls > calls:
                    outcome = result.error_type if isinstance(result, Failed) else result.status
                    self._observe(chat, outcome, attempt)
                return self._with_accounts(result, chat, attempt)

    def _asking(self, chat: GuardedChat, attempt: Attempt) -> Asking:
        """How the evaluator asks this endpoint for this task; parts of it have the time budget at the same time."""

        @contextmanager
        def apart() -> Iterator[Ask]:
            beside = attempt.beside(0.0)
            try:
                yield self._ask(chat, beside)
            finally:
                attempt.join(beside)

        return Asking(self._ask(chat, attempt), apart)

    def _ask(self, chat: GuardedChat, attempt: Attempt) -> Ask:
        """How the evaluator asks this endpoint for this task."""
        if self._hedge_after_seconds is None:
            return partial(chat.ask, attempt=attempt)
        return partial(ask_twice, chat, attempt=attempt, after_seconds=self._hedge_after_seconds)

    async def _after(self, error: JudgeUnavailableError, chat: GuardedChat, attempt: Attempt) -> str | None:
        """Draw the lesson of a failure, and wait; say why where the task is to be given up."""
        if error.kind == "rate_limited":
            # Nothing to do with the event: it was not its turn yet, and waiting for that takes nothing of its time.
            attempt.spent_seconds -= attempt.call_seconds
            return None
        attempt.failures += 1
        await self._suspect(chat, attempt)
        if attempt.suspicion.proven:
            return f"{attempt.failures} calls failed while others were answered; the last: {error}"
        here = attempt.failed_at[chat.endpoint] = attempt.failed_at.get(chat.endpoint, 0) + 1
        if here >= TRIES_BEFORE_NEXT or error.kind == "timeout":
            attempt.avoided.add(chat.endpoint)
        next_chat = self._pool.choose(attempt.avoided)
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
        """Hold the failure against the event, as far as others were answered meanwhile."""
        answered, failed = attempt.marks[chat.endpoint]
        tally = chat.tally
        if tally.answered - attempt.answers == answered and attempt.failures >= ALONE_FAILURES:
            await chat.check()
        # This failure is among those counted, unless the call was cut short or refused for its rate.
        attempt.suspicion.failed(
            others_answered=max(0, tally.answered - attempt.answers - answered),
            others_failed=max(0, tally.failed - failed - 1),
        )
        attempt.answers = 0
        attempt.marks[chat.endpoint] = (tally.answered, tally.failed)

    async def _pause(self, attempt: Attempt) -> None:
        seconds = self._wait_seconds(attempt)
        attempt.spent_seconds += seconds
        await self._pool.rest(seconds)

    def _wait_seconds(self, attempt: Attempt) -> float:
        """Exponential, with a cap and a jitter of up to a half, so that those who failed together come back apart."""
        patience = self._pool.patience
        attempt.pauses += 1
        longest = min(
            patience.longest_wait_seconds, patience.first_wait_seconds * 2.0 ** min(attempt.pauses - 1, 30)
        )
        return longest * (0.5 + 0.5 * self._pool.chance())

    def _observe(self, chat: GuardedChat, outcome: str, attempt: Attempt) -> None:
        self._pool.observer.asked(chat.endpoint, chat.model, outcome, attempt.call_seconds)

    def _with_accounts(self, result: Result, chat: GuardedChat, attempt: Attempt) -> Result:
        """Say on the result what it took, where that is more than one call at the preferred endpoint."""
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
