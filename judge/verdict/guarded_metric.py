"""A metric whose texts are bounded and redacted before anything else is done with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from judge.chat import ChatRequest
from judge.errors import EventError
from judge.metric import Inputs, Metric, Mode, Outcome, OwnProcess, further_texts
from judge.text.index import compared_chars
from judge.text.redaction import Redactor
from schemas import JudgeTask, QAEvent


@dataclass(frozen=True, slots=True)
class TextLimits:
    """How long texts may be, in characters; a longer one is not judged.

    Below `context`, references and pages are fitted to the model's window. Counted are the characters as they
    are compared (NFKD), for one character may stand for eighteen.
    """

    question: int = 50_000
    answer: int = 200_000
    context: int = 1_000_000
    """Of everything else together: the reference, the cited pages, conversation, calls of tools, other texts.
    """


class GuardedMetric:
    """Passes a metric on with texts that are fit to leave the process.

    Redaction takes place when the task is made, so that the task topic has redacted texts, and again when it
    is judged, for tasks may be older than the setting. Spans are verified against the redacted texts, and a
    result quotes nothing else.

    Args:
        metric: The metric.
        redactor: What is replaced.
        limits: How long texts may be.
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
        """The number of each label, or of `true` and `false`; empty where scores are numbers."""
        return self._metric.labels

    @property
    def mode(self) -> Mode:
        """How the judge is asked."""
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
        """Version of the rules, with what is redacted: other texts give other scores."""
        kinds = self._redactor.kinds
        return (
            f"{self._metric.scoring_version}, redacted: {' '.join(kinds)}"
            if kinds
            else self._metric.scoring_version
        )

    @property
    def process(self) -> OwnProcess | None:
        """Where alone `prepare` of a code metric may be called; None: anywhere."""
        found: OwnProcess | None = getattr(self._metric, "process", None)
        return found

    def select(self, event: QAEvent) -> Inputs:
        """Take from an event what the metric needs, redacted.

        A question or answer that is too long is cut to what shows that it is, before anything reads it.
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
        """Parts with redacted texts, for a split could part what is to be redacted."""
        return self._metric.parts(self._fit_to_leave(task), halve=halve)

    def merged(self, replies: Sequence[str]) -> str:
        """Put the replies to the parts together."""
        return self._metric.merged(replies)

    def prepare(self, task: JudgeTask) -> ChatRequest | Outcome:
        """Build the request from bounded, redacted texts.

        Raises:
            EventError: A text is longer than its bound.
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
        """Turn the reply into a verdict on the redacted texts.

        Raises:
            InvalidVerdictError: The reply cannot be made into one.
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
    """See to it that texts keep within a limit together.

    Raises:
        EventError: They do not.
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
