"""A panel: several judges vote on every answer of a metric."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from typing import Any

from judge.errors import EndpointDownError
from judge.pool.panel.votes import Decided, Result, decide, vote_of
from judge.pool.reliable import ReliableJudge
from schemas import Evaluator, Failed, JudgeCall, JudgeTask, Unscored, Usage

MAX_SHOWN_CHARS = 200


@dataclass(frozen=True, slots=True)
class Member:
    """One vote of a panel.

    Args:
        endpoint: Endpoint that is asked.
        model: Model that is asked.
        evaluator: Evaluator of its results.
        judge: Its judge.
    """

    endpoint: str
    model: str
    evaluator: Evaluator
    judge: ReliableJudge


class PanelJudge:
    """Asks all members concurrently and publishes the decision of `votes.decide`.

    Members whose endpoint is down are awaited only if the others give no quorum. A member that fails on an
    answer has no vote on it. Without a quorum the result is `Failed("no_quorum")`.

    Args:
        members: In the panel's order; at least two.
        quorum: Required verdicts; from 1 to the number of members.
        score_range: Lowest and highest score of the metric.
    """

    def __init__(self, members: Sequence[Member], *, quorum: int, score_range: tuple[float, float]) -> None:
        self._members = tuple(members)
        self._quorum = quorum
        self._score_range = score_range
        self.evaluator = panel_evaluator([one.evaluator for one in members], quorum=quorum)

    async def judge(self, task: JudgeTask) -> Result:
        """Judge one answer, retrying transient failures without a time limit.

        Raises:
            JudgeConfigurationError: No endpoint can judge any event as configured.
            DrainingError: The task was cancelled before it was sent.
            ValueError: The task belongs to another metric.
        """
        asked = range(len(self._members))
        given: dict[int, Result] = dict(
            await _all([self._vote(place, task, patient=False) for place in asked])
        )
        down = [place for place in asked if place not in given]
        if down and self._verdicts(given) < self._quorum:
            await self._wait_for(down, task, given)
        return self._result([(self._members[place], given[place]) for place in sorted(given)])

    async def _wait_for(self, down: Sequence[int], task: JudgeTask, given: dict[int, Result]) -> None:
        """Wait for members whose endpoint is down, until there is a quorum or all have answered."""
        waiting = {asyncio.create_task(self._vote(place, task, patient=True)) for place in down}
        try:
            while waiting and self._verdicts(given) < self._quorum:
                done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                given.update(one for task_ in done for one in task_.result())
        finally:
            await _cancelled(waiting)

    async def _vote(self, place: int, task: JudgeTask, *, patient: bool) -> list[tuple[int, Result]]:
        """Return one member's result; empty if its endpoint is down and the caller does not wait."""
        try:
            return [(place, await self._members[place].judge.judge(task, patient=patient))]
        except EndpointDownError:
            return []

    @staticmethod
    def _verdicts(given: dict[int, Result]) -> int:
        return sum(not isinstance(one, Failed) for one in given.values())

    def _result(self, given: Sequence[tuple[Member, Result]]) -> Result:
        results = [result for _, result in given]
        decided = decide(results, quorum=self._quorum, score_range=self._score_range)
        votes = tuple(
            vote_of(result, endpoint=member.endpoint, model=member.model) for member, result in given
        )
        common = {
            "evaluator": self.evaluator,
            "judge": self._call(results),
            "usage": _usage(results),
            "cost_usd": _cost_usd(results),
            "votes": votes,
        }
        if decided is None:
            return self._without_quorum(results, common)
        return decided.result.model_copy(update={**common, **_agreement(decided), "times": _times(results)})

    def _without_quorum(self, results: Sequence[Result], common: dict[str, Any]) -> Failed:
        failed = [one for one in results if isinstance(one, Failed)]
        told = "; ".join(
            f"{vote.endpoint}: {one.error_type}: {one.detail[:MAX_SHOWN_CHARS]}"
            for vote, one in zip(common["votes"], results, strict=True)
            if isinstance(one, Failed)
        )
        given = len(results) - len(failed)
        detail = f"{given} of {len(self._members)} members gave a verdict, {self._quorum} needed: {told}"
        update = {**common, "error_type": "no_quorum", "detail": detail, "times": _times(results)}
        return failed[0].model_copy(update=update)

    def _call(self, results: Sequence[Result]) -> JudgeCall | None:
        """Return the members' calls as one; None if there was none."""
        calls = [one.judge for one in results if one.judge is not None]
        if not calls:
            return None
        return JudgeCall(
            endpoint=", ".join(dict.fromkeys(one.endpoint for one in calls)),
            model_asked=self.evaluator.model,
            model_answered=", ".join(dict.fromkeys(one.model_answered for one in calls)),
            cached=all(one.cached for one in calls),
            tries=sum(one.tries for one in calls),
        )


def panel_evaluator(members: Sequence[Evaluator], *, quorum: int) -> Evaluator:
    """Return a panel's evaluator; members, their order and the quorum change its fingerprint.

    Args:
        members: Its members' evaluators, in the panel's order.
        quorum: Required verdicts.
    """
    first = members[0]
    names = [one.fingerprint for one in members]
    digest = hashlib.sha256("\0".join(["panel-1", str(quorum), *names]).encode()).hexdigest()
    models = [one.model for one in members]
    counted = ", ".join(
        model if models.count(model) == 1 else f"{models.count(model)} of {model}"
        for model in dict.fromkeys(models)
    )
    return first.model_copy(
        update={
            "fingerprint": digest[:16],
            "scoring": f"{first.scoring}, panel-1, quorum {quorum} of {len(members)}",
            "model": counted,
            "parameters": {"panel": [{"model": one.model, **one.parameters} for one in members]},
        }
    )


async def _all(votes: Sequence[Coroutine[Any, Any, list[tuple[int, Result]]]]) -> list[tuple[int, Result]]:
    """Await all votes; the first error cancels the others."""
    tasks = {asyncio.create_task(one) for one in votes}
    try:
        return [vote for given in await asyncio.gather(*tasks) for vote in given]
    finally:
        await _cancelled(tasks)


async def _cancelled(tasks: set[asyncio.Task[list[tuple[int, Result]]]]) -> None:
    for one in tasks:
        one.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _agreement(decided: Decided) -> dict[str, Any]:
    """Return the field `agreement`; None if no judge was asked."""
    asked = not isinstance(decided.result, Unscored) or decided.result.judge is not None
    return {"agreement": round(decided.agreement, 6) if asked else None}


def _usage(results: Sequence[Result]) -> Usage:
    return Usage(
        input_tokens=sum(one.usage.input_tokens for one in results),
        cached_tokens=sum(one.usage.cached_tokens for one in results),
        output_tokens=sum(one.usage.output_tokens for one in results),
    )


def _cost_usd(results: Sequence[Result]) -> float | None:
    """Return the total cost of the votes; None if a price is unknown."""
    known = [one.cost_usd for one in results if one.cost_usd is not None]
    return sum(known) if len(known) == len(results) else None


def _times(results: Sequence[Result]) -> Any:
    """Return the times of the last vote, with the longest `judge_seconds`: judges run concurrently."""
    seconds = [one.times.judge_seconds for one in results if one.times.judge_seconds is not None]
    last = max((one.times for one in results), key=lambda one: one.judged_at)
    return last.model_copy(update={"judge_seconds": max(seconds, default=None)})
