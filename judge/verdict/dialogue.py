"""Ask a judge until its reply is valid: repair turns, and parts of tasks too long for one reply."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, TypeVar

from judge.chat import ChatReply, ChatRequest
from judge.errors import EventError, InvalidVerdictError
from judge.metric import Metric, Outcome, ScoredOutcome
from judge.task import reading_size, size_of
from judge.verdict import aside
from judge.verdict.fitting import Fitted
from judge.verdict.preparation import Preparation
from judge.verdict.repair import not_mended, repair_request
from schemas import JudgeTask

Ask: TypeAlias = Callable[[ChatRequest], Awaitable[ChatReply]]
"""Makes one call; raises what `judge.chat.ChatClient.complete` does."""

MAX_REPLY_CHARS = 1_000_000
"""Longer replies are rejected; no requested reply is as long."""

MAX_HALVINGS = 2
"""How often a part with a truncated reply is halved; bounds the cost of a judge that never stops."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Asking:
    """Functions that make the calls for one verdict.

    Args:
        ask: Makes a call.
        apart: Opens the function for the calls of one part, if parts are judged concurrently; None: use
            `ask`.
    """

    ask: Ask
    apart: Callable[[], AbstractContextManager[Ask]] | None = None

    @contextmanager
    def beside(self) -> Iterator[Ask]:
        """Yield the function for the calls of one part."""
        if self.apart is None:
            yield self.ask
            return
        with self.apart() as ask:
            yield ask


class Dialogue:
    """Asks about a task and interprets the replies.

    Args:
        metric: The metric.
        preparation: Builds requests.
        repair_attempts: How often the judge may repair an invalid reply; 0 or more.
        verification_seconds: Time limit for processing an event's texts or a reply; above 0.
    """

    def __init__(
        self, metric: Metric, preparation: Preparation, *, repair_attempts: int, verification_seconds: float
    ) -> None:
        self._metric = metric
        self._preparation = preparation
        self._repair_attempts = repair_attempts
        self._verification_seconds = verification_seconds

    async def outcome(
        self, task: JudgeTask, prepared: Sequence[Fitted], asking: Asking, replies: list[ChatReply]
    ) -> Outcome:
        """Ask about all parts of a task, and interpret their merged replies.

        If the reply to a part is truncated, its halves are asked about instead.

        Args:
            task: The task.
            prepared: Its parts with their requests; usually one.
            asking: Makes the calls.
            replies: Receives every reply.

        Raises:
            EventError: A part cannot be judged; `InvalidVerdictError`: its reply is invalid.
        """
        if len(prepared) == 1:
            (whole,) = prepared
            try:
                outcome, _ = await self._ask(asking.ask, whole, replies)
            except EventError as error:
                prepared = await self._halves(whole, error)
            else:
                return (
                    replace(outcome, corrections=(*whole.cuts, *outcome.corrections))
                    if whole.cuts
                    else outcome
                )
        said = await _all(self._part(one, asking, replies) for one in prepared)
        return await self._interpreted(task, self._metric.merged([text for texts in said for text in texts]))

    async def _part(
        self, part: Fitted, asking: Asking, replies: list[ChatReply], halvings: int = MAX_HALVINGS
    ) -> list[str]:
        """Return the replies to a part: one, or those to its halves."""
        try:
            with asking.beside() as ask:
                _, said = await self._ask(ask, part, replies)
        except EventError as error:
            if not halvings:
                raise
            halves = await self._halves(part, error)
        else:
            return [said]
        return [text for half in halves for text in await self._part(half, asking, replies, halvings - 1)]

    async def _halves(self, part: Fitted, error: EventError) -> tuple[Fitted, ...]:
        """Return the halves of a part whose reply was truncated.

        Raises:
            EventError: `error` itself, if it is another one or the part cannot be halved.
        """
        if error.error_type != "reply_cut" or part.cuts:
            raise error
        size = reading_size(part.task)
        halves = await aside.read(size, self._verification_seconds, self._preparation, part.task, halve=True)
        if not isinstance(halves, tuple) or len(halves) == 1:
            raise error
        return halves

    async def _ask(self, ask: Ask, part: Fitted, replies: list[ChatReply]) -> tuple[Outcome, str]:
        """Ask until the reply is valid or the repair attempts are used up.

        An outcome with an objection is sent back once; it is used if the next reply is invalid.

        Returns:
            The outcome and its reply.

        Raises:
            InvalidVerdictError: No reply is valid; the detail contains the last one, truncated.
        """
        asking = part.request
        problem: InvalidVerdictError | None = None
        standing: tuple[Outcome, str] | None = None
        last = ""
        repairs = 0
        while True:
            try:
                reply = await ask(asking)
            except EventError as error:
                if error.reply is not None:
                    replies.append(error.reply)
                if standing is not None:
                    return standing
                if problem is None or error.error_type != "context_too_long":
                    raise
                # Only the repair turn exceeds the context window.
                raise not_mended(problem, last, attempts=repairs - 1) from error
            replies.append(reply)
            last = reply.text
            try:
                outcome = await self._interpreted(part.task, last)
            except InvalidVerdictError as error:
                problem, ends = error, standing is not None
            else:
                objection = outcome.objection if isinstance(outcome, ScoredOutcome) else None
                problem = InvalidVerdictError(objection or "")
                ends = objection is None or standing is not None
                standing = outcome, last
            if ends or repairs >= self._repair_attempts:
                if standing is None:
                    raise not_mended(problem, last, attempts=repairs)
                return standing
            repairs += 1
            asking = repair_request(part.request, last, problem)

    async def _interpreted(self, task: JudgeTask, reply: str) -> Outcome:
        if len(reply) > MAX_REPLY_CHARS:
            raise InvalidVerdictError(
                f"the reply has {len(reply)} characters, at most {MAX_REPLY_CHARS} are read"
            )
        size = reading_size(task) + size_of(reply)
        return await aside.read(size, self._verification_seconds, self._metric.interpret, task, reply)


async def _all(parts: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Run all concurrently; the first failure cancels the others."""
    tasks = [asyncio.ensure_future(part) for part in parts]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
