"""Limits and redaction of a metric's texts, before any other processing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from judge.chat import ChatRequest
from judge.errors import EventError
from judge.metric import Inputs, Metric, Mode, Outcome, OwnProcess, further_texts
from judge.text.normal import compared_chars
from judge.text.redaction import Redactor
from schemas import JudgeTask, QAEvent


@dataclass(frozen=True, slots=True)
class TextLimits:
    """Limits of texts, in characters; longer ones are not judged.

    Pass one to change the limits. Up to `context`, references and pages are fitted to the model's window.
    Characters are counted after NFKD normalisation, which can turn one character into eighteen.
    """

    question: int = 50_000
    answer: int = 200_000
    context: int = 1_000_000
    """Total of the reference, cited pages, conversation, tool calls and other texts.
    """


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

    @property
    def name(self) -> str:
        """The metric's name."""
        return self._metric.name

    @property
    def score_range(self) -> tuple[float, float]:
        """Lowest and highest score, both included."""
        return self._metric.score_range

    @property
    def labels(self) -> Mapping[str, int]:
        """The number of each label, or of `true` and `false`; empty if scores are numbers."""
        return self._metric.labels

    @property
    def mode(self) -> Mode:
        """How the metric is judged."""
        return self._metric.mode

    @property
    def prompt_hash(self) -> str:
        """Hash of the prompt templates."""
        return self._metric.prompt_hash

    @property
    def schema_hash(self) -> str:
        """Hash of the response schema, or the word "none"."""
        return self._metric.schema_hash

    @property
    def scoring_version(self) -> str:
        """Version of the rules, including the redacted kinds, because redaction changes scores."""
        kinds = self._redactor.kinds
        return (
            f"{self._metric.scoring_version}, redacted: {' '.join(kinds)}"
            if kinds
            else self._metric.scoring_version
        )

    @property
    def process(self) -> OwnProcess | None:
        """The child process for `prepare` of a code metric; None: any process."""
        found: OwnProcess | None = getattr(self._metric, "process", None)
        return found

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
        if not self._redactor.kinds:
            return inputs
        return inputs.changed(self._redactor.redact)

    def parts(self, task: JudgeTask, *, halve: bool = False) -> tuple[JudgeTask, ...]:
        """Return the parts of the redacted task; splitting first could divide data to be redacted."""
        return self._metric.parts(self._fit_to_leave(task), halve=halve)

    def merged(self, replies: Sequence[str]) -> str:
        """Merge the replies to the parts."""
        return self._metric.merged(replies)

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
        return self._metric.prepare(self._fit_to_leave(task))

    def interpret(self, task: JudgeTask, reply: str) -> Outcome:
        """Interpret the reply against the redacted texts.

        Raises:
            InvalidVerdictError: The reply contains no valid verdict.
        """
        return self._metric.interpret(self._fit_to_leave(task), reply)

    def _fit_to_leave(self, task: JudgeTask) -> JudgeTask:
        if not self._redactor.kinds:
            return task
        redact = self._redactor.redact
        return task.model_copy(
            update=Inputs.of(task).changed(redact).of_task()
            | {
                "labels": {name: redact(value) for name, value in task.labels.items()},
            }
        )


def _check(name: str, texts: Sequence[str], limit: int) -> None:
    """Check the total length of texts.

    Raises:
        EventError: They are longer than the limit.
    """
    chars = sum(map(len, texts))
    if chars <= limit:
        chars = sum(map(compared_chars, texts))
    if chars > limit:
        raise EventError(
            "context_too_long",
            (
                f"{name} must be at most {limit} characters (judge.max_{name}_chars), got {chars} or "
                "more; shorten it or raise the limit"
            ),
        )
