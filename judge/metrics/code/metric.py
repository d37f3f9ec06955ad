"""A metric whose outcome code decides."""

from __future__ import annotations

from collections.abc import Mapping

from judge.errors import InvalidVerdictError
from judge.metric import Inputs, Mode, Outcome, OwnProcess
from judge.metrics.base import WholeTask
from judge.metrics.code.checks import Check
from judge.metrics.prompting import short_hash
from schemas import JudgeTask, QAEvent


class CodeMetric(WholeTask):
    """Decides by a check, without a judge.

    Args:
        name: The metric's name.
        check: What decides.
    """

    def __init__(self, name: str, check: Check) -> None:
        self._name = name
        self._check = check
        self._version = f"code-1, {type(check).__name__.lower()} {check.version}, {short_hash(repr(check))}"

    @property
    def name(self) -> str:
        """The metric's name."""
        return self._name

    @property
    def score_range(self) -> tuple[float, float]:
        """Lowest and highest score, both included."""
        return self._check.scale.score_range

    @property
    def labels(self) -> Mapping[str, int]:
        """The number of each label, or of `true` and `false`; empty where scores are numbers."""
        return {} if self._check.scale.choice is None else self._check.scale.choice.by_label

    @property
    def mode(self) -> Mode:
        """Always code."""
        return "code"

    @property
    def prompt_hash(self) -> str:
        """The word "none"."""
        return "none"

    @property
    def schema_hash(self) -> str:
        """The word "none"."""
        return "none"

    @property
    def scoring_version(self) -> str:
        """Version of the check, with its settings, and of a function's module."""
        return self._version

    @property
    def process(self) -> OwnProcess | None:
        """Where alone `prepare` may be called; None: anywhere."""
        return self._check.process

    def select(self, event: QAEvent) -> Inputs:
        """Take the texts that the check looks at; the others stay behind."""
        uses = self._check.uses
        return Inputs(
            question=event.question if "question" in uses else "",
            answer=event.answer if "answer" in uses else "",
            reference=event.reference if "reference" in uses else None,
            context=event.context if "context" in uses else None,
            messages=event.messages if "messages" in uses else None,
            tool_calls=event.tool_calls if "tool_calls" in uses else None,
            other_answer=event.other_answer if "other_answer" in uses else None,
            fields=event.fields if "fields" in uses else None,
        )

    def prepare(self, task: JudgeTask) -> Outcome:
        """Decide.

        Raises:
            EventError: The check cannot look at this event.
        """
        return self._check.outcome(task)

    def interpret(self, task: JudgeTask, reply: str) -> Outcome:  # noqa: ARG002 - the protocol's
        """There is no reply.

        Raises:
            InvalidVerdictError: Always.
        """
        raise InvalidVerdictError("no judge is asked")
