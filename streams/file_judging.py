"""Judging the lines of a file, without Kafka: several at a time, results in the order of the lines."""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import AsyncGenerator, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TypeAlias

from pydantic import ValidationError

from judge.errors import JudgeUnavailableError
from judge.evaluator import Judge
from judge.task import build_task
from schemas import Failed, JudgeTask, QAEvent, Sampling, Scored, Source, Unscored
from streams.printable import printable

MAX_TRIES = 5
"""Calls for one line while the endpoint is down."""
FIRST_WAIT_SECONDS = 0.5
LONGEST_WAIT_SECONDS = 20.0
MAX_PROBLEMS_A_LINE = 3

_SAMPLING = Sampling(probability=1.0, stratum="default", policy="every line")


@dataclass(frozen=True, slots=True)
class InvalidLine:
    """A line that is no event."""

    number: int
    problem: str


Outcome: TypeAlias = Scored | Unscored | Failed | InvalidLine


async def judge_lines(
    lines: Iterable[bytes],
    judge: Judge,
    *,
    source: str,
    concurrency: int,
    tries: int = MAX_TRIES,
    first_wait_seconds: float = FIRST_WAIT_SECONDS,
) -> AsyncGenerator[Outcome, None]:
    """Judge events, one a line.

    Args:
        lines: JSON events; blank lines are left out.
        judge: The metric and its endpoint.
        source: Names the file; part of each result's id.
        concurrency: Lines that are judged at the same time; at least 1.
        tries: Calls for one line while the endpoint is down; at least 1.
        first_wait_seconds: Wait before the second try; it doubles from try to try.

    Yields:
        One outcome a line, in the order of the lines.

    Raises:
        JudgeUnavailableError: The endpoint stayed down over all tries. What came before has been yielded.
        JudgeConfigurationError: No line can be judged as things are configured.
    """
    pending: deque[asyncio.Task[Outcome]] = deque()

    async def one(number: int, line: bytes) -> Outcome:
        task = _task(number, line, judge, source)
        if isinstance(task, InvalidLine):
            return task
        return await _patiently(judge, task, tries, first_wait_seconds)

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


async def _patiently(judge: Judge, task: JudgeTask, tries: int, wait_seconds: float) -> Outcome:
    for again in range(1, tries):
        try:
            return await judge.judge(task)
        except JudgeUnavailableError as error:
            wait = wait_seconds * 2 ** (again - 1) * random.uniform(0.5, 1.0)  # noqa: S311 - jitter, no secret
            await asyncio.sleep(min(max(wait, error.retry_after_seconds or 0.0), LONGEST_WAIT_SECONDS))
    return await judge.judge(task)


def _task(number: int, line: bytes, judge: Judge, source: str) -> JudgeTask | InvalidLine:
    try:
        event = QAEvent.model_validate_json(line)
    except ValidationError as error:
        return InvalidLine(number, _problem(error))
    now = datetime.now(UTC)
    return build_task(
        event,
        judge.metric,
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
