"""A judge that waits out what passes: one metric over all endpoints of a pool, one verdict from one of them.

Transient failures are tried again, at the same endpoint and then at the next; an outage of all is waited for, however
long it takes. A verdict comes whole from one endpoint, so its evaluator names the model that gave it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

from judge.endpoint.tally import VERDICT, Verdict
from judge.errors import EndpointDownError, JudgeConfigurationError, JudgeUnavailableError
from judge.pool.guarded_chat import GuardedChat
from judge.pool.pool import EndpointPool
from judge.pool.suspicion import Suspicion
from judge.verdict.evaluator import Judge
from schemas import Failed, JudgeTask, Scored, Unscored, Usage

Result: TypeAlias = Scored | Unscored | Failed

TRIES_BEFORE_NEXT: Final = 2
"""Failures at an endpoint before the next one is asked: a single hiccup is not worth a number of another model."""
ALONE_FAILURES: Final = 2
"""After so many failures without an answer to anybody else, the endpoint is asked whether it answers at all."""
LEAST_REST_SHARE: Final = 0.1
"""With less than this left of the time budget, the verdict starts anew."""
_NO_TOKENS: Final = Usage()


class ReliableJudge:
    """One metric at the endpoints of a pool.

    Args:
        judges: One for each of the pool's endpoints, by name; each asks the pool's `GuardedChat` of that name.
        pool: The endpoints. Stays the caller's to close.
    """

    def __init__(self, judges: Mapping[str, Judge], pool: EndpointPool) -> None:
        self._judges = {chat.endpoint: judges[chat.endpoint] for chat in pool.chats}
        self._pool = pool
        self._first = pool.chats[0]

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
        verdict = Verdict()
        before = VERDICT.set(verdict)
        try:
            return await self._decide(task, verdict)
        finally:
            VERDICT.reset(before)

    async def _decide(self, task: JudgeTask, verdict: Verdict) -> Result:
        case: _Case | None = None
        while True:
            # With all of them down the first is "asked" too: what needs no call is decided all the same.
            chat = self._pool.choose(() if case is None else case.avoided) or self._first
            judge = self._judges[chat.endpoint]
            calls, used = verdict.calls, len(verdict.used)
            verdict.call_seconds = 0.0
            try:
                result = await judge.judge(task)
            except EndpointDownError:
                await self._pool.someone()
                continue
            except JudgeConfigurationError as error:
                self._observe(chat, "configuration", verdict)
                self._pool.take_out(chat, error)
                continue
            except JudgeUnavailableError as error:
                case = case or _Case()
                if verdict.calls == calls:
                    # No call failed: somebody before it asks for patience.
                    await self._pool.rest(error.retry_after_seconds or self._wait_seconds(case))
                    continue
                self._observe(chat, error.kind, verdict)
                given_up = await self._after(error, chat, judge, task, verdict, case)
                if given_up is not None:
                    return self._with_used(given_up, verdict.used)
                continue
            if verdict.calls > calls:
                outcome = result.error_type if isinstance(result, Failed) else result.status
                self._observe(chat, outcome, verdict)
            return self._with_used(self._recorded(result, chat, verdict), verdict.used[:used])

    async def _after(
        self,
        error: JudgeUnavailableError,
        chat: GuardedChat,
        judge: Judge,
        task: JudgeTask,
        verdict: Verdict,
        case: _Case,
    ) -> Failed | None:
        """Draw the lesson of a failure, and wait."""
        if error.kind == "rate_limited":
            # Nothing to do with the event: it was not its turn yet, and waiting for that takes nothing of its time.
            verdict.spent_seconds -= verdict.call_seconds
            return None
        case.failures += 1
        await self._suspect(chat, verdict, case)
        if case.suspicion.proven:
            detail = f"{case.failures} calls failed while others were answered; the last: {error}"
            return judge.failed(task, "no_answer", detail, tries=verdict.calls)
        at_endpoint = case.at_endpoint[chat.endpoint] = case.at_endpoint.get(chat.endpoint, 0) + 1
        if at_endpoint >= TRIES_BEFORE_NEXT or error.kind == "timeout":
            case.avoided.add(chat.endpoint)
        next_chat = self._pool.choose(case.avoided)
        if next_chat is not None and next_chat.endpoint not in case.avoided:
            if next_chat is chat:
                await self._pause(verdict, case)
        else:
            case.avoided.clear()
            case.at_endpoint.clear()
            await self._pause(verdict, case)
        timeout_seconds = self._pool.patience.timeout_seconds
        if timeout_seconds - verdict.spent_seconds < LEAST_REST_SHARE * timeout_seconds:
            verdict.spent_seconds = 0.0
        return None

    async def _suspect(self, chat: GuardedChat, verdict: Verdict, case: _Case) -> None:
        """Hold the failure against the event, as far as others were answered meanwhile."""
        answered, failed = verdict.marks[chat.endpoint]
        tally = chat.tally
        if tally.answered - verdict.answers == answered and case.failures >= ALONE_FAILURES:
            await chat.check()
        # This failure is among those counted, unless the call was cut short or refused for its rate.
        case.suspicion.failed(
            others_answered=max(0, tally.answered - verdict.answers - answered),
            others_failed=max(0, tally.failed - failed - 1),
        )
        verdict.answers = 0
        verdict.marks[chat.endpoint] = (tally.answered, tally.failed)

    async def _pause(self, verdict: Verdict, case: _Case) -> None:
        seconds = self._wait_seconds(case)
        verdict.spent_seconds += seconds
        await self._pool.rest(seconds)

    def _wait_seconds(self, case: _Case) -> float:
        """Exponential, with a cap and a jitter of up to a half, so that those who failed together come back apart."""
        patience = self._pool.patience
        case.pauses += 1
        longest = min(
            patience.longest_wait_seconds, patience.first_wait_seconds * 2.0 ** min(case.pauses - 1, 30)
        )
        return longest * (0.5 + 0.5 * self._pool.chance())

    def _observe(self, chat: GuardedChat, outcome: str, verdict: Verdict) -> None:
        self._pool.observer.asked(chat.endpoint, chat.model, outcome, verdict.call_seconds)

    def _recorded(self, result: Result, chat: GuardedChat, verdict: Verdict) -> Result:
        """Say on the result what it took, where that is more than one call at the preferred endpoint."""
        call = result.judge
        fallback = chat is not self._first
        if call is None or (not fallback and verdict.calls <= call.tries):
            return result
        tries = max(call.tries, verdict.calls)
        return result.model_copy(
            update={"judge": call.model_copy(update={"fallback": fallback, "tries": tries})}
        )

    def _with_used(self, result: Result, used: Sequence[tuple[str, Usage]]) -> Result:
        """Add to a result what calls have used that came to nothing, at whichever endpoint."""
        if not used:
            return result
        tokens = [result.usage, *(usage for _, usage in used)]
        costs = [self._judges[endpoint].cost_usd(usage) for endpoint, usage in used]
        # Without a reply of its own it tells no cost, and what went before is all that is known of.
        if result.usage != _NO_TOKENS:
            costs.append(result.cost_usd)
        known = [cost for cost in costs if cost is not None]
        return result.model_copy(
            update={
                "usage": Usage(
                    input_tokens=sum(one.input_tokens for one in tokens),
                    cached_tokens=sum(one.cached_tokens for one in tokens),
                    output_tokens=sum(one.output_tokens for one in tokens),
                ),
                "cost_usd": sum(known) if len(known) == len(costs) else None,
            }
        )


class _Case:
    """One event's failures."""

    __slots__ = ("at_endpoint", "avoided", "failures", "pauses", "suspicion")

    def __init__(self) -> None:
        self.failures = 0
        self.pauses = 0
        self.suspicion = Suspicion()
        self.at_endpoint: dict[str, int] = {}
        """Failures since all endpoints were last tried in vain."""
        self.avoided: set[str] = set()
