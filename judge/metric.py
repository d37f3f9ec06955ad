"""Interface of metrics."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, fields
from decimal import Decimal
from typing import Any, Final, Literal, Protocol, Self, TypeVar

from judge.chat import ChatRequest
from schemas import (
    ChatMessage,
    Correction,
    JudgeTask,
    QAEvent,
    ResultKind,
    Suspicion,
    ToolCall,
    UnscoredReason,
)
from schemas.event import MAX_ROLE_CHARS, MAX_TOOL_NAME_CHARS

DEFAULT_SECONDS: Final = 5.0
DEFAULT_MEMORY_MB: Final = 512
"""Default limits of a code metric's process."""

Mode = Literal["evidence", "verbatim", "code"]
"""evidence: the judge lists items, code checks and counts them; verbatim: the judge's own score, by a prompt
pack; code: `prepare` decides without a judge."""


@dataclass(frozen=True, slots=True)
class Inputs:
    """The texts of an event that a metric needs."""

    question: str
    answer: str
    reference: str | None = None
    context: Mapping[str, str] | None = None
    messages: tuple[ChatMessage, ...] | None = None
    tool_calls: tuple[ToolCall, ...] | None = None
    other_answer: str | None = None
    fields: Mapping[str, str] | None = None
    """Named texts, and labels as `labels.<name>`; empty if the event has none of that name."""

    @classmethod
    def of(cls, texts: QAEvent | JudgeTask, uses: Collection[str] | None = None) -> Self:
        """Return the texts of an event or a task; with `uses`, only those with these names."""
        names = (one.name for one in fields(cls))
        given = {name: getattr(texts, name) for name in names if uses is None or name in uses}
        return cls(**{"question": "", "answer": "", **given})

    def of_task(self) -> dict[str, Any]:
        """Return the fields of a task with these texts."""
        return {one.name: getattr(self, one.name) for one in fields(self)}

    def changed(self, change: Callable[[str], str]) -> Inputs:
        """Return a copy with every text changed, including page names, which stay distinct."""
        context: dict[str, str] | None = None
        if self.context is not None:
            context = {}
            for given, text in self.context.items():
                name = change(given)
                context[name if name not in context else f"{name} ({len(context) + 1})"] = change(text)
        return Inputs(
            question=change(self.question),
            answer=change(self.answer),
            reference=None if self.reference is None else change(self.reference),
            context=context,
            messages=None if self.messages is None else tuple(_changed(one, change) for one in self.messages),
            tool_calls=None
            if self.tool_calls is None
            else tuple(_changed(one, change) for one in self.tool_calls),
            other_answer=None if self.other_answer is None else change(self.other_answer),
            fields=None
            if self.fields is None
            else {name: change(text) for name, text in self.fields.items()},
        )


# A changed name may be too long for a task, or empty.
_LIMITS: Final = {"role": MAX_ROLE_CHARS, "name": MAX_TOOL_NAME_CHARS}
_Turn = TypeVar("_Turn", ChatMessage, ToolCall)


def _changed(one: _Turn, change: Callable[[str], str]) -> _Turn:
    texts = {name: change(text)[: _LIMITS.get(name)] for name, text in one}
    if texts.get("role") == "":
        texts["role"] = "?"
    return one.model_copy(update=texts)


def further_texts(texts: QAEvent | JudgeTask | Inputs) -> Iterator[str]:
    """Yield the texts other than question, answer, reference and pages."""
    for one in (*(texts.messages or ()), *(texts.tool_calls or ())):
        yield from (text for _, text in one)
    yield texts.other_answer or ""
    yield from (texts.fields or {}).values()


@dataclass(frozen=True, slots=True)
class ScoredOutcome:
    """A verdict with its score."""

    verdict: Mapping[str, Any]
    score: int
    score_exact: str | None = None
    evidence: Any = None
    corrections: tuple[Correction, ...] = ()
    suspicions: tuple[Suspicion, ...] = ()
    objection: str | None = None
    """Problem that the judge is asked once to repair; this outcome is used if it does not."""
    kind: ResultKind = "integer"
    value: bool | float | str | None = None
    """The number, or the judge's choice; `score` is then the nearest whole number, or the choice's number
    (higher is better)."""

    @classmethod
    def of_number(cls, number: float, verdict: Mapping[str, Any], **findings: Any) -> Self:
        """Return the outcome of a metric whose scores need not be whole numbers.

        Args:
            number: Finite; rounded to six decimals.
            verdict: The published verdict.
            findings: Further fields.
        """
        value = round(float(number), 6)
        return cls(
            verdict,
            math.floor(value + 0.5),
            score_exact=f"{Decimal(repr(value)):f}",
            kind="number",
            value=value,
            **findings,
        )


@dataclass(frozen=True, slots=True)
class UnscoredOutcome:
    """An outcome without a score, because there is nothing to judge."""

    reason: UnscoredReason
    verdict: Mapping[str, Any] | None = None
    evidence: Any = None
    corrections: tuple[Correction, ...] = ()
    suspicions: tuple[Suspicion, ...] = ()


Outcome = ScoredOutcome | UnscoredOutcome


@dataclass(frozen=True, slots=True)
class OwnProcess:
    """Limits of the child process that runs a user's code metric.

    Args:
        seconds: Time limit of one call; above 0.
        memory_mb: Memory limit of the process, in MiB.
        first: Called at its start, within 60 s; its exceptions are ignored.
    """

    seconds: float = DEFAULT_SECONDS
    memory_mb: int = DEFAULT_MEMORY_MB
    first: Callable[[], object] | None = None


class Metric(Protocol):
    """One way to judge an answer. Pure: no I/O, no clock, no randomness."""

    @property
    def name(self) -> str:
        """The metric's name, also the last part of its task topic's name."""

    @property
    def score_range(self) -> tuple[float, float]:
        """Lowest and highest score, inclusive; whole numbers if scores are."""

    @property
    def labels(self) -> Mapping[str, int]:
        """The number of each label, or of `true` and `false`; empty if scores are numbers."""

    @property
    def mode(self) -> Mode:
        """How the metric is judged."""

    @property
    def prompt_hash(self) -> str:
        """Hash of the prompt templates, 12 hexadecimal digits."""

    @property
    def schema_hash(self) -> str:
        """Hash of the response schema, 12 hexadecimal digits, or the word "none"."""

    @property
    def scoring_version(self) -> str:
        """Version of the rules that turn a reply into a score, such as "coverage-1"."""

    def select(self, event: QAEvent) -> Inputs:
        """Return the texts that this metric needs from an event (for relevance only the cited pages)."""

    def prepare(self, task: JudgeTask) -> ChatRequest | Outcome:
        """Build the judge's request, or return the outcome if no call is needed."""

    def interpret(self, task: JudgeTask, reply: str) -> Outcome:
        """Turn the judge's reply into a checked verdict.

        Raises:
            InvalidVerdictError: The reply is invalid; the detail says what the judge must repair.
        """
