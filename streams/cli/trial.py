"""What settings do: prompts and rates for `config check`, cases for `config test`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from math import floor
from typing import Annotated, Any, Self

import orjson
from pydantic import BeforeValidator, Field, JsonValue, model_validator

from judge.evaluate.evaluator import estimated_tokens, request_tokens
from judge.evaluate.guard import neutral_task
from judge.metric import unsampled_task
from judge.text.printable import printable
from schemas import QAEvent
from streams.batch.plan import Estimate, request_of
from streams.cli.costs import SampleCost, caching_notes
from streams.cli.running import json_text
from streams.cli.session import opened
from streams.intake.trial import SettingsTrial, TrialOutcome, whole_or_lines
from streams.judging.allocation import EQUAL_PART
from streams.judging.endpoints import asked_by, judge_endpoints, may_cost, voters
from streams.judging.metrics import build_metrics
from streams.kafka.record import Record
from streams.settings.base import FilePath, Rate, Section, refuse
from streams.settings.tree import Settings
from streams.settings.walk import suggest

SHOWN_CHARS = 200
Found = dict[str, Any]
"""What becomes of an event, or what a metric does with it, as JSON."""
Failure = dict[str, str]


def sample_prompts(settings: Settings) -> list[dict[str, Any]]:
    """Return the request of each metric for a sample event, with its tokens, estimated high.

    Built-in prompts are not shown in full. Left out are metrics without a prompt, and those whose limits are
    too small for the sample.
    """
    found: list[dict[str, Any]] = []
    endpoints, budget = judge_endpoints(settings.judge, os.environ, settings.metrics), settings.judge.budget
    for name, metric in build_metrics(settings).items():
        task = neutral_task(metric, now=datetime(2026, 1, 1, tzinfo=UTC))
        request = None if metric.mode == "code" else request_of(metric, task)
        if request is None:
            continue
        cost = SampleCost(name, metric, settings)
        prompt: dict[str, Any] = {"metric": name, "estimated_tokens": request_tokens(request)}
        caps = [one for one in budget.caps if one.metric == name]
        prompt["verdicts_per_day"] = cost.paid([budget, *caps])
        prompt["two_phase"] = list(cost.two_phase_notes())
        prompt["caching"] = list(caching_notes(metric, voters(settings.metrics[name], endpoints)))
        if settings.metrics[name].prompt_pack is not None:
            prompt["messages"] = [
                {"role": one.role, "content": one.content, "estimated_tokens": estimated_tokens(one.content)}
                for one in request.messages
            ]
        found.append(prompt)
    return found


def rates_line(settings: Settings) -> str | None:
    """Return what `sampling.budget` would make of the rates; None without it, an endpoint or a price."""
    limit = settings.sampling_limit
    if limit is None:
        return None
    paid = [
        SampleCost(name, metric, settings).paid([limit])
        for name, metric in build_metrics(settings).items()
        if metric.mode != "code"
    ]
    prices = [1 / one for one in paid if one]
    if not prices or len(prices) < len(paid) or not settings.sampling.most:
        return None
    events = round(1 / sum(prices))
    shares = ", ".join(f"{100 / times:g}% of {events * times:,}" for times in (2, 20, 200))
    return (
        f"sampling.budget pays for about {events:,} events a day with all metrics; if their scores vary "
        f"alike, about {shares} events a day in each stratum, and in none less than about "
        f"{floor(EQUAL_PART * events / len(settings.sampling.most)):,}"
    )


def prompt_lines(prompt: Mapping[str, Any]) -> Iterator[str]:
    """Yield a prompt as lines for people."""
    tokens = f"about {prompt['estimated_tokens']} input tokens"
    paid = prompt["verdicts_per_day"]
    budget = "" if paid is None else f"; judge.budget pays for about {paid:,} such verdicts a day"
    yield f"{prompt['metric']}: {tokens} for a sample event (estimated high){budget}"
    yield from (f"  {note}" for note in (*prompt["two_phase"], *prompt["caching"]))
    for message in prompt.get("messages", ()):
        yield f"  --- {message['role']}, about {message['estimated_tokens']} tokens"
        for line in message["content"].splitlines():
            yield f"  {printable(line)}"


def _listed(value: object) -> object:
    return (value,) if isinstance(value, str | Mapping) else value


def _by_name(value: object) -> object:
    """Read a list of names, and names of which nothing else is expected."""
    if isinstance(value, list | tuple) and all(isinstance(name, str) for name in value):
        return {name: {} for name in value}
    return {name: one or {} for name, one in value.items()} if isinstance(value, Mapping) else value


Texts = Annotated[tuple[str, ...], BeforeValidator(_listed)]


class MetricExpectation(Section):
    """What is expected of a metric; only what is set is compared, here and below."""

    probability: Rate = 1.0
    endpoints: Texts = ()
    """In order of preference; all of a panel."""
    sent_contains: Texts = ()
    sent_lacks: Texts = ()
    max_input_tokens: int = Field(default=0, ge=0)
    max_usd: float = Field(default=0.0, ge=0)
    """Of judging once, with all votes."""


class Expectation(Section):
    """What is expected of each event that a case's records make."""

    problem: str = ""
    """Part of the reason for which there is no event or no task; empty: there is none."""
    event: dict[str, JsonValue] = Field(default_factory=dict)
    stratum: str = ""
    probability: Rate = 1.0
    metrics: Annotated[dict[str, MetricExpectation], BeforeValidator(_by_name)] = Field(default_factory=dict)
    """All that judge it."""
    max_usd: float = Field(default=0.0, ge=0)
    """Mean per such event, sampling included."""

    @model_validator(mode="after")
    def _fields(self) -> Self:
        known = QAEvent.model_fields
        unknown = [name for name in self.event if name not in known]
        refuse([(f"event.{one}", f"is not a field of an event; {suggest(one, known)}") for one in unknown])
        return self


class Case(Section):
    """One test: records as a producer writes them, here or in a file of JSON, JSON lines or OTLP."""

    name: str = Field(min_length=1)
    input: Annotated[tuple[dict[str, JsonValue], ...], BeforeValidator(_listed)] = ()
    file: FilePath | None = None
    expect: Expectation

    def records(self) -> list[Record]:
        records = [Record(value=orjson.dumps(one)) for one in self.input]
        if self.file is not None:
            with opened(self.file) as handle:
                records += whole_or_lines(handle.read())
        return records


class CaseFile(Section):
    """The tests of one settings file."""

    settings: FilePath
    tests: tuple[Case, ...]


class CaseTrial:
    """What a worker does with records; raises SettingsError if it cannot run with these settings."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings.metrics
        self._trial = SettingsTrial(settings)
        self._metrics = build_metrics(settings)
        self._endpoints = judge_endpoints(settings.judge, os.environ, settings.metrics)

    def found(self, records: Iterable[Record]) -> Iterator[Found]:
        """Yield what becomes of each event: probabilities, because a test must not depend on chance."""
        for one in list(self._trial.outcomes(records)) or [TrialOutcome(None, problem="there is no record")]:
            event, chances = one.event, one.probabilities.items()
            metrics = {name: self._metric(name, event, chance) for name, chance in chances if event}
            costs = [of["usd"] and of["probability"] * of["usd"] for of in metrics.values()]
            yield {
                "problem": one.problem,
                "event": None if event is None else event.model_dump(mode="json"),
                "stratum": one.stratum,
                "probability": one.probability,
                "metrics": metrics,
                "usd": None if None in costs else sum(costs),
            }

    def _metric(self, name: str, event: QAEvent, probability: float) -> Found:
        metric, settings = self._metrics[name], self._settings[name]
        task = unsampled_task(event, metric, source="case", now=datetime.now(UTC))
        asked = voters(settings, self._endpoints)
        request = request_of(metric, task) if asked else None
        estimate = Estimate({name: metric}, self._settings, self._endpoints)
        estimate.add(task)
        usd = estimate.total.cost_usd
        names = asked_by(settings, [(one.name, one.model) for one in self._endpoints])
        return {
            "probability": probability,
            "endpoints": [] if request is None else list(names),
            "input_tokens": estimate.total.input_tokens,
            "usd": 0.0 if usd is None and not any(may_cost(one) for one in asked) else usd,
            "sent": [] if request is None else [message.content for message in request.messages],
        }


def failures(expect: Expectation, found: Iterable[Found]) -> Iterator[Failure]:
    """Compare each event with what is expected; of one with another problem only that is told."""
    wanted = expect.model_dump(mode="json", exclude_unset=True, exclude={"problem"})
    for one in found:
        problem = one["problem"]
        if (expect.problem in (problem or "")) if expect.problem else problem is None:
            yield from _different("", wanted, one)
        else:
            yield from _unequal("problem", expect.problem or None, problem)


def _different(where: str, wanted: Mapping[str, Any], found: Found) -> Iterator[Failure]:
    for name, value in wanted.items():
        place, of = f"{where}{name}", name.removeprefix("max_")
        if name in ("sent_contains", "sent_lacks"):
            there = [text for text in value if any(text in sent for sent in found["sent"])]
            yield from _unequal(place, value if name == "sent_contains" else [], there)
        elif name == "metrics":
            yield from _unequal(place, sorted(value), sorted(found[name]))
            for metric in sorted(value.keys() & found[name].keys()):
                yield from _different(f"{place}.{metric}.", value[metric], found[name][metric])
        elif of == name:
            yield from _unequal(place, value, found[name])
        elif found[of] is None or found[of] > value:
            yield {"what": place, "expected": f"at most {_shown(value)}", "found": _shown(found[of])}


def _unequal(place: str, wanted: Any, found: Any) -> Iterator[Failure]:
    """Compare the named parts of mappings, numbers as precisely as they are shown, and other values whole."""
    if isinstance(wanted, Mapping) and isinstance(found, Mapping):
        for name, value in wanted.items():
            yield from _unequal(f"{place}.{name}", value, found.get(name))
    elif wanted != found and not (isinstance(found, float) and _shown(wanted) == _shown(found)):
        yield {"what": place, "expected": _shown(wanted), "found": _shown(found)}


def _shown(value: Any) -> str:
    return printable(f"{value:.4g}" if isinstance(value, float) else json_text(value), SHOWN_CHARS)
