"""Judge: tasks in, results out. It waits for a judge that is down and never turns an outage into dead letters."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

import structlog
from pydantic import ValidationError
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type
from tenacity.wait import wait_random_exponential

from judge.errors import JudgeUnavailableError
from judge.evaluator import Judge
from schemas import Failed, JudgeTask, Scored, Unscored
from streams.metrics import Metrics
from streams.output import Incoming, Output

_log = structlog.stdlib.get_logger(__name__)

FIRST_WAIT_SECONDS: Final = 0.5
LONGEST_WAIT_SECONDS: Final = 30.0
MAX_PROBLEMS: Final = 3
"""Of an invalid task, this many problems are named."""


class Availability:
    """Whether the judge answers, as the calls themselves find out.

    Args:
        endpoint: The endpoint's name, for metrics and log.
        counts: Where its state is shown.
    """

    def __init__(self, endpoint: str, counts: Metrics) -> None:
        self.endpoint = endpoint
        self.reason: str | None = None
        """What the endpoint's last failure was, while it is down."""
        self._counts = counts
        self._up = asyncio.Event()
        self._up.set()
        self._down_since = 0.0
        counts.set_breaker(endpoint, is_open=False)

    @property
    def down(self) -> bool:
        """Whether the last call found it unavailable."""
        return self.reason is not None

    def failed(self, error: JudgeUnavailableError) -> None:
        """A call found it unavailable."""
        if self.reason is None:
            self._down_since = time.monotonic()
            self._up.clear()
            self._counts.set_breaker(self.endpoint, is_open=True)
            _log.error("judge unavailable, events wait for it", endpoint=self.endpoint, error=str(error))
        self.reason = str(error)

    def answered(self) -> None:
        """A call was answered."""
        if self.reason is None:
            return
        self.reason = None
        self._up.set()
        self._counts.set_breaker(self.endpoint, is_open=False)
        _log.info(
            "judge available again",
            endpoint=self.endpoint,
            down_seconds=round(time.monotonic() - self._down_since, 3),
        )

    async def wait(self, timeout_seconds: float) -> None:
        """Wait so long, or until an endpoint that is down answers."""
        if not self.down:
            # It answers others: cutting the wait short would only make an overloaded endpoint busier.
            await asyncio.sleep(timeout_seconds)
            return
        with suppress(TimeoutError):
            await asyncio.wait_for(self._up.wait(), timeout_seconds)


class _Patience(wait_random_exponential):
    """Growing random waits, or longer where the endpoint says how long it wants to be left alone."""

    def __call__(self, retry_state: RetryCallState) -> float:
        waits = super().__call__(retry_state)
        asked = _asked_to_wait(retry_state)
        return waits if asked is None else asked + waits


def _asked_to_wait(state: RetryCallState) -> float | None:
    error = state.outcome.exception() if state.outcome is not None else None
    return error.retry_after_seconds if isinstance(error, JudgeUnavailableError) else None


class JudgeAgent:
    """Judges tasks, at most so many at a time over all metrics.

    Args:
        judges: By metric.
        availability: What is known of the endpoint.
        max_in_flight: Calls at the same time.
        output: Where results and dead letters go.
        counts: Where calls are counted.
        first_wait_seconds: The first pause after an unavailable endpoint is at most this long; later ones grow.
    """

    def __init__(
        self,
        *,
        judges: Mapping[str, Judge],
        availability: Availability,
        max_in_flight: int,
        output: Output,
        counts: Metrics,
        first_wait_seconds: float = FIRST_WAIT_SECONDS,
    ) -> None:
        self._judges = judges
        self.availability = availability
        self._slots = asyncio.Semaphore(max_in_flight)
        self._in_flight = 0
        self._output = output
        self._counts = counts
        self._first_wait_seconds = first_wait_seconds

    async def handle(self, record: Incoming, metric: str) -> None:
        """Judge the task in one record of a metric's topic."""
        try:
            task = JudgeTask.model_validate_json(record.value or b"")
        except ValidationError as error:
            await self._output.dead_letter(record, "invalid_task", _problems(error))
            return
        if task.metric != metric:
            detail = f"metric must be {metric} on this topic, got {task.metric}; send it to its own topic"
            await self._output.dead_letter(record, "invalid_task", detail, event_id=task.event_id)
            return
        async with self._slots:
            result = await self._judge(self._judges[metric], task)
        await self._output.result(result)

    async def _judge(self, judge: Judge, task: JudgeTask) -> Scored | Unscored | Failed:
        retrying = AsyncRetrying(
            wait=_Patience(multiplier=self._first_wait_seconds, max=LONGEST_WAIT_SECONDS),
            retry=retry_if_exception_type(JudgeUnavailableError),
            sleep=self.availability.wait,
            reraise=True,
        )
        async for attempt in retrying:
            with attempt:
                return await self._call(judge, task)
        raise AssertionError  # without a stop condition the loop ends by return or error alone

    async def _call(self, judge: Judge, task: JudgeTask) -> Scored | Unscored | Failed:
        endpoint, model = self.availability.endpoint, judge.evaluator.model
        self._in_flight += 1
        self._counts.set_in_flight(endpoint, self._in_flight)
        started = time.monotonic()
        try:
            result = await judge.judge(task)
        except JudgeUnavailableError as error:
            self._counts.observe_call(endpoint, model, "unavailable", time.monotonic() - started)
            self.availability.failed(error)
            raise
        finally:
            self._in_flight -= 1
            self._counts.set_in_flight(endpoint, self._in_flight)
        if result.judge is not None:
            self.availability.answered()
            outcome = result.error_type if isinstance(result, Failed) else result.status
            self._counts.observe_call(endpoint, model, outcome, time.monotonic() - started)
        return result

    async def on_surprise(self, record: Incoming, error: Exception) -> None:
        """Set a task aside that met an error nobody foresaw."""
        detail = f"internal error: {type(error).__name__}: {error}"
        await self._output.dead_letter(record, "invalid_task", detail)


def _problems(error: ValidationError) -> str:
    """What is wrong with a task, without quoting its texts."""
    problems = error.errors(include_url=False, include_input=False, include_context=False)
    named = [f"{'.'.join(map(str, one['loc'])) or 'task'}: {one['msg']}" for one in problems[:MAX_PROBLEMS]]
    more = [f"and {len(problems) - MAX_PROBLEMS} more"] if len(problems) > MAX_PROBLEMS else []
    return "not a task: " + "; ".join([*named, *more])
