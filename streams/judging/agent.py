"""The judge agent: tasks in, results out. It waits out an outage of the judge, without dead letters."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final, Protocol

import structlog
from pydantic import ValidationError

from judge.text.printable import problems_of
from schemas import Failed, JudgeTask, Scored, Unscored
from streams.errors import TooLargeError
from streams.judging.budget import Spending
from streams.kafka.output import Output
from streams.kafka.record import Record
from streams.telemetry.logs import surprise

_log = structlog.stdlib.get_logger(__name__)


MIN_RESULTS: Final = 20
"""Results before the first note."""
REMEDY: Final = (
    "set metrics.relevance.citation_pattern, or metrics.relevance.without_citations: unscored, or use a "
    "metric without citations"
)


class CitationWatch:
    """Counts results without a recognised citation, and logs a warning once if they are the majority."""

    def __init__(self, metrics: Collection[str]) -> None:
        self._metrics = frozenset(metrics)
        self._results = 0
        self._uncited = 0
        self._example = ""
        self._told = False

    def add(self, result: Scored | Unscored | Failed) -> None:
        """Count a result."""
        if isinstance(result, Failed) or result.metric not in self._metrics:
            return
        self._results += 1
        if any(suspicion.kind == "no_citation" for suspicion in result.suspicions):
            self._uncited += 1
            self._example = self._example or result.event_id
        if self.note is not None and not self._told:
            self._told = True
            _log.warning("answers without citations", detail=self.note)

    @property
    def note(self) -> str | None:
        """The note; None while most answers have citations or few are judged. Quotes no answer text."""
        if self._results < MIN_RESULTS or 2 * self._uncited <= self._results:
            return None
        return (
            f"{self._uncited} of {self._results} answers have no recognised citation, so relevance is 1 "
            f"(for example event {self._example[:80]!r}); {REMEDY}"
        )


MAX_PROBLEMS: Final = 3
"""Maximum number of problems named for an invalid task."""


class PatientJudge(Protocol):
    """Judges a task, waiting for the judge as long as needed; implemented by `RetryingJudge`."""

    async def judge(self, task: JudgeTask) -> Scored | Unscored | Failed:
        """Judge one answer.

        Raises:
            JudgeConfigurationError: No event can be judged with this configuration.
        """


class JudgeAgent:
    """Judges tasks within the budget. The judges decide concurrency and retries."""

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

    async def handle(self, record: Record, metric: str) -> None:
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

    async def on_surprise(self, record: Record, error: Exception) -> None:
        """Write a dead letter for a task after an unexpected error."""
        detail = surprise(error)
        await self._output.dead_letter(record, "invalid_task", detail)
