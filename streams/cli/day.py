"""Estimates a day's cost of judging, from the topic's last 24 hours and its newest records."""

from __future__ import annotations

import asyncio
import os
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from aiokafka.errors import KafkaError

from judge.chat import ChatRequest
from judge.errors import EventError
from judge.evaluate.evaluator import request_tokens
from judge.metric import unsampled_task
from schemas import QAEvent, Usage
from streams.batch.estimate import REPLY_TOKENS
from streams.cli.errors import CommandError
from streams.cli.session import session
from streams.errors import StreamsError
from streams.intake.from_settings import metric_routes
from streams.intake.joining.conversations import joined
from streams.intake.selector import Route
from streams.intake.trial import RawRecord, Trial
from streams.judging.budget import budget_limits
from streams.judging.endpoints import judge_endpoints, price_of, voters
from streams.judging.metrics import build_metrics

if TYPE_CHECKING:
    from streams.settings import Settings

DAY: Final = timedelta(days=1)
ASK_SECONDS: Final = 5.0
"""Time limit for the broker; `config check` also works without one."""
LOOKED_AT: Final = 30


@dataclass(frozen=True, slots=True)
class Day:
    """A day's estimated calls, tokens and cost with these settings.

    Args:
        usd: Their cost; None if a price is not known.
        budget_usd: The budget per day and worker; None if no budget in dollars is set.
    """

    records: int
    calls: float
    input_tokens: float
    usd: float | None
    budget_usd: float | None = None

    def __str__(self) -> str:
        """Return it as one line."""
        cost = "no price is known" if self.usd is None else f"about ${self.usd:,.2f} per day"
        over = ""
        if self.usd is not None and self.budget_usd is not None and self.usd > self.budget_usd:
            over = f"; judge.budget allows ${self.budget_usd:,.2f} per worker: sample less or raise it"
        return (
            f"{self.records:,} records in the last 24 hours, of which these settings make {self.calls:,.0f} "
            f"calls with {self.input_tokens:,.0f} tokens: {cost} (an estimate){over}"
        )


def ask_day(settings: Settings, file: Path) -> Day | str:
    """Estimate a day from the broker's records; return the reason as text if that fails."""
    try:
        records, latest = asyncio.run(_bounded(settings, file))
    except (CommandError, StreamsError, KafkaError, OSError, TimeoutError) as error:
        why = str(error).partition("\n")[0] or f"the broker did not answer within {ASK_SECONDS:g} s"
        return f"not known, {why}"
    if not latest:
        return f"not known, {settings.topics.events} has no records"
    return estimate(settings, records, latest)


def estimate(settings: Settings, records: int, latest: Sequence[RawRecord]) -> Day:
    """Estimate a day's calls, tokens and cost."""
    metrics = build_metrics(settings)
    endpoints = judge_endpoints(settings.judge, os.environ, settings.metrics)
    used: dict[str, float] = defaultdict(float)
    written: dict[str, float] = defaultdict(float)
    share = records / len(latest)
    calls = 0.0
    for event, probability, route in _routed(settings, latest):
        needed = _tokens(metrics[route.metric], event)
        if needed is None:
            continue
        metric = settings.metrics[route.metric]
        expected = share * probability * route.rate
        for endpoint in voters(metric, endpoints):
            calls += expected
            used[endpoint.name] += expected * needed
            written[endpoint.name] += 0 if metric.embeds else expected * REPLY_TOKENS
    cost: float | None = 0.0
    for endpoint in endpoints:
        if endpoint.name not in used:
            continue
        price = price_of(endpoint)
        usage = Usage(input_tokens=round(used[endpoint.name]), output_tokens=round(written[endpoint.name]))
        cost = None if price is None or cost is None else cost + price.cost_usd(usage)
    return Day(records, calls, sum(used.values()), cost, budget_limits(settings.judge).usd_per_day)


def _routed(settings: Settings, latest: Sequence[RawRecord]) -> Iterator[tuple[QAEvent, float, Route]]:
    """Yield each event or (partly seen) conversation with its sampling probability and the metric's route."""
    singles, wholes = metric_routes(settings), metric_routes(settings, "conversation")
    conversations: dict[str, list[QAEvent]] = {}
    chances: dict[str, float] = {}
    for outcome in Trial(settings).outcomes(latest):
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


def _tokens(metric: Any, event: QAEvent) -> int | None:
    task = unsampled_task(event, metric, source="sample", now=datetime.now(UTC))
    try:
        request = metric.prepare(task)
    except EventError:
        return None
    return request_tokens(request) if isinstance(request, ChatRequest) else None


async def _bounded(settings: Settings, file: Path) -> tuple[int, list[RawRecord]]:
    async with asyncio.timeout(ASK_SECONDS):
        return await _topic(settings, file)


async def _topic(settings: Settings, file: Path) -> tuple[int, list[RawRecord]]:
    """Count the records of the last 24 hours and read the newest, without a consumer group."""
    where, topic = session(file), settings.topics.events
    reader = where.reader()
    latest = await reader.newest(topic, LOOKED_AT, seconds=ASK_SECONDS / 2)
    if not latest and topic not in (known := await reader.topics()):
        raise where.no_topic(topic, known)
    day = await reader.between(topic, datetime.now(UTC) - DAY)
    count = sum(end - begin for begin, end in day.values())
    return count, [RawRecord(one.value, one.key, one.headers, one.timestamp_ms) for one in latest]
