"""Two-phase judging: a cheap judge on every sampled answer, the strong one on a random part of them.

The strong judge is drawn with a known probability that depends only on what the cheap one found, by a hash of
its own. So the results of each judge are a random sample with known probabilities, and
`streams.monitoring.two_phase` estimates the mean that the strong one would give on all. Source: Neyman,
"Contribution to the theory of sampling human populations" (JASA, 1938).
"""

from __future__ import annotations

import hashlib
from math import sqrt
from typing import Final

from judge.endpoints.retrying import RetryingJudge
from judge.evaluate.prices import total_cost, total_usage
from schemas import FirstPhase, JudgeTask, Result, Scored

UNSURE_FACTOR: Final = 3.0
"""Answers on which code corrected or doubted the cheap judge are drawn so many times as often."""
_DRAWS: Final = 2**64


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
    return int.from_bytes(digest[:8]) / _DRAWS


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
    update = {
        "judge": calls[0].model_copy(update=told),
        "usage": total_usage([first.usage, second.usage]),
        "cost_usd": total_cost([first.cost_usd, second.cost_usd]),
    }
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
