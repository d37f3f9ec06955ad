"""What settings do: prompts, rates and costs for `config check`, cases for `config test`."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from math import floor
from os.path import commonprefix
from typing import Annotated, Any, Final, Self
from urllib.parse import urlsplit

import orjson
from pydantic import BeforeValidator, Field, JsonValue, model_validator

from judge.endpoints.panel import best_share, cost_ratio
from judge.evaluate.evaluator import estimated_tokens, request_tokens
from judge.evaluate.guard import neutral_task
from judge.metric import Metric, unsampled_task
from judge.text.printable import printable
from schemas import QAEvent, Scored, Usage
from streams.batch.plan import Estimate, request_of
from streams.cli.running import json_text
from streams.cli.session import opened
from streams.errors import StoreError
from streams.intake.trial import SettingsTrial, TrialOutcome, whole_or_lines
from streams.judging.allocation import EQUAL_PART
from streams.judging.endpoints import asked_by, judge_endpoints, may_cost, price_of, voters
from streams.judging.metrics import build_metrics
from streams.kafka.record import Record
from streams.settings.base import FilePath, Rate, Section, refuse
from streams.settings.judge import EndpointSettings, LimitSettings
from streams.settings.tree import Settings
from streams.settings.walk import suggest

CACHED_FROM: Final = {"api.openai.com": 1024}
"""Tokens of a constant prefix from which a provider caches it, by host, as published."""
SHOWN_CORRELATIONS: Final = (0.6, 0.8, 0.9)
MOST_RESULTS: Final = 5_000
FEWEST_PAIRS: Final = 30
SHOWN_CHARS = 200
Found = dict[str, Any]
"""What becomes of an event, or what a metric does with it, as JSON."""
Failure = dict[str, str]


def sample_prompts(settings: Settings) -> list[dict[str, Any]]:
    """Return each metric's request for a sample event that fits; built-in prompts are not shown in full."""
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
    tokens = f"about {prompt['estimated_tokens']} input tokens"
    paid = prompt["verdicts_per_day"]
    budget = "" if paid is None else f"; judge.budget pays for about {paid:,} such verdicts a day"
    yield f"{prompt['metric']}: {tokens} for a sample event (estimated high){budget}"
    yield from (f"  {note}" for note in (*prompt["two_phase"], *prompt["caching"]))
    for message in prompt.get("messages", ()):
        yield f"  --- {message['role']}, about {message['estimated_tokens']} tokens"
        for line in message["content"].splitlines():
            yield f"  {printable(line)}"


class SampleCost:
    """What one verdict of a metric costs for a sample event, with both judges in two phases."""

    def __init__(self, name: str, metric: Metric, settings: Settings) -> None:
        self._name, self._settings = name, settings
        wanted = settings.metrics[name]
        self._phases, cheap = wanted.two_phase, wanted.cheap
        endpoints = judge_endpoints(settings.judge, os.environ, settings.metrics)
        task = neutral_task(metric, now=datetime(2026, 1, 1, tzinfo=UTC))
        estimates = []
        for one in (wanted, cheap) if cheap is not None else (wanted,):
            estimates.append(Estimate({name: metric}, {name: one}, endpoints))
            estimates[-1].add(task)
        self.usd, self.calls = estimates[0].total.cost_usd, float(estimates[0].calls)
        self.price_ratio: float | None = None
        if self._phases is not None:
            cheap_usd, share = estimates[1].total.cost_usd, self._phases.strong_share
            if self.usd and cheap_usd is not None:
                self.price_ratio = cheap_usd / self.usd
                self.usd = cheap_usd + share * self.usd
            self.calls = estimates[1].calls + share * self.calls

    def paid(self, limits: Sequence[LimitSettings]) -> int | None:
        usd, calls = self.usd, self.calls
        paid = [one.usd_per_day / usd for one in limits if usd and one.usd_per_day is not None]
        paid += [one.calls_per_day / calls for one in limits if calls and one.calls_per_day is not None]
        return floor(min(paid)) if paid else None

    def two_phase_notes(self) -> Iterator[str]:
        """Yield what two phases cost against the strong judge alone, for an interval as wide."""
        ratio, phases = self.price_ratio, self._phases
        if phases is None:
            return
        if ratio is None:
            yield "two_phase: the price of one of the judges is unknown, so what it saves is, too"
            return
        measured, pairs = measured_correlation(self._settings, self._name)
        shown = SHOWN_CORRELATIONS if measured is None else (measured,)
        yield (
            f"two_phase: a cheap verdict costs {ratio:.1%} of a strong one; the same interval costs "
            + ", ".join(f"{_told(one, ratio)} at a correlation of {one:.2f}" for one in shown)
            + (f" (measured on {pairs} answers)" if measured is not None else "")
            + f"; it pays above {2 * ratio**0.5 / (1 + ratio):.2f}"
        )


def _told(correlation: float, ratio: float) -> str:
    share = best_share(correlation, ratio)
    return f"{cost_ratio(correlation, ratio):.0%} of the strong judge's alone (best strong_share {share:.2g})"


def measured_correlation(settings: Settings, metric: str) -> tuple[float | None, int]:
    """Return the correlation of both judges' scores in the store, and its answers; None with few of them."""
    from streams.monitoring.two_phase import TwoPhase, pair_of
    from streams.store.database import read_store
    from streams.store.query import Filter
    from streams.store.verdicts import page

    state = TwoPhase()
    with suppress(StoreError), read_store(settings.store.path) as snapshot:
        wanted = Filter(metric=metric, status="scored")
        for row in page(snapshot, wanted, order="newest", limit=MOST_RESULTS)["rows"]:
            state.learn(pair_of(Scored.model_validate(row["result"])))
    count = round(state.prediction.pairs)
    return (state.prediction.correlation if count >= FEWEST_PAIRS else None), count


def caching_notes(metric: Metric, endpoints: Iterable[EndpointSettings]) -> Iterator[str]:
    """Yield a note for each endpoint that caches nothing because a metric's constant prefix is too short."""
    tokens = prefix_tokens(metric)
    for endpoint in {one.name: one for one in endpoints}.values():
        least = CACHED_FROM.get(urlsplit(endpoint.base_url).hostname or "", 0)
        if not 0 < tokens < least:
            continue
        note = f"{endpoint.name} caches from {least:,} tokens on; the constant prefix has about {tokens:,}"
        price = price_of(endpoint)
        if price is not None:
            short = price.cost_usd(Usage(input_tokens=tokens))
            saved = short - price.cost_usd(Usage(input_tokens=least, cached_tokens=least))
            pays = f"would save {saved / short:.0%} of its price" if saved > 0 else "would not pay"
            note += f"; lengthening it (more examples) {pays}"
        yield note


def prefix_tokens(metric: Metric) -> int:
    """Return the estimated tokens, schema included, that a metric's requests begin with for every event."""
    neutral = neutral_task(metric, now=datetime(2026, 1, 1, tzinfo=UTC))
    texts = neutral.model_dump(include={"question", "answer", "reference", "other_answer"}, exclude_none=True)
    found: list[str] = []
    for mark in "XY":
        fields = neutral.fields and {name: mark + text for name, text in neutral.fields.items()}
        marked = {name: mark + text for name, text in texts.items()}
        request = request_of(metric, neutral.model_copy(update={**marked, "fields": fields}))
        if request is None or request.embeds:
            return 0
        schema = request.response_schema and dict(request.response_schema.schema)
        found.append("\n".join([json.dumps(schema), *(message.content for message in request.messages)]))
    return estimated_tokens(commonprefix(found))  # noqa: RUF071 - of texts, not of paths


def _listed(value: object) -> object:
    return (value,) if isinstance(value, str | Mapping) else value


def _by_name(value: object) -> object:
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
