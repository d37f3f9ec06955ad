from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from fractions import Fraction
from types import SimpleNamespace
from typing import Any, cast

import pytest
from prometheus_client import CollectorRegistry

from judge.metric import Inputs
from judge.metrics.coverage import Coverage
from judge.metrics.registry import build_metric
from schemas import JudgeTask, QAEvent
from streams.errors import SettingsError, TooLargeError
from streams.intake.reader import EventReader, open_reader
from streams.intake.sampling import RANGE, SamplingPolicy
from streams.intake.selector import (
    EventSelection,
    Intake,
    Route,
    Selector,
    metric_routes,
    reading_policy,
    sampling_policy,
)
from streams.settings.tree import Settings
from streams.telemetry.instruments import Metrics
from tests.streams.records import Outbox, make_record

ROUTES = (Route("coverage", has=("reference",)), Route("relevance", has=("context",), rate=0.5))
FREE = Route("latency", rate=0.75, of_all=True)
BOTH = {"reference": "r", "context": {"Page-1": "x"}}


def arrived(randomness: int = RANGE - 1, **fields: Any) -> QAEvent:
    trace_id = f"{1:018x}{randomness:014x}"
    return QAEvent(event_id="e", question="q", answer="a", trace_id=trace_id, **fields)


def select(
    fields: dict[str, Any],
    randomness: int = RANGE - 1,
    rate: float = 1.0,
    routes: tuple[Route, ...] = ROUTES,
    factor: Callable[[str, Mapping[str, str]], Fraction] | None = None,
) -> EventSelection:
    selector = Selector(SamplingPolicy(default_rate=rate), routes, {}, rate_factor=factor)
    return selector.select(arrived(randomness, **fields), None)


def probabilities(found: EventSelection) -> dict[str, Fraction]:
    return {metric: decision.probability for metric, decision in found.assignments.items()}


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
    assert metric_routes(settings)[0].fits(event) is fits


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
def test_why_an_event_has_no_task(fields: Any, randomness: int, rate: float, skipped: str | None) -> None:
    found = select(fields, randomness, rate)
    assert found.skipped == skipped
    assert bool(found.assignments) == (skipped is None)


def test_a_free_metric_has_its_own_rate() -> None:
    """R at a half is below 1 - 0.05 and above 1 - 0.75: coverage does not keep it and latency does."""
    routes, event = (*ROUTES, FREE), {"reference": "r"}
    assert probabilities(select(event, RANGE // 2, 0.05, routes)) == {"latency": Fraction(3, 4)}
    both = {"coverage": Fraction(1, 2), "latency": Fraction(3, 4)}
    assert probabilities(select(event, RANGE - 1, 0.5, routes)) == both
    assert select(event, RANGE - 1, 0.0, routes).skipped == "filtered"


def test_a_budget_does_not_lower_the_rate_of_free_metrics() -> None:
    """At a tenth of the rate the judged ones drop R at a half."""
    found = select({"reference": "r"}, RANGE // 2, 0.9, (*ROUTES, FREE), lambda *_: Fraction(1, 10))
    assert {name: one.policy for name, one in found.assignments.items()} == {"latency": found.decision.policy}


async def test_a_time_that_cannot_be_is_that_of_the_record() -> None:
    """The times of spans are the sender's: a trace of the year 9999 is as old as its record."""
    selector = Selector(SamplingPolicy(), (Route("tone"),), {"tone": build_metric("tone")})
    event = arrived(occurred_at=datetime(9999, 1, 1, tzinfo=UTC))
    place: Any = make_record(None, timestamp=1_795_291_000.0)
    (task,) = await selector.tasks(place, event, selector.select(event, None))
    assert task.occurred_at == datetime.fromtimestamp(place.timestamp, UTC)


class Half:
    """Rates of which that in force halved at second 100."""

    def __init__(self) -> None:
        self.known = asyncio.Event()
        self.counted: list[tuple[str, float, float]] = []

    def in_force(self, timestamp: float | None, stratum: str) -> tuple[Fraction, str]:
        assert stratum == "default"
        return (Fraction(1), "") if (timestamp or 0) < 100 else (Fraction(1, 2), "*0.5")

    def count(self, stratum: str, met: float, asked: float) -> None:
        self.counted.append((stratum, met, asked))


def test_the_rates_of_a_budget_are_those_of_the_records_time() -> None:
    """They lower the configured rate for what is paid; what both ask for is counted."""
    rates, routes = Half(), (*ROUTES, FREE)
    selector = Selector(SamplingPolicy(default_rate=0.5), routes, {}, steering=rates)
    top, half, low = (arrived(randomness, **BOTH) for randomness in (RANGE - 1, RANGE // 2, RANGE // 3))
    before, after = (selector.select(top, None, at) for at in (99.0, 100.0))
    assert probabilities(before) == {"coverage": 0.5, "relevance": 0.25, "latency": 0.75}
    assert probabilities(after) == {"coverage": 0.25, "relevance": 0.125, "latency": 0.75}
    policies = [one.policy for one in after.assignments.values()]
    assert policies == [f"{selector.policy.name}*0.5"] * 2 + [selector.policy.name]
    assert list(probabilities(selector.select(half, None, 99.0))) == ["coverage", "latency"]
    assert list(probabilities(selector.select(half, None, 100.0))) == ["latency"]
    selector.select(low, None, 99.0)
    assert rates.counted == [("default", 1.5, asked) for asked in (2, 2, 1, 0)]


async def test_events_wait_for_the_rates_of_the_past() -> None:
    rates = Half()
    taken: list[Any] = []
    selector = Selector(SamplingPolicy(), (), {}, steering=rates)
    counts: Any = SimpleNamespace(count_event=lambda *one: taken.append(one))
    intake = Intake(selector=selector, output=SimpleNamespace(passed=taken.append), counts=counts)  # type: ignore[arg-type]
    task = asyncio.create_task(intake.take(make_record(None), arrived(), in_conversation=True))
    await asyncio.sleep(0)
    assert not taken
    rates.known.set()
    await task
    assert taken[0] == ("skipped", "in_conversation")


def test_the_read_rate_is_the_highest_of_any_metric() -> None:
    rates = {"gold": 1.0, "test": 0.0}
    rules = [{"name": name, "when": {"tenant": name}, "rate": rate} for name, rate in rates.items()]
    sampling = {"default_rate": 0.05, "rules": rules}
    judged: dict[str, Any] = {"coverage": {}}
    paid = Settings.model_validate({"sampling": sampling, "metrics": judged})
    metrics = judged | {"speed": {"code": "latency", "rate": 0.5}}
    free = Settings.model_validate({"sampling": sampling, "metrics": metrics})
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


async def test_a_task_too_large_for_the_broker_is_refused_before_others_are_sent() -> None:
    """Its messages make it the largest: the event becomes a dead letter alone, and no task."""

    class Conversation(Coverage):
        def select(self, event: QAEvent) -> Inputs:
            return Inputs.of(event, ("messages",))

    class Broker(Outbox):
        async def task(self, task: JudgeTask) -> None:
            if task.messages:
                raise TooLargeError("too large")
            await super().task(task)

    routes = (Route("coverage"), Route("talk"))
    metrics = {"coverage": Coverage(), "talk": Conversation()}
    outbox = Broker()
    selector = Selector(SamplingPolicy(), routes, metrics)
    intake = Intake(selector=selector, output=cast("Any", outbox), counts=Metrics(CollectorRegistry()))
    said = [{"role": "user", "content": "x" * 300_000}]
    await intake.take(make_record(), arrived(reference="r", messages=said))
    assert (outbox.tasks, [reason for reason, _ in outbox.letters]) == ([], ["oversized"])
