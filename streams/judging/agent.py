"""The judge agent: tasks in, results out. It waits out an outage of the judge, without dead letters."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final, Protocol

from pydantic import ValidationError

from judge.text.printable import problems_of
from schemas import Failed, JudgeTask, Scored, Unscored
from streams.errors import TooLargeError
from streams.judging.citations import CitationWatch
from streams.judging.spending import Spending
from streams.kafka.letters import Incoming
from streams.kafka.output import Output
from streams.telemetry.traces import surprise

MAX_PROBLEMS: Final = 3
"""Maximum number of problems named for an invalid task."""


class PatientJudge(Protocol):
    """Judges a task, waiting for the judge as long as needed; implemented by `ReliableJudge`."""

    async def judge(self, task: JudgeTask) -> Scored | Unscored | Failed:
        """Judge one answer.

        Raises:
            JudgeConfigurationError: No event can be judged with this configuration.
        """


class JudgeAgent:
    """Judges tasks within the budget. The judges decide concurrency and retries.

    Args:
        judges: Judges by metric.
        output: Writes results and dead letters.
        spending: The budget of the worker.
        citations: Receives every result.
        free: Metrics without cost, which ignore the budget.
    """

    def __init__(
        self,
        *,
        judges: Mapping[str, PatientJudge],
        output: Output,
        spending: Spending,
        citations: CitationWatch,
        free: Collection[str] = (),
    ) -> None:
        self._judges = judges
        self._output = output
        self._spending = spending
        self._citations = citations
        self._free = frozenset(free)

    async def handle(self, record: Incoming, metric: str) -> None:
        """Judge the task in one record of a metric's topic."""
        try:
            task = JudgeTask.model_validate_json(record.value or b"")
        except ValidationError as error:
            detail = "not a task: " + "; ".join(problems_of(error, "task", most=MAX_PROBLEMS))
            await self._output.dead_letter(record, "invalid_task", detail)
            return
        if task.metric != metric:
            detail = f"metric must be {metric} on this topic, got {task.metric}; send it to its own topic"
            await self._output.dead_letter(record, "invalid_task", detail, event_id=task.event_id)
            return
        if metric in self._free:
            result = await self._judges[metric].judge(task)
        else:
            async with self._spending.admitted() as settle:
                result = await self._judges[metric].judge(task)
                settle(result)
        self._citations.add(result)
        try:
            await self._output.result(result)
        except TooLargeError as error:
            await self._output.dead_letter(record, "oversized", str(error), event_id=task.event_id)

    async def on_surprise(self, record: Incoming, error: Exception) -> None:
        """Write a dead letter for a task after an unexpected error."""
        detail = surprise(error)
        await self._output.dead_letter(record, "invalid_task", detail)
