"""A metric decided by code."""

from __future__ import annotations

from collections.abc import Mapping

from judge.errors import InvalidVerdictError
from judge.metric import DEFAULT_MEMORY_MB, DEFAULT_SECONDS, Inputs, Mode, Outcome, OwnProcess
from judge.metrics.base import WithoutPrompt
from judge.metrics.code.checks import Check
from judge.metrics.code.function import Function
from judge.metrics.code.scale import Result, read_scale
from judge.metrics.prompting import short_hash
from schemas import JudgeTask, QAEvent


class CodeMetric(WithoutPrompt):
    """A metric decided by a check, without a judge.

    Args:
        name: The metric's name.
        check: The check.
    """

    def __init__(self, name: str, check: Check) -> None:
        super().__init__(name)
        self._check = check
        self._version = f"code-1, {type(check).__name__.lower()} {check.version}, {short_hash(repr(check))}"

    @property
    def score_range(self) -> tuple[float, float]:
        """Lowest and highest score, both included."""
        return self._check.scale.score_range

    @property
    def labels(self) -> Mapping[str, int]:
        """The number of each label, or of `true` and `false`; empty if scores are numbers."""
        return {} if self._check.scale.choice is None else self._check.scale.choice.by_label

    @property
    def mode(self) -> Mode:
        """Always code."""
        return "code"

    @property
    def scoring_version(self) -> str:
        """Version of the check, including its settings and a function's module."""
        return self._version

    @property
    def process(self) -> OwnProcess | None:
        """The child process for `prepare`; None: any process."""
        return self._check.process

    def select(self, event: QAEvent) -> Inputs:
        """Return the texts that the check uses."""
        return Inputs.of(event, self._check.uses)

    def prepare(self, task: JudgeTask) -> Outcome:
        """Return the outcome of the check.

        Raises:
            EventError: The check cannot handle this event.
        """
        return self._check.outcome(task)

    def interpret(self, task: JudgeTask, reply: str) -> Outcome:  # noqa: ARG002 - the protocol's
        """There is no reply.

        Raises:
            InvalidVerdictError: Always.
        """
        raise InvalidVerdictError("no judge is used")


def python_metric(
    target: str,
    *,
    result: Result = "number",
    score_range: tuple[float, float] = (0.0, 1.0),
    name: str | None = None,
    seconds: float = DEFAULT_SECONDS,
    memory_mb: int = DEFAULT_MEMORY_MB,
) -> CodeMetric:
    """Return a metric from a function of your own, for `Judge.score`; workers read it from the settings.

    Args:
        target: `package.module:function`; it runs in a child process.
        result: Its result: a number or whole number within `score_range`, a boolean, or labels, best first or
            with a number each.
        score_range: Lowest and highest score of a number.
        name: The metric's name; default: the function's.
        seconds: Time limit of one call, above 0.
        memory_mb: Memory limit of its process, in MiB.

    Raises:
        JudgeConfigurationError: There is no such module, or it has no such function.
        PromptPackError: `result` is invalid.
    """
    function = Function(target, read_scale(result, score_range), seconds=seconds, memory_mb=memory_mb)
    return CodeMetric(name or target.rpartition(":")[2].rpartition(".")[2], function)
