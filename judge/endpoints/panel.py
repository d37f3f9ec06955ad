"""Several judges of one metric: a panel, or two phases.

**Panel.** All vote on every answer, and one vote that was given is published, with its evidence. For numbers
it is the median, of an even number the lower middle one; for booleans and labels the most frequent one, in a
tie the one with the lowest number; in a further tie the first in the panel's order.

**Two phases.** A cheap judge judges every sampled answer, the strong one a random part: with a probability
that depends only on what the cheap one found, by a hash of its own. So both have a random sample;
`streams.monitoring.two_phase` estimates the mean that the strong one would give on all. Source: Neyman,
"Contribution to the theory of sampling human populations" (JASA, 1938).
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from collections import Counter
from collections.abc import Sequence
from math import sqrt
from typing import Any, Final

from judge.endpoints.retrying import RetryingJudge
from judge.errors import EndpointDownError
from judge.evaluate.prices import total_cost, total_usage
from schemas import Evaluator, Failed, FirstPhase, JudgeCall, JudgeTask, Result, Scored, Unscored, Vote


class PanelJudge:
    """Asks all members concurrently and publishes the decision of `decide`.

    Members whose endpoint is down are awaited only if the others give no quorum. A member that fails on an
    answer has no vote on it. Without a majority the result is `Failed("no_quorum")`.
    """

    def __init__(self, members: Sequence[RetryingJudge], *, score_range: tuple[float, float]) -> None:
        self._members = tuple(members)
        self._quorum = len(self._members) // 2 + 1
        self._score_range = score_range
        self.evaluator = panel_evaluator([one.evaluator for one in members], quorum=self._quorum)

    async def judge(self, task: JudgeTask) -> Result:
        given: dict[int, Result] = {}
        await self._ask(range(len(self._members)), task, given, patient=False)
        if down := [place for place in range(len(self._members)) if place not in given]:
            await self._ask(down, task, given, patient=True)
        return self._result([(self._members[place], given[place]) for place in sorted(given)])

    async def _ask(
        self, places: Sequence[int], task: JudgeTask, given: dict[int, Result], *, patient: bool
    ) -> None:
        """Put results, except of members whose endpoint is down, into `given`; an error cancels all."""
        waiting = {asyncio.create_task(self._vote(place, task, given, patient=patient)) for place in places}
        try:
            while waiting and not (patient and self._verdicts(given) >= self._quorum):
                done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                for one in done:
                    one.result()
        finally:
            for one in waiting:
                one.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)

    async def _vote(self, place: int, task: JudgeTask, given: dict[int, Result], *, patient: bool) -> None:
        with contextlib.suppress(EndpointDownError):
            given[place] = await self._members[place].judge(task, patient=patient)

    @staticmethod
    def _verdicts(given: dict[int, Result]) -> int:
        return sum(not isinstance(one, Failed) for one in given.values())

    def _result(self, given: Sequence[tuple[RetryingJudge, Result]]) -> Result:
        results = [result for _, result in given]
        update: dict[str, Any] = {
            "evaluator": self.evaluator,
            "judge": self._call(results),
            "usage": total_usage(result.usage for result in results),
            "cost_usd": total_cost(result.cost_usd for result in results),
            "votes": tuple(vote_of(one, endpoint=by.endpoint, model=by.model) for by, one in given),
            "times": _times(results),
        }
        decided = decide(results, quorum=self._quorum, score_range=self._score_range)
        if decided is not None:
            result, agreement = decided
            asked = not isinstance(result, Unscored) or result.judge is not None
            update["agreement"] = round(agreement, 6) if asked else None
            return result.model_copy(update=update)
        failed = [(member.endpoint, one) for member, one in given if isinstance(one, Failed)]
        told = "; ".join(f"{name}: {one.error_type}: {one.detail[:200]}" for name, one in failed)
        verdicts = len(results) - len(failed)
        detail = f"{verdicts} of {len(self._members)} members gave a verdict, {self._quorum} needed: {told}"
        return failed[0][1].model_copy(update={**update, "error_type": "no_quorum", "detail": detail})

    def _call(self, results: Sequence[Result]) -> JudgeCall | None:
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
    """Return a panel's evaluator; members, their order and the quorum change its fingerprint."""
    first = members[0]
    names = [one.fingerprint for one in members]
    digest = hashlib.sha256("\0".join(["panel-1", str(quorum), *names]).encode()).hexdigest()
    models = [one.model for one in members]
    counts = Counter(models).items()
    counted = ", ".join(model if count == 1 else f"{count} of {model}" for model, count in counts)
    return first.model_copy(
        update={
            "fingerprint": digest[:16],
            "scoring": f"{first.scoring}, panel-1, quorum {quorum} of {len(members)}",
            "model": counted,
            "parameters": {"panel": [{"model": one.model, **one.parameters} for one in members]},
        }
    )


def _times(results: Sequence[Result]) -> Any:
    """Return the times of the last vote, with the longest `judge_seconds`: judges run concurrently."""
    seconds = [one.times.judge_seconds for one in results if one.times.judge_seconds is not None]
    last = max((one.times for one in results), key=lambda one: one.judged_at)
    return last.model_copy(update={"judge_seconds": max(seconds, default=None)})


def decide(
    results: Sequence[Result], *, quorum: int, score_range: tuple[float, float]
) -> tuple[Scored | Unscored, float] | None:
    """Return the decision of the results, in the panel's order, and their agreement with it, 0 to 1.

    For booleans, labels and unscored results the agreement is the share of equal verdicts; for numbers 1
    minus their mean distance from it, as a share of the scale. None with fewer verdicts than the quorum.
    """
    scored = [one for one in results if isinstance(one, Scored)]
    unscored = [one for one in results if isinstance(one, Unscored)]
    verdicts = len(scored) + len(unscored)
    if verdicts < quorum:
        return None
    if len(unscored) > len(scored):
        reason, votes = Counter(one.reason for one in unscored).most_common(1)[0]
        return next(one for one in unscored if one.reason == reason), votes / verdicts
    if scored[0].kind in ("boolean", "label"):
        counts = Counter(one.value for one in scored)
        most = max(counts.values())
        chosen = min((one for one in scored if counts[one.value] == most), key=lambda one: one.score)
        return chosen, most / verdicts
    median = sorted(one.amount for one in scored)[(len(scored) - 1) // 2]
    apart = sum(abs(one.amount - median) for one in scored) / (score_range[1] - score_range[0])
    return next(one for one in scored if one.amount == median), (len(scored) - apart) / verdicts


def vote_of(result: Result, *, endpoint: str, model: str) -> Vote:
    vote = Vote(endpoint=endpoint, model=model, status=result.status, cost_usd=result.cost_usd)
    if isinstance(result, Scored):
        return vote.model_copy(update={"score": result.score, "value": result.value})
    reason = result.reason if isinstance(result, Unscored) else result.error_type
    return vote.model_copy(update={"reason": reason})


# Two phases

UNSURE_FACTOR: Final = 3.0
"""Answers on which code corrected or doubted the cheap judge are drawn so many times as often."""


class TwoPhaseJudge:
    """One metric's two judges; the strong one judges at least `share` of the answers.

    What the cheap one gives no score, or is judged again or replayed, the strong one judges for certain.
    """

    def __init__(self, cheap: RetryingJudge, strong: RetryingJudge, *, share: float) -> None:
        self._cheap, self._strong, self.share = cheap, strong, share

    async def judge(self, task: JudgeTask) -> Result:
        if task.replay_id is not None:
            return await self._strong.judge(task)
        first = await self._cheap.judge(task)
        if not isinstance(first, Scored):
            return _together(first, await self._strong.judge(task))
        probability = self.probability(first)
        phase = FirstPhase(
            fingerprint=first.evaluator.fingerprint,
            model=first.evaluator.model,
            score=first.amount,
            probability=probability,
            strong=self._strong.evaluator.fingerprint,
        )
        if draw(task.result_id) >= probability:
            return _drawn(first, phase, 1 - probability)
        second = await self._strong.judge(task)
        return _drawn(_together(first, second), phase, probability)

    def probability(self, first: Scored) -> float:
        """Return the probability of the strong judge, which is below 1 so that each judge has a sample."""
        if first.corrections or first.suspicions:
            return min(UNSURE_FACTOR * self.share, (1 + self.share) / 2)
        return self.share


def draw(result_id: str) -> float:
    """Return a number in [0, 1), the same for each delivery of a task and independent of its sampling."""
    digest = hashlib.sha256(f"two-phase:{result_id}".encode()).digest()
    return int.from_bytes(digest[:8]) / 2**64


def _drawn(result: Result, phase: FirstPhase, probability: float) -> Result:
    sampling = result.sampling
    sampling = sampling.model_copy(update={"probability": sampling.probability * probability})
    return result.model_copy(update={"first_phase": phase, "sampling": sampling})


def _together(first: Result, second: Result) -> Result:
    """Return the second result with the calls, tokens and cost of both; cached only if both are."""
    calls = [one.judge for one in (second, first) if one.judge is not None]
    if not calls:
        return second
    told = {"tries": sum(one.tries for one in calls), "cached": all(one.cached for one in calls)}
    usage, cost_usd = total_usage([first.usage, second.usage]), total_cost([first.cost_usd, second.cost_usd])
    update = {"judge": calls[0].model_copy(update=told), "usage": usage, "cost_usd": cost_usd}
    return second.model_copy(update=update)


def cost_ratio(correlation: float, price_ratio: float) -> float:
    """Return the cost against the strong judge alone for the same standard error; above 1 it does not pay.

    (sqrt(1 - rho²) + |rho| sqrt(r))² at the best share, sqrt(r (1 - rho²)) / |rho|. Source: Cochran, Sampling
    Techniques (1977), section 12.6.

    Args:
        correlation: Of the two judges' scores, rho.
        price_ratio: Price of the cheap judge's verdict as a share of the strong one's, r.
    """
    return (sqrt(1 - correlation**2) + abs(correlation) * sqrt(price_ratio)) ** 2


def best_share(correlation: float, price_ratio: float) -> float:
    """Return the share of strong verdicts at which a mean costs least; 1 if the strong one alone does."""
    if not correlation:
        return 1.0
    return min(sqrt(price_ratio * (1 - correlation**2)) / abs(correlation), 1.0)
