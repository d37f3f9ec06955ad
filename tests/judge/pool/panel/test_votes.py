from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge.pool.panel.votes import Result, decide, vote_of
from schemas import Evaluator, Failed, Sampling, Scored, Source, Times, Unscored

_AT = datetime(2026, 1, 1, tzinfo=UTC)
_COMMON: dict[str, Any] = {
    "result_id": "0" * 32,
    "event_id": "e",
    "metric": "tone",
    "source": Source(topic="t", partition=0, offset=0),
    "evaluator": Evaluator(fingerprint="f", prompt="p", schema_="s", scoring="v", model="m"),
    "sampling": Sampling(probability=1, stratum="default", policy="p"),
    "times": Times(occurred_at=_AT, sampled_at=_AT, judged_at=_AT),
}
FAILED = Failed(error_type="no_answer", detail="gone", **_COMMON)
EMPTY = Unscored(reason="missing_input", **_COMMON)


def number(score: int) -> Scored:
    return Scored(verdict={"score": score}, score=score, **_COMMON)


def label(value: str | bool, score: int) -> Scored:
    kind = "boolean" if isinstance(value, bool) else "label"
    return Scored(verdict={"score": value}, score=score, kind=kind, value=value, **_COMMON)


@pytest.mark.parametrize(
    ("scores", "score", "agreement"),
    [
        # The median; both others are one step of four away: 1 - (1 + 0 + 1) / 4 / 3.
        ([5, 3, 4], 4, 1 - 2 / 12),
        ([2, 2, 2], 2, 1.0),
        # An even number: the lower of the middle two; the other is 2 of 4 away, a mean of 0.25.
        ([2, 4], 2, 1 - 0.25),
        ([1, 5, 2, 4], 2, 1 - (1 + 3 + 0 + 2) / 4 / 4),
        ([1, 5], 1, 0.5),
    ],
)
def test_numbers_have_their_median(scores: list[int], score: int, agreement: float) -> None:
    """Numbers are decided by the lower median, which is the vote of a member."""
    decided = decide([number(one) for one in scores], quorum=1, score_range=(1, 5))
    assert decided is not None
    assert decided.result == number(score)
    assert decided.agreement == pytest.approx(agreement)


@pytest.mark.parametrize(
    ("votes", "value", "agreement"),
    [
        ([("good", 2), ("bad", 0), ("good", 2)], "good", 2 / 3),
        # A tie goes to the lower number.
        ([("good", 2), ("bad", 0)], "bad", 1 / 2),
        ([("good", 2), ("good", 2), ("fair", 1), ("fair", 1), ("bad", 0)], "fair", 2 / 5),
        # Two labels with one number: the first in the panel's order.
        ([("other", 1), ("fair", 1)], "other", 1 / 2),
        ([(True, 0), (False, 1), (True, 0)], True, 2 / 3),
        ([(True, 0), (False, 1)], True, 1 / 2),
    ],
)
def test_labels_have_their_majority(
    votes: list[tuple[str | bool, int]], value: str | bool, agreement: float
) -> None:
    """Labels are decided by the majority; a tie goes to the lower number."""
    decided = decide([label(*one) for one in votes], quorum=1, score_range=(0, 2))
    assert decided is not None
    assert isinstance(decided.result, Scored)
    assert decided.result.value == value
    assert decided.agreement == pytest.approx(agreement)


def test_a_failed_member_has_no_vote() -> None:
    """Failed members do not count for the quorum."""
    results: list[Result] = [number(4), FAILED, number(5)]
    decided = decide(results, quorum=2, score_range=(1, 5))
    assert decided is not None
    assert decided.result == number(4)
    assert decide(results, quorum=3, score_range=(1, 5)) is None
    assert decide([FAILED, FAILED], quorum=1, score_range=(1, 5)) is None


def test_a_majority_without_a_score_is_unscored() -> None:
    """The result is unscored if most members say so; in a tie the number is kept, with an agreement of one
    half.
    """
    most = decide([EMPTY, number(3), EMPTY], quorum=3, score_range=(1, 5))
    assert most is not None
    assert most.result == EMPTY
    assert most.agreement == pytest.approx(2 / 3)
    tie = decide([EMPTY, number(3)], quorum=2, score_range=(1, 5))
    assert tie is not None
    assert tie.result == number(3)
    assert tie.agreement == 0.5


@given(st.lists(st.integers(1, 5), min_size=1, max_size=9), st.randoms(use_true_random=False))
def test_the_order_of_the_panel_does_not_matter_to_a_number(scores: list[int], random: Any) -> None:
    """The order of the votes does not change a number, which lies between the lowest and the highest vote."""
    shuffled = random.sample(scores, len(scores))
    one = decide([number(score) for score in scores], quorum=1, score_range=(1, 5))
    other = decide([number(score) for score in shuffled], quorum=1, score_range=(1, 5))
    assert one is not None
    assert one == other
    assert isinstance(one.result, Scored)
    assert min(scores) <= one.result.score <= max(scores)
    assert 0 <= one.agreement <= 1


def test_a_vote_records_score_value_or_reason() -> None:
    """A vote records score, value or reason."""
    assert vote_of(number(3), endpoint="a", model="m").score == 3
    assert vote_of(label("good", 2), endpoint="a", model="m").value == "good"
    assert vote_of(EMPTY, endpoint="a", model="m").reason == "missing_input"
    assert vote_of(FAILED, endpoint="a", model="m").reason == "no_answer"
