from __future__ import annotations

from datetime import UTC, datetime
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from judge.metrics.coverage import Coverage
from schemas import QAEvent
from streams.intake.sampling import SamplingPolicy
from streams.intake.selector import Intake, Route, Selector
from streams.judging.budget import Budget, BudgetLimits
from streams.telemetry.instruments import Metrics
from tests.streams.intake.joining.test_conversations import PassingOutbox
from tests.streams.intake.joining.test_traces import otlp_record

FACTORS = st.sampled_from([Fraction(1, 2**power) for power in range(11)])
NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)


@given(st.text(min_size=1, max_size=20), st.floats(0.01, 1), FACTORS, FACTORS)
def test_what_a_lower_rate_keeps_a_higher_one_keeps(
    event_id: str, rate: float, one: Fraction, other: Fraction
) -> None:
    """An event kept at a lower factor is kept at each higher factor."""
    decision = SamplingPolicy(default_rate=rate).decide(event_id=event_id, labels={})
    low, high = sorted((one, other))
    if decision.lowered(low).keep:
        assert decision.lowered(high).keep
        assert decision.keep
    # The probability is rounded up to a multiple of 2^-56.
    assert float(decision.lowered(low).probability) == pytest.approx(rate * float(low), rel=1e-9)
    assert decision.lowered(Fraction(1)) is decision


def test_a_lowered_decision_names_its_factor() -> None:
    """The policy's name has the factor in force."""
    decision = SamplingPolicy(default_rate=0.5).decide(event_id="e", labels={})
    assert decision.lowered(Fraction(1, 4)).policy == f"{decision.policy}*1/4"
    assert decision.lowered(Fraction(1, 4)).stratum == decision.stratum


def test_weighting_stays_unbiased_while_the_budget_moves_the_rate() -> None:
    """The weighted count and mean are unbiased while the budget lowers the rate.

    The factor depends only on earlier spending. 5,000 events, rate 1/2, 2,000 calls: the first 1,600 are
    spent at 1/2 (3,200 events), 200 at 1/4 (800), 100 at 1/8 (800), and some 12 at 1/16 (200). The variance
    of the estimated number, the sum of (1-p)/p^2 over kept events, is about 3,200 + 2,400 + 5,600 + 2,900 =
    14,100: a standard error of 119, of which four are allowed.
    """
    policy = SamplingPolicy(default_rate=0.5)
    budget = Budget(BudgetLimits(calls=2000))
    weights: list[float] = []
    scores: list[int] = []
    factors = set()
    for number in range(5000):
        factor = budget.rate_factor(NOON)
        factors.add(factor)
        decision = policy.decide(event_id=f"event {number}", labels={}).lowered(factor)
        if decision.keep:
            assert budget.admit(NOON) is None
            budget.settle(NOON, usd=None, calls=1)
            weights.append(1 / float(decision.probability))
            scores.append(number % 2)
    assert len(factors) > 2
    assert sum(weights) == pytest.approx(5000, abs=4 * 119)
    mean = sum(weight * score for weight, score in zip(weights, scores, strict=True)) / sum(weights)
    assert mean == pytest.approx(0.5, abs=0.1)


async def test_the_intake_records_the_probability_that_was_in_force() -> None:
    """A redelivered event has the probability in force and the same result id."""
    factor = Fraction(1)
    outbox: Any = PassingOutbox()
    record: Any = otlp_record(None, key=b"k", topic="qa.events", timestamp=NOON.timestamp())
    metrics = Metrics(CollectorRegistry())
    # R / 2^56 is 0.796: kept at factor 1/2, not at 1/1024.
    event = QAEvent(event_id="e-4", question="q", answer="a", reference="r")
    randomness = SamplingPolicy().decide(event_id=event.event_id, labels={}).randomness

    async def read(_: object) -> QAEvent:
        return event

    intake = Intake(
        read=read,
        selector=Selector(
            SamplingPolicy(), (Route("coverage"),), {"coverage": Coverage()}, rate_factor=lambda: factor
        ),
        output=outbox,
        counts=metrics,
    )
    for factor in (Fraction(1), Fraction(1, 2), Fraction(1, 1024)):  # noqa: B007 - read by the intake
        await intake.handle(record)
    kept = [f for f in (1.0, 0.5, 1 / 1024) if randomness >= round((1 - f) * 2**56)]
    assert [task.sampling.probability for task in outbox.tasks] == kept
    assert len({task.result_id for task in outbox.tasks}) == 1
    counts = metrics.event_counts()
    assert counts["sampled", ""] == len(kept)
    assert counts["skipped", "not_sampled"] == 3 - len(kept)
    assert len(kept) == 2
