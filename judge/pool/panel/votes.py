"""What several verdicts on one answer decide. Pure.

What is published is always a vote that was given, with its evidence: of numbers the median, with an even
number of votes the lower of the two in the middle; of booleans and labels the most frequent, in a tie the one
with the lowest number, more being better; in a tie of these the first in the panel's order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from schemas import Failed, Scored, Unscored, Vote

Result: TypeAlias = Scored | Unscored | Failed


@dataclass(frozen=True, slots=True)
class Decided:
    """What the votes decide.

    Args:
        result: The vote that is published.
        agreement: How far the votes agree with it, 0 to 1. Of booleans, labels and answers that cannot be
            scored the share of the verdicts that are alike; of numbers 1 less their mean distance from it, as
            a share of the scale.
    """

    result: Scored | Unscored
    agreement: float


def decide(results: Sequence[Result], *, quorum: int, score_range: tuple[float, float]) -> Decided | None:
    """Decide by the verdicts among some results.

    Args:
        results: In the panel's order.
        quorum: Verdicts that are needed; a failed result is none. At least 1.
        score_range: Lowest and highest score of the metric.

    Returns:
        What is decided; None without a quorum.
    """
    scored = [one for one in results if isinstance(one, Scored)]
    unscored = [one for one in results if isinstance(one, Unscored)]
    verdicts = len(scored) + len(unscored)
    if verdicts < quorum:
        return None
    if len(unscored) > len(scored):
        reason, votes = Counter(one.reason for one in unscored).most_common(1)[0]
        return Decided(next(one for one in unscored if one.reason == reason), votes / verdicts)
    if scored[0].kind in ("boolean", "label"):
        return _most_frequent(scored, verdicts)
    return _median(scored, verdicts, score_range)


def _most_frequent(scored: Sequence[Scored], verdicts: int) -> Decided:
    votes = Counter(one.value for one in scored)
    most = max(votes.values())
    chosen = min((one for one in scored if votes[one.value] == most), key=lambda one: one.score)
    return Decided(chosen, most / verdicts)


def _median(scored: Sequence[Scored], verdicts: int, score_range: tuple[float, float]) -> Decided:
    # Sorting is stable, so of equal votes the first in the panel's order stands first.
    median = sorted(scored, key=lambda one: one.amount)[(len(scored) - 1) // 2].amount
    chosen = next(one for one in scored if one.amount == median)
    low, high = score_range
    apart = sum(abs(one.amount - median) for one in scored) / (high - low)
    return Decided(chosen, (len(scored) - apart) / verdicts)


def vote_of(result: Result, *, endpoint: str, model: str) -> Vote:
    """Give what a member said, as a result publishes it.

    Args:
        result: Its result.
        endpoint: Where it was asked.
        model: Which model was asked.
    """
    scored = result if isinstance(result, Scored) else None
    return Vote(
        endpoint=endpoint,
        model=model,
        status=result.status,
        score=None if scored is None else scored.score,
        value=None if scored is None else scored.value,
        reason=result.reason
        if isinstance(result, Unscored)
        else result.error_type
        if isinstance(result, Failed)
        else None,
        cost_usd=result.cost_usd,
    )
