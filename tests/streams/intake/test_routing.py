from __future__ import annotations

from fractions import Fraction
from typing import Any

from schemas import QAEvent
from streams.intake.decision import Decision
from streams.intake.from_settings import reading_policy, sampling_policy
from streams.intake.randomness import RANGE, threshold
from streams.intake.routing import EventCondition, Route, Routing, route
from streams.settings import Settings

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


def probabilities(found: Routing) -> dict[str, Fraction]:
    return {one.metric: one.decision.probability for one in found.assignments}


def test_each_fitting_metric_has_its_own_probability() -> None:
    """A metric's probability is the product of both rates: 0.5 * 0.5 = 1/4; R = 2^56 - 1 is kept by each."""
    found = route(event(reference="r", context={"Page-1": "x"}), decision(RANGE - 1, 0.5), ROUTES)
    assert found.fitting == ("coverage", "relevance")
    assert probabilities(found) == {"coverage": Fraction(1, 2), "relevance": Fraction(1, 4)}
    assert not found.unroutable
    assert not found.not_sampled


def test_a_metric_may_not_sample_an_event() -> None:
    """R = 0 is kept only at rate 1; an event without assignments is not sampled, but routable."""
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


FREE = Route("latency", EventCondition(), rate=0.75, of_all=True)


def test_a_free_metric_has_its_own_rate() -> None:
    """The rate of a free metric applies to all events.

    R at a half is below 1 - 0.05 and above 1 - 0.75: coverage does not keep it and latency does.
    """
    routes = (*ROUTES, FREE)
    assert probabilities(route(event(reference="r"), decision(RANGE // 2, 0.05), routes)) == {
        "latency": Fraction(3, 4)
    }
    assert probabilities(route(event(reference="r"), decision(RANGE - 1, 0.5), routes)) == {
        "coverage": Fraction(1, 2),
        "latency": Fraction(3, 4),
    }


def test_rate_0_applies_to_free_metrics() -> None:
    assert route(event(reference="r"), decision(RANGE - 1, 0.0), (*ROUTES, FREE)).assignments == ()


def test_a_budget_does_not_lower_the_rate_of_free_metrics() -> None:
    """A budget lowers the rates of judged metrics only: at a tenth of the rate they drop R at a half."""
    kept = decision(RANGE // 2, 0.9)
    found = route(event(reference="r"), kept, (*ROUTES, FREE), lowered=kept.lowered(Fraction(1, 10)))
    assert [(one.metric, one.decision.policy) for one in found.assignments] == [("latency", "p")]


def test_the_read_rate_is_the_highest_of_any_metric() -> None:
    """The read rate is the highest rate of any metric, but 0 for a stratum at rate 0."""
    rates = {"gold": 1.0, "test": 0.0}
    rules = [{"name": name, "when": {"tenant": name}, "rate": rate} for name, rate in rates.items()]
    sampling = {"default_rate": 0.05, "rules": rules}
    judged: dict[str, Any] = {"coverage": {}}
    paid = Settings.model_validate({"sampling": sampling, "metrics": judged})
    free = Settings.model_validate(
        {"sampling": sampling, "metrics": judged | {"speed": {"code": "latency", "rate": 0.5}}}
    )
    assert reading_policy(paid).name == sampling_policy(paid.sampling).name
    strata = [reading_policy(free).stratum({"tenant": tenant}) for tenant in ("other", "gold", "test")]
    assert [stratum.rate for stratum in strata] == [Fraction(1, 2), 1, 0]
