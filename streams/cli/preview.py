"""What settings would do, for `config check`: each metric's prompt for a sample event, and a day's cost."""

from __future__ import annotations

import asyncio
import os
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from aiokafka.errors import KafkaError

from judge.chat import ChatRequest
from judge.errors import EventError
from judge.evaluate.evaluator import estimated_tokens, request_tokens
from judge.evaluate.guard import neutral_task
from judge.metric import unsampled_task
from judge.text.printable import printable
from schemas import JudgeTask, QAEvent, Usage
from streams.batch.estimate import REPLY_TOKENS
from streams.cli.running import CommandError
from streams.cli.session import Session
from streams.errors import StreamsError
from streams.intake.from_settings import metric_routes
from streams.intake.joining.intakes import joined
from streams.intake.selector import Route
from streams.intake.trial import SettingsTrial
from streams.judging.budget import budget_limits
from streams.judging.endpoints import judge_endpoints, price_of, voters
from streams.judging.metrics import build_metrics
from streams.kafka.record import Record
from streams.settings import Settings

DAY: Final = timedelta(days=1)
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
        request = _request(metric, neutral_task(metric, now=datetime(2026, 1, 1, tzinfo=UTC)))
        if request is None:
            continue
        found.append({"metric": name, "estimated_tokens": request_tokens(request)})
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
    for message in prompt.get("messages", ()):
        yield f"  --- {message['role']}, about {message['estimated_tokens']} tokens"
        for line in message["content"].splitlines():
            yield f"  {printable(line)}"


def _request(metric: Any, task: JudgeTask) -> ChatRequest | None:
    try:
        request = metric.prepare(task)
    except EventError:
        return None
    return request if isinstance(request, ChatRequest) else None


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
        records, latest = asyncio.run(_topic(Session(settings, file)))
    except (CommandError, StreamsError, KafkaError, OSError, TimeoutError) as error:
        why = str(error).partition("\n")[0] or f"the broker did not answer within {ASK_SECONDS:g} s"
        return f"not known, {why}"
    if not latest:
        return f"not known, {settings.topics.events} has no records"
    return estimate(settings, records, latest)


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


def estimate(settings: Settings, records: int, latest: Sequence[Record]) -> Day:
    """Estimate a day's calls, tokens and cost from its newest records."""
    metrics = build_metrics(settings)
    endpoints = judge_endpoints(settings.judge, os.environ, settings.metrics)
    used: dict[str, float] = defaultdict(float)
    written: dict[str, float] = defaultdict(float)
    calls = 0.0
    for event, probability, route in _routed(settings, latest):
        built, metric = metrics[route.metric], settings.metrics[route.metric]
        request = _request(built, unsampled_task(event, built, source="sample", now=datetime.now(UTC)))
        if request is None:
            continue
        expected = records / len(latest) * probability * route.rate
        for endpoint in voters(metric, endpoints):
            calls += expected
            used[endpoint.name] += expected * request_tokens(request)
            written[endpoint.name] += 0 if metric.embeds else expected * REPLY_TOKENS
    cost: float | None = 0.0
    for endpoint in endpoints:
        if endpoint.name in used:
            price = price_of(endpoint)
            tokens = round(used[endpoint.name]), round(written[endpoint.name])
            usage = Usage(input_tokens=tokens[0], output_tokens=tokens[1])
            cost = None if price is None or cost is None else cost + price.cost_usd(usage)
    return Day(records, calls, sum(used.values()), cost, budget_limits(settings.judge).usd)


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
