"""Which metrics judge an event."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from schemas import QAEvent
from streams.intake.conditions import EventCondition
from streams.intake.decision import Decision
from streams.intake.randomness import RANGE, threshold
from streams.intake.routing import Route, route

ROUTES = (
    Route("coverage", EventCondition(has=("reference",))),
    Route("relevance", EventCondition(has=("context",)), rate=0.5),
)


def event(**fields: Any) -> QAEvent:
    return QAEvent(event_id="e", question="q", answer="a", **fields)


def decision(randomness: int, rate: float = 1.0) -> Decision:
    return Decision(
        randomness=randomness, rate=Fraction(rate), threshold=threshold(rate), stratum="default", policy="p"
    )


def test_each_fitting_metric_has_its_own_probability() -> None:
    """Rate 0.5 of the events and 0.5 of those for relevance: 1/4. R at the very top is kept by both."""
    found = route(event(reference="r", context={"Page-1": "x"}), decision(RANGE - 1, 0.5), ROUTES)
    assert found.fitting == ("coverage", "relevance")
    assert [(one.metric, one.decision.probability) for one in found.assignments] == [
        ("coverage", Fraction(1, 2)),
        ("relevance", Fraction(1, 4)),
    ]
    assert not found.unroutable
    assert not found.not_sampled


def test_a_metric_may_pass_an_event_by() -> None:
    """R = 0 is kept by rate 1 only; where no metric is left the event is skipped, not unroutable."""
    both = route(event(reference="r", context={"Page-1": "x"}), decision(0), ROUTES)
    assert [one.metric for one in both.assignments] == ["coverage"]
    one = route(event(context={"Page-1": "x"}), decision(0), ROUTES)
    assert one.fitting == ("relevance",)
    assert one.assignments == ()
    assert one.not_sampled
    assert not one.unroutable


def test_an_event_that_fits_no_metric_is_unroutable() -> None:
    found = route(event(), decision(RANGE - 1), ROUTES)
    assert found.unroutable
    assert not found.not_sampled


def test_an_event_that_was_not_kept_has_no_assignments() -> None:
    assert route(event(reference="r"), decision(0, 0.5), ROUTES).assignments == ()
