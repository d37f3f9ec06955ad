"""Judging the lines of a file, without Kafka: several at a time, results in the order of the lines.

The judge is the worker's own: the same endpoints, limits, redaction, bounds, prices and cache. Only its patience ends: nobody
waits an hour at a terminal.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TypeAlias

from pydantic import ValidationError

from judge.metric import Metric
from judge.pool.observer import Unobserved
from judge.pool.pool import EndpointPool
from judge.task import build_task
from judge.verdict.pricing import PriceTable
from schemas import Failed, JudgeTask, QAEvent, Sampling, Scored, Source, Unscored, Usage
from streams.judging.agent import PatientJudge
from streams.judging.prices import build_prices
from streams.judging.stack import open_stack
from streams.settings import EndpointSettings, JudgeSettings
from streams.text import printable

OUTAGE_SECONDS = 5.0
"""With all endpoints down for so long, the file is given up."""
_LOOK_SECONDS = 0.1
MAX_PROBLEMS_A_LINE = 3

_SAMPLING = Sampling(probability=1.0, stratum="default", policy="every line")


@dataclass(frozen=True, slots=True)
class InvalidLine:
    """A line that is no event."""

    number: int
    problem: str


Outcome: TypeAlias = Scored | Unscored | Failed | InvalidLine


class Checks(Unobserved):
    """Keeps what calls have used that are for no verdict.

    Args:
        prices: What tokens cost.
    """

    def __init__(self, prices: PriceTable) -> None:
        self._prices = prices
        self.used_up: list[tuple[Usage, float | None]] = []
        """Tokens of each call and what they cost in USD; None where nobody knows."""

    def used(self, endpoint: str, model: str, usage: Usage, *, for_verdict: bool) -> None:
        """A call has used tokens."""
        if not for_verdict:
            self.used_up.append((usage, self._prices.cost_usd(model, usage, endpoint=endpoint)))


@dataclass(frozen=True, slots=True)
class FileJudge:
    """A metric's judge over the endpoints of the settings.

    Args:
        metric: The metric.
        judge: What judges it.
        pool: The endpoints.
        checks: What was used to find out whether endpoints answer at all; no result carries it.
    """

    metric: Metric
    judge: PatientJudge
    pool: EndpointPool
    checks: Checks


@asynccontextmanager
async def open_file_judge(
    metric: Metric, judge: JudgeSettings, endpoints: Sequence[EndpointSettings]
) -> AsyncIterator[FileJudge]:
    """Open what judges a file, as a worker would.

    Args:
        metric: The metric, bounded and redacted as the settings say (`streams.judging.metrics.guarded`).
        judge: The section `judge`; its budget is the worker's and bounds nothing here.
        endpoints: In order of preference; at least one.

    Raises:
        SettingsError: A key is not where the settings say.
        JudgeConfigurationError: An endpoint, or the file of the verdict cache, cannot work as configured.
    """
    prices = build_prices(endpoints)
    checks = Checks(prices)
    async with open_stack(judge, endpoints, prices=prices, observer=checks) as stack:
        yield FileJudge(metric, stack.judge(metric), stack.pool, checks)


async def outage(pool: EndpointPool, *, seconds: float = OUTAGE_SECONDS) -> str:
    """Wait until all endpoints have been down for so long.

    A pause that an endpoint asks for is waited for, however long: that is no outage.

    Returns:
        Why none can be asked.
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
            return trouble
        await asyncio.sleep(_LOOK_SECONDS)


async def judge_lines(
    lines: Iterable[bytes], judge: FileJudge, *, source: str, concurrency: int
) -> AsyncGenerator[Outcome, None]:
    """Judge events, one a line; while no endpoint answers, this waits.

    Args:
        lines: JSON events; blank lines are left out.
        judge: The metric and its judge.
        source: Names the file; part of each result's id.
        concurrency: Lines that are judged at the same time; at least 1.

    Yields:
        One outcome a line, in the order of the lines.

    Raises:
        JudgeConfigurationError: No line can be judged as things are configured.
    """
    pending: deque[asyncio.Task[Outcome]] = deque()

    async def one(number: int, line: bytes) -> Outcome:
        task = _task(number, line, judge.metric, source)
        return task if isinstance(task, InvalidLine) else await judge.judge.judge(task)

    try:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            pending.append(asyncio.create_task(one(number, line)))
            if len(pending) >= concurrency:
                yield await pending.popleft()
        while pending:
            yield await pending.popleft()
    finally:
        for left in pending:
            left.cancel()
        await asyncio.gather(*pending, return_exceptions=True)


def _task(number: int, line: bytes, metric: Metric, source: str) -> JudgeTask | InvalidLine:
    try:
        event = QAEvent.model_validate_json(line)
    except ValidationError as error:
        return InvalidLine(number, _problem(error))
    now = datetime.now(UTC)
    return build_task(
        event,
        metric,
        source=Source(topic=source, partition=0, offset=number - 1),
        sampling=_SAMPLING,
        recorded_at=now,
        sampled_at=now,
    )


def _problem(error: ValidationError) -> str:
    problems = error.errors(include_url=False, include_context=False)
    texts = [
        ": ".join(part for part in (".".join(str(step) for step in one["loc"]), one["msg"]) if part)
        for one in problems[:MAX_PROBLEMS_A_LINE]
    ]
    more = len(problems) - len(texts)
    return printable("; ".join(texts), 400) + (f"; and {more} more" if more else "")
