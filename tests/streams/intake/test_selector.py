"""`Selector`: the metrics that judge an event, each with its own probability."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any

import pytest

from judge.metrics.registry import build_metric
from schemas import QAEvent
from streams.errors import SettingsError
from streams.intake.reader import EventReader, open_reader
from streams.intake.sampling import RANGE, SamplingPolicy
from streams.intake.selector import (
    EventCondition,
    EventSelection,
    Route,
    Selector,
    metric_routes,
    reading_policy,
    sampling_policy,
)
from streams.settings.tree import Settings
from tests.streams.intake.joining.test_traces import otlp_record

ROUTES = (
    Route("coverage", EventCondition(has=("reference",))),
    Route("relevance", EventCondition(has=("context",)), rate=0.5),
)
FREE = Route("latency", EventCondition(), rate=0.75, of_all=True)
BOTH = {"reference": "r", "context": {"Page-1": "x"}}


def select(
    fields: dict[str, Any],
    randomness: int = RANGE - 1,
    rate: float = 1.0,
    routes: tuple[Route, ...] = ROUTES,
    factor: Callable[[str, Mapping[str, str]], Fraction] | None = None,
) -> EventSelection:
    selector = Selector(SamplingPolicy(default_rate=rate), routes, {}, rate_factor=factor)
    trace_id = f"{1:018x}{randomness:014x}"
    event = QAEvent(event_id="e", question="q", answer="a", trace_id=trace_id, **fields)
    return selector.select(event, None)


def probabilities(found: EventSelection) -> dict[str, Fraction]:
    return {metric: decision.probability for metric, decision in found.assignments}


LABELLED = {"labels": {"tenant": ["gold", "silver"], "app": ["a"]}}


@pytest.mark.parametrize(
    ("when", "fields", "fits"),
    [
        ({}, {"question": "", "answer": ""}, True),
        (LABELLED, {"labels": {"tenant": "gold", "app": "a"}}, True),
        (LABELLED, {"labels": {"tenant": "silver", "app": "a", "more": "x"}}, True),
        (LABELLED, {"labels": {"tenant": "bronze", "app": "a"}}, False),
        (LABELLED, {"labels": {"tenant": "gold"}}, False),
        (LABELLED, {"labels": {"tenant": "Gold", "app": "a"}}, False),
        (LABELLED, {}, False),
        # Blank fields are fields that an event has not.
        ({"has": "reference"}, {}, False),
        ({"has": "reference"}, {"reference": " \n\t\u00a0"}, False),
        ({"has": "reference"}, {"reference": "r"}, True),
        ({"has": "answer"}, {"answer": " "}, False),
        ({"has": "question"}, {}, True),
        ({"has": "context"}, {"context": {}}, False),
        ({"has": "context"}, {"context": {"Page-1": " ", "Page-2": ""}}, False),
        ({"has": "context"}, {"context": {"Page-1": " ", "Page-2": "x"}}, True),
        (LABELLED | {"has": "reference"}, {"reference": "r", "labels": {"tenant": "gold", "app": "a"}}, True),
        (LABELLED | {"has": "reference"}, {"labels": {"tenant": "gold", "app": "a"}}, False),
    ],
)
def test_fields_and_labels_must_both_fit(when: dict[str, Any], fields: dict[str, Any], fits: bool) -> None:
    settings = Settings.model_validate({"metrics": {"coverage": {"when": when}}})
    event = QAEvent.model_validate({"event_id": "e", "question": "q", "answer": "a"} | fields)
    assert metric_routes(settings)[0].when.fits(event) is fits


def test_each_fitting_metric_has_its_own_probability() -> None:
    """A metric's probability is the product of both rates: 0.5 * 0.5 = 1/4; R = 2^56 - 1 is kept by each."""
    found = select(BOTH, rate=0.5)
    assert (found.fitting, found.skipped) == (("coverage", "relevance"), None)
    assert probabilities(found) == {"coverage": Fraction(1, 2), "relevance": Fraction(1, 4)}


@pytest.mark.parametrize(
    ("fields", "randomness", "rate", "skipped"),
    [
        (BOTH, 0, 1.0, None),  # coverage judges all, relevance half
        ({"context": {"Page-1": "x"}}, 0, 1.0, "not_sampled"),  # relevance does not sample it
        ({}, RANGE - 1, 1.0, "unroutable"),
        (BOTH, 0, 0.5, "not_sampled"),
        ({}, 0, 0.5, "not_sampled"),
        (BOTH, RANGE - 1, 0.0, "filtered"),
    ],
)
def test_why_an_event_has_no_task(
    fields: dict[str, Any], randomness: int, rate: float, skipped: str | None
) -> None:
    found = select(fields, randomness, rate)
    assert found.skipped == skipped
    assert bool(found.assignments) == (skipped is None)


def test_a_free_metric_has_its_own_rate() -> None:
    """The rate of a free metric applies to all events, but for a stratum at rate 0.

    R at a half is below 1 - 0.05 and above 1 - 0.75: coverage does not keep it and latency does.
    """
    routes, event = (*ROUTES, FREE), {"reference": "r"}
    assert probabilities(select(event, RANGE // 2, 0.05, routes)) == {"latency": Fraction(3, 4)}
    assert probabilities(select(event, RANGE - 1, 0.5, routes)) == {
        "coverage": Fraction(1, 2),
        "latency": Fraction(3, 4),
    }
    assert select(event, RANGE - 1, 0.0, routes).skipped == "filtered"


def test_a_budget_does_not_lower_the_rate_of_free_metrics() -> None:
    """A budget lowers the rates of judged metrics only: at a tenth of the rate they drop R at a half."""
    found = select({"reference": "r"}, RANGE // 2, 0.9, (*ROUTES, FREE), lambda *_: Fraction(1, 10))
    (one,) = found.assignments
    assert (one.metric, one.decision.policy) == ("latency", found.decision.policy)


async def test_a_time_that_cannot_be_is_that_of_the_record() -> None:
    """The times of spans are the sender's: a trace of the year 9999 is as old as its record."""
    selector = Selector(SamplingPolicy(), (Route("tone"),), {"tone": build_metric("tone")})
    event = QAEvent(event_id="e", question="q", answer="a", occurred_at=datetime(9999, 1, 1, tzinfo=UTC))
    place: Any = otlp_record(None)
    (task,) = await selector.tasks(place, event, selector.select(event, None))
    assert task.occurred_at == datetime.fromtimestamp(place.timestamp, UTC)


def test_the_read_rate_is_the_highest_of_any_metric() -> None:
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


def test_conversations_are_for_readers_of_single_events() -> None:
    tone = {"tone": {"prompt_pack": "p", "unit": "conversation"}}
    document = {"ingest": {"format": "otlp"}, "sampling": {"key": "record_key"}, "metrics": tone}
    settings = Settings.model_validate(document)
    words = "metrics.tone.unit: conversation is not for ingest.format otlp, where a trace is one event"
    with pytest.raises(SettingsError, match=words):
        open_reader(settings, {})
    assert isinstance(open_reader(settings, {}, format_="json"), EventReader)  # lines of a file
