"""What settings would do, for `config check`: each metric's prompt for a sample event, and a day's cost."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from os.path import commonprefix
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from aiokafka.errors import KafkaError

from judge.evaluate.evaluator import estimated_tokens, request_tokens
from judge.evaluate.guard import neutral_task
from judge.metric import Metric, unsampled_task
from judge.text.printable import printable
from schemas import QAEvent, Usage
from streams.batch.estimate import Estimate, request_of
from streams.cli.running import CommandError
from streams.cli.session import Session
from streams.errors import SettingsError, StreamsError
from streams.intake.joining.intakes import joined
from streams.intake.selector import Route, metric_routes
from streams.intake.trial import SettingsTrial
from streams.judging.endpoints import judge_endpoints, price_of, voters
from streams.judging.metrics import build_metrics
from streams.kafka.record import Record
from streams.settings.tree import Settings

DAY: Final = timedelta(days=1)
CACHED_FROM: Final = {"api.openai.com": 1024}
"""Tokens of a constant prefix from which a provider caches it, by host, as published."""
ASK_SECONDS: Final = 5.0
"""Time limit for the broker; `config check` also works without one."""
LOOKED_AT: Final = 30


def sample_prompts(settings: Settings) -> list[dict[str, Any]]:
    """Return the request of each metric for a sample event, with its tokens, estimated high.

    Built-in prompts are not shown in full. Left out are metrics without a prompt, and those whose limits are
    too small for the sample.
    """
    found: list[dict[str, Any]] = []
    for name, metric in build_metrics(settings).items():
        if metric.mode == "code":
            continue
        request = request_of(metric, neutral_task(metric, now=datetime(2026, 1, 1, tzinfo=UTC)))
        if request is None:
            continue
        found.append({"metric": name, "estimated_tokens": request_tokens(request)})
        found[-1]["caching"] = list(caching_notes(settings, name, metric))
        if settings.metrics[name].prompt_pack is not None:
            found[-1]["messages"] = [
                {"role": one.role, "content": one.content, "estimated_tokens": estimated_tokens(one.content)}
                for one in request.messages
            ]
    return found


def prompt_lines(prompt: Mapping[str, Any]) -> Iterator[str]:
    """Yield a prompt as lines for people."""
    tokens = f"about {prompt['estimated_tokens']} input tokens"
    yield f"{prompt['metric']}: {tokens} for a sample event (estimated high)"
    yield from (f"  {note}" for note in prompt["caching"])
    for message in prompt.get("messages", ()):
        yield f"  --- {message['role']}, about {message['estimated_tokens']} tokens"
        for line in message["content"].splitlines():
            yield f"  {printable(line)}"


def caching_notes(settings: Settings, name: str, metric: Metric) -> Iterator[str]:
    """Yield a note for each endpoint that caches nothing because a metric's constant prefix is too short."""
    try:
        known = judge_endpoints(settings.judge, os.environ, settings.metrics)
    except SettingsError:
        return  # there is no endpoint yet
    tokens = prefix_tokens(metric)
    for endpoint in {one.name: one for one in voters(settings.metrics[name], known)}.values():
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


def ask_day(settings: Settings, file: Path) -> str:
    """Estimate a day's calls, tokens and cost from the broker's records, or say why that fails."""
    try:
        records, latest = asyncio.run(_topic(Session(settings, file)))
    except (CommandError, StreamsError, KafkaError, OSError, TimeoutError) as error:
        why = str(error).partition("\n")[0] or f"the broker did not answer within {ASK_SECONDS:g} s"
        return f"not known, {why}"
    if not latest:
        return f"not known, {settings.topics.events} has no records"
    found = estimate_day(settings, records, latest)
    return day_line(records, found, settings.judge.budget.usd_per_day)


def day_line(records: int, found: Estimate, budget_usd: float | None) -> str:
    """Describe a day; `budget_usd` is the budget per day and worker."""
    usd = found.cost_usd
    cost = "no price is known" if usd is None else f"about ${usd:,.2f} per day"
    over = ""
    if usd is not None and budget_usd is not None and usd > budget_usd:
        over = f"; judge.budget allows ${budget_usd:,.2f} per worker: sample less or raise it"
    return (
        f"{records:,} records in the last 24 hours, of which these settings make {found.total.calls:,.0f} "
        f"calls with {found.total.input_tokens:,.0f} tokens: {cost} (an estimate){over}"
    )


async def _topic(call: Session) -> tuple[int, list[Record]]:
    """Count the records of the last 24 hours and read the newest, without a consumer group."""
    topic = call.settings.topics.events
    reader = call.reader()
    async with asyncio.timeout(ASK_SECONDS):
        latest = await reader.newest(topic, LOOKED_AT, seconds=ASK_SECONDS / 2)
        if not latest and topic not in (known := await reader.topics()):
            raise call.no_topic(topic, known)
        day = await reader.between(topic, datetime.now(UTC) - DAY)
    count = sum(end - begin for begin, end in day.values())
    return count, latest


def estimate_day(settings: Settings, records: int, latest: Sequence[Record]) -> Estimate:
    """Estimate a day's calls from its number of records and the newest of them."""
    metrics = build_metrics(settings)
    endpoints = judge_endpoints(settings.judge, os.environ, settings.metrics)
    found = Estimate(metrics, settings.metrics, endpoints)
    for event, probability, route in _routed(settings, latest):
        task = unsampled_task(event, metrics[route.metric], source="sample", now=datetime.now(UTC))
        found.add(task, records / len(latest) * probability * route.rate)
    return found


def _routed(settings: Settings, latest: Sequence[Record]) -> Iterator[tuple[QAEvent, float, Route]]:
    """Yield each event or (partly seen) conversation with its sampling probability and the metric's route."""
    singles, wholes = metric_routes(settings), metric_routes(settings, "conversation")
    conversations: dict[str, list[QAEvent]] = {}
    chances: dict[str, float] = {}
    for outcome in SettingsTrial(settings).outcomes(latest):
        event, chance = outcome.event, outcome.probability
        if event is None or chance is None:
            continue
        yield from ((event, chance, route) for route in singles if route.when.fits(event))
        if event.conversation_id is not None:
            conversations.setdefault(event.conversation_id, []).append(event)
            chances[event.conversation_id] = chance
    for name, events in conversations.items():
        whole = joined(events)
        yield from ((whole, chances[name], route) for route in wholes if route.when.fits(whole))
