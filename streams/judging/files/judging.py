"""Judge the events of a file, without Kafka: concurrently, with results in the order of the lines.

The judge is the same as the worker's: endpoints, limits, redaction, prices and cache. Only outages are
bounded, because a user is waiting.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Collection,
    Coroutine,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeAlias

import orjson

from judge.errors import JudgeConfigurationError
from judge.metric import Metric
from judge.pool.observer import Unobserved
from judge.pool.pool import EndpointPool
from judge.task import unsampled_task
from judge.text.printable import printable
from judge.verdict.pricing import PriceTable
from schemas import Failed, QAEvent, Scored, Unscored, Usage
from streams.errors import DecodeError
from streams.intake.joining.whole import joined
from streams.intake.reading import Ingest
from streams.judging.agent import PatientJudge
from streams.judging.files.reading import Line, misspelt
from streams.judging.prices import build_prices
from streams.judging.stack import metric_judges, open_stack
from streams.settings import EndpointSettings, JudgeSettings, MetricSettings

OUTAGE_SECONDS = 5.0
"""Judging the file ends after an outage of all endpoints for this long."""
CONFIRM_SECONDS = 2.0
"""How long a wrong key or model is confirmed: shorter than an outage, because a user is waiting."""
_LOOK_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class InvalidLine:
    """A line that is not an event."""

    number: int
    problem: str


Outcome: TypeAlias = Scored | Unscored | Failed | InvalidLine


class Checks(Unobserved):
    """Collects the usage of calls that belong to no verdict.

    Args:
        prices: Prices of tokens.
    """

    def __init__(self, prices: PriceTable) -> None:
        self._prices = prices
        self.used_up: list[tuple[Usage, float | None]] = []
        """Tokens of each call and their cost in USD; None if unknown."""

    def used(self, endpoint: str, model: str, usage: Usage, *, for_verdict: bool) -> None:
        """Record the tokens of a call."""
        if not for_verdict:
            self.used_up.append((usage, self._prices.cost_usd(model, usage, endpoint=endpoint)))


@dataclass(frozen=True, slots=True)
class FileJudge:
    """The judges of metrics, on the endpoints of the settings.

    Args:
        judges: Judges by metric, in the order of the results of one event.
        pool: The endpoints.
        checks: Usage of calls that only check whether endpoints answer; it is in no result.
    """

    judges: Mapping[Metric, PatientJudge]
    pool: EndpointPool
    checks: Checks


@asynccontextmanager
async def open_file_judge(
    metrics: Sequence[Metric],
    judge: JudgeSettings,
    endpoints: Sequence[EndpointSettings],
    wanted: Mapping[str, MetricSettings] | None = None,
) -> AsyncIterator[FileJudge]:
    """Open the judges of a file, as a worker does.

    Args:
        metrics: The metrics, limited and redacted (`streams.judging.metrics.guarded`).
        judge: The section `judge`; its budget does not apply here.
        endpoints: In order of preference; at least one.
        wanted: The metrics' settings, with their endpoints and parameters; None to judge all metrics at all
            endpoints.

    Raises:
        SettingsError: A key is missing.
        JudgeConfigurationError: An endpoint, or the file of the verdict cache, cannot be used.
    """
    prices = build_prices(endpoints)
    checks = Checks(prices)
    async with open_stack(
        judge, endpoints, prices=prices, observer=checks, confirm_seconds=CONFIRM_SECONDS
    ) as stack:
        judges = metric_judges(stack, {metric.name: metric for metric in metrics}, wanted or {})
        yield FileJudge({metric: judges[metric.name] for metric in metrics}, stack.pool, checks)


async def outage(pool: EndpointPool, *, seconds: float = OUTAGE_SECONDS) -> str:
    """Wait until all endpoints have been down for some time.

    A pause that an endpoint requests is no outage, however long.

    Returns:
        Why no endpoint is available.

    Raises:
        JudgeConfigurationError: All refuse every request because of their configuration. Pauses between
            probes may exceed `seconds`, so this may be confirmed too late.
    """
    since: float | None = None
    while True:
        trouble, now = pool.trouble, pool.clock()
        next_try_at = min(chat.breaker.next_try_at for chat in pool.chats)
        if trouble is None or next_try_at - now > pool.patience.longest_breaker_seconds:
            since = None
        elif since is None:
            since = now
        elif now - since >= seconds:
            if all(chat.refuses for chat in pool.chats if chat.breaker.is_open):
                raise JudgeConfigurationError(trouble)
            return trouble
        await asyncio.sleep(_LOOK_SECONDS)


async def judge_lines(
    lines: Iterable[Line],
    judge: FileJudge,
    ingest: Ingest,
    *,
    source: str,
    concurrency: int,
    done: Collection[str] = (),
    whole: Collection[str] = (),
) -> AsyncGenerator[Outcome, None]:
    """Yield the judged results of a file's events; waits while no endpoint answers.

    Conversations are judged after the last line.

    Args:
        lines: The lines of the file.
        judge: The metrics and their judges.
        ingest: Reads an event, with the mapping of the settings.
        source: Name of the file; part of each result's id.
        concurrency: Results judged concurrently; at least 1.
        done: Ids of existing results, which are skipped.
        whole: Names of metrics that judge conversations: all events of one `conversation_id` together.

    Yields:
        A result for each event and metric, or an `InvalidLine`, in the order of the lines; then those of
        conversations, in the order of their first lines.

    Raises:
        JudgeConfigurationError: No line can be judged with this configuration.
    """
    pending: deque[asyncio.Task[Outcome]] = deque()
    try:
        for work in _all_work(lines, judge, ingest, source, done, whole):
            pending.append(asyncio.create_task(work))
            if len(pending) >= concurrency:
                yield await pending.popleft()
        while pending:
            yield await pending.popleft()
    finally:
        for left in pending:
            left.cancel()
        await asyncio.gather(*pending, return_exceptions=True)


def _all_work(
    lines: Iterable[Line],
    judge: FileJudge,
    ingest: Ingest,
    source: str,
    done: Collection[str],
    whole: Collection[str],
) -> Iterator[Coroutine[Any, Any, Outcome]]:
    singles = {metric: one for metric, one in judge.judges.items() if metric.name not in whole}
    others = {metric: one for metric, one in judge.judges.items() if metric.name in whole}
    conversations: dict[str, tuple[Line, list[QAEvent]]] = {}
    for line in lines:
        event = read_event(line, ingest)
        if isinstance(event, InvalidLine):
            yield _as_it_is(event)
            continue
        yield from _work(line, event, singles, source, done)
        if others and event.conversation_id is not None:
            conversations.setdefault(event.conversation_id, (line, []))[1].append(event)
    for first, events in conversations.values():
        yield from _work(first, joined(events), others, source, done)


def _work(
    line: Line,
    event: QAEvent,
    judges: Mapping[Metric, PatientJudge],
    source: str,
    done: Collection[str],
) -> Iterator[Coroutine[Any, Any, Outcome]]:
    now = datetime.now(UTC)
    for metric, judging in judges.items():
        task = unsampled_task(
            event, metric, source=source, now=now, number=line.number - 1, policy="every line"
        )
        if task.result_id not in done:
            yield judging.judge(task)


async def _as_it_is(outcome: Outcome) -> Outcome:
    return outcome


def read_event(line: Line, ingest: Ingest) -> QAEvent | InvalidLine:
    """Read an event from a line; a missing id becomes the line number, a numeric one text."""
    value = line.value
    if line.problem:
        return InvalidLine(line.number, line.problem)
    try:
        return ingest.decode(value)
    except DecodeError as error:
        problem = error.detail
    document = orjson.loads(value) if problem.startswith("event_id: must be text (got") else None
    if isinstance(document, dict):
        given = document.get("event_id")
        own = str(given) if isinstance(given, int) else f"line-{line.number}" if given is None else given
        try:
            return ingest.decode(orjson.dumps({**document, "event_id": own}))
        except DecodeError as error:
            problem = error.detail
    meant = [f"{name!r} is not a field; did you mean {known}?" for name, known in misspelt(value)]
    return InvalidLine(line.number, printable("; ".join([*problem.splitlines(), *meant]), 400))
