"""Decision of several verdicts on one answer. Pure.

The published result is always a vote that was given, with its evidence. For numbers it is the median, of an
even number of votes the lower middle one; for booleans and labels the most frequent one, in a tie the one
with the lowest number; in a further tie the first in the panel's order.
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
    """Decision of the votes.

    Args:
        result: The published vote.
        agreement: Agreement of the votes with it, 0 to 1. For booleans, labels and unscored results: share of
            equal verdicts. For numbers: 1 minus their mean distance from it, as a share of the scale.
    """

    result: Scored | Unscored
    agreement: float


def decide(results: Sequence[Result], *, quorum: int, score_range: tuple[float, float]) -> Decided | None:
    """Return the decision of the verdicts among the results.

    Args:
        results: In the panel's order.
        quorum: Required verdicts, at least 1; failed results do not count.
        score_range: Lowest and highest score of the metric.

    Returns:
        The decision; None without a quorum.
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
    # Sorting is stable: of equal votes, the first in the panel's order comes first.
    median = sorted(scored, key=lambda one: one.amount)[(len(scored) - 1) // 2].amount
    chosen = next(one for one in scored if one.amount == median)
    low, high = score_range
    apart = sum(abs(one.amount - median) for one in scored) / (high - low)
    return Decided(chosen, (len(scored) - apart) / verdicts)


def vote_of(result: Result, *, endpoint: str, model: str) -> Vote:
    """Return a member's vote for the published result.

    Args:
        result: Its result.
        endpoint: Endpoint that was asked.
        model: Model that was asked.
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
