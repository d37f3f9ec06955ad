"""Limits and redaction of a metric's texts, before any other processing; and the neutral event."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from judge.chat import ChatRequest
from judge.errors import EventError
from judge.metric import Inputs, Metric, Outcome, OwnProcess, further_texts
from judge.task import unsampled_task, with_named_texts
from judge.text.normal import compared_chars
from judge.text.redaction import Redactor
from schemas import ChatMessage, JudgeTask, QAEvent, ToolCall

NEUTRAL_EVENT: Final = QAEvent(
    event_id="judgestream-neutral",
    question="Where is the Eiffel Tower, and since when?",
    answer=(
        "The Eiffel Tower stands in Paris. Evidence: [Page 1]\nIt was completed in 1889. Evidence: [Page 2]"
    ),
    reference="The Eiffel Tower is in Paris. It was completed in 1889.",
    context={
        "Page-1": "The Eiffel Tower stands on the Champ de Mars in Paris.",
        "Page-2": "The Eiffel Tower was completed in March 1889.",
    },
    messages=(
        ChatMessage(role="user", content="Where is the Eiffel Tower, and since when?"),
        ChatMessage(role="assistant", content="The Eiffel Tower stands in Paris. It was completed in 1889."),
    ),
    tool_calls=(ToolCall(name="search", arguments='{"query": "Eiffel Tower"}', result="Paris, 1889"),),
    other_answer="The Eiffel Tower has stood in Paris since 1889.",
)
"""An event that any judge can judge: it tells an endpoint's failure from an event's."""


def neutral_task(metric: Metric, *, now: datetime) -> JudgeTask:
    """Build a metric's task from the neutral event; its result is not published."""
    task = unsampled_task(NEUTRAL_EVENT, metric, source=NEUTRAL_EVENT.event_id, now=now.astimezone(UTC))
    return with_named_texts(task, "The Eiffel Tower is in Paris.")


@dataclass(frozen=True, slots=True)
class TextLimits:
    """Limits of texts, in characters; longer ones are not judged.

    Characters are counted after NFKD normalisation, which can turn one character into eighteen.
    """

    question: int = 50_000
    answer: int = 50_000
    context: int = 1_000_000
    """Total of the reference, cited pages, conversation, tool calls and other texts."""


class GuardedMetric:
    """Wraps a metric and passes it bounded, redacted texts.

    Texts are redacted when the task is created, so the task topic holds redacted texts, and again when it is
    judged, because a task may be older than the setting. Spans are verified against the redacted texts, and
    results quote only these.

    Args:
        metric: The metric.
        redactor: Replaces personal data.
        limits: Limits of texts.
    """

    def __init__(self, metric: Metric, *, redactor: Redactor, limits: TextLimits) -> None:
        self._metric = metric
        self._redactor = redactor
        self._limits = limits
        self.name = metric.name
        self.score_range = metric.score_range
        self.labels = metric.labels
        self.mode = metric.mode
        self.prompt_hash = metric.prompt_hash
        self.schema_hash = metric.schema_hash
        self.scoring_version = metric.scoring_version
        if redactor.kinds:  # because redaction changes scores
            self.scoring_version += f", redacted: {' '.join(redactor.kinds)}"
        self.process: OwnProcess | None = getattr(metric, "process", None)

    def select(self, event: QAEvent) -> Inputs:
        """Return the redacted texts that the metric needs from an event.

        A question or answer that is too long is first truncated to one character more than the limit.
        """
        limits = self._limits
        cut = {
            name: text[: limit + 1]
            for name, text, limit in (
                ("question", event.question, limits.question),
                ("answer", event.answer, limits.answer),
                ("other_answer", event.other_answer or "", limits.answer),
            )
            if len(text) > limit
        }
        inputs = self._metric.select(event.model_copy(update=cut) if cut else event)
        return inputs.changed(self._redactor.redact) if self._redactor.kinds else inputs

    def prepare(self, task: JudgeTask) -> ChatRequest | Outcome:
        """Build the request from bounded, redacted texts.

        Raises:
            EventError: A text is longer than its limit.
        """
        limits = self._limits
        _check("question", [task.question], limits.question)
        _check("answer", [task.answer], limits.answer)
        _check("answer", [task.other_answer or ""], limits.answer)
        pages = task.context or {}
        texts = [task.reference or "", *pages, *pages.values(), *further_texts(task)]
        _check("context", texts, limits.context)
        return self._metric.prepare(self._redacted(task))

    def interpret(self, task: JudgeTask, reply: str) -> Outcome:
        """Interpret the reply against the redacted texts."""
        return self._metric.interpret(self._redacted(task), reply)

    def _redacted(self, task: JudgeTask) -> JudgeTask:
        if not self._redactor.kinds:
            return task
        redact = self._redactor.redact
        labels = {name: redact(value) for name, value in task.labels.items()}
        return task.model_copy(update=Inputs.of(task).changed(redact).of_task() | {"labels": labels})


def _check(name: str, texts: Sequence[str], limit: int) -> None:
    """Raise EventError if texts are together longer than a limit."""
    chars = sum(map(len, texts))
    if chars <= limit:
        chars = sum(map(compared_chars, texts))
    if chars > limit:
        raise EventError(
            "context_too_long",
            f"{name} must be at most {limit} characters (judge.max_{name}_chars), got {chars} or more; "
            "shorten it or raise the limit",
        )
