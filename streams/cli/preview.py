"""What a judge would be sent, for `config check`: each metric's prompt for a sample event."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from math import floor
from os.path import commonprefix
from typing import Any, Final
from urllib.parse import urlsplit

from judge.evaluate.evaluator import estimated_tokens, request_tokens
from judge.evaluate.guard import neutral_task
from judge.metric import Metric
from judge.text.printable import printable
from schemas import Usage
from streams.batch.estimate import Estimate, request_of
from streams.judging.allocation import EQUAL_PART
from streams.judging.endpoints import judge_endpoints, price_of, voters
from streams.judging.metrics import build_metrics
from streams.settings.judge import EndpointSettings, LimitSettings
from streams.settings.tree import Settings

CACHED_FROM: Final = {"api.openai.com": 1024}
"""Tokens of a constant prefix from which a provider caches it, by host, as published."""


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
        estimate = Estimate({name: metric}, settings.metrics, endpoints)
        estimate.add(task)
        prompt: dict[str, Any] = {"metric": name, "estimated_tokens": request_tokens(request)}
        caps = [one for one in budget.caps if one.metric == name]
        prompt["verdicts_per_day"] = _paid([budget, *caps], estimate)
        prompt["caching"] = list(caching_notes(metric, voters(settings.metrics[name], endpoints)))
        if settings.metrics[name].prompt_pack is not None:
            prompt["messages"] = [
                {"role": one.role, "content": one.content, "estimated_tokens": estimated_tokens(one.content)}
                for one in request.messages
            ]
        found.append(prompt)
    return found


def _paid(limits: Sequence[LimitSettings], estimate: Estimate) -> int | None:
    """Return how many such verdicts the narrowest limit pays for in a day; None without one, or a price."""
    usd, calls = estimate.cost_usd, estimate.total.calls
    paid = [one.usd_per_day / usd for one in limits if usd and one.usd_per_day is not None]
    paid += [one.calls_per_day / calls for one in limits if calls and one.calls_per_day is not None]
    return floor(min(paid)) if paid else None


def rates_line(settings: Settings) -> str | None:
    """Return what `sampling.budget` would make of the rates; None without it, an endpoint or a price."""
    limit, now = settings.sampling_limit, datetime(2026, 1, 1, tzinfo=UTC)
    if limit is None:
        return None
    endpoints, paid = judge_endpoints(settings.judge, os.environ, settings.metrics), []
    for name, metric in build_metrics(settings).items():
        if metric.mode != "code":
            estimate = Estimate({name: metric}, settings.metrics, endpoints)
            estimate.add(neutral_task(metric, now=now))
            paid.append(_paid([limit], estimate))
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
    yield from (f"  {note}" for note in prompt["caching"])
    for message in prompt.get("messages", ()):
        yield f"  --- {message['role']}, about {message['estimated_tokens']} tokens"
        for line in message["content"].splitlines():
            yield f"  {printable(line)}"


def caching_notes(metric: Metric, endpoints: Iterable[EndpointSettings]) -> Iterator[str]:
    """Yield a note for each endpoint that caches nothing because a metric's constant prefix is too short."""
    tokens = prefix_tokens(metric)
    for endpoint in {one.name: one for one in endpoints}.values():
        floor = CACHED_FROM.get(urlsplit(endpoint.base_url).hostname or "", 0)
        if not 0 < tokens < floor:
            continue
        note = f"{endpoint.name} caches from {floor:,} tokens on; the constant prefix has about {tokens:,}"
        price = price_of(endpoint)
        if price is not None:
            short = price.cost_usd(Usage(input_tokens=tokens))
            saved = short - price.cost_usd(Usage(input_tokens=floor, cached_tokens=floor))
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
