"""Interface of metrics: their texts, tasks, outcomes and limits; and how tasks are built from events."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from decimal import Decimal
from typing import Any, Final, Literal, Protocol, Self

from judge.chat import ChatRequest
from judge.text.normal import beyond_ascii
from schemas import (
    ChatMessage,
    Correction,
    JudgeTask,
    QAEvent,
    ResultKind,
    Sampling,
    Source,
    Suspicion,
    ToolCall,
    UnscoredReason,
    result_id,
)
from schemas.event import MAX_ROLE_CHARS, MAX_TOOL_NAME_CHARS

DEFAULT_SECONDS: Final = 5.0
DEFAULT_MEMORY_MB: Final = 512
"""Default limits of a code metric's process: of one call, and of memory in MiB."""
READ_AT_ONCE: Final = 16_000
"""What is processed in the event loop, in milliseconds: `reading_size` of texts, or parts of a record."""
WEIGHT_BEYOND_ASCII: Final = 10
"""Non-ASCII characters take about ten times as long to process (`benchmarks/verification.py`)."""

Mode = Literal["evidence", "verbatim", "code"]
"""evidence: the judge lists items, code checks and counts them; verbatim: the judge's own score, by a prompt
pack; code: `prepare` decides without a judge."""


@dataclass(frozen=True, slots=True)
class Inputs:
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
        given = {name: getattr(texts, name) for name in _NAMES if uses is None or name in uses}
        return cls(**{"question": "", "answer": "", **given})

    def of_task(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in _NAMES}

    def changed(self, change: Callable[[str], str]) -> Inputs:
        """Return a copy with every text changed, including page names, which stay distinct."""
        texts = {name: _changed(getattr(self, name), change) for name in _NAMES}
        if self.context is not None:
            pages = texts["context"] = {}
            for given, text in self.context.items():
                name = change(given)
                pages[name if name not in pages else f"{name} ({len(pages) + 1})"] = change(text)
        return Inputs(**texts)


# Listing them costs more than copying a task's texts.
_NAMES: Final = tuple(one.name for one in fields(Inputs))
# A changed name may be too long for a task, or empty.
_LIMITS: Final = {"role": MAX_ROLE_CHARS, "name": MAX_TOOL_NAME_CHARS}


def _changed(value: Any, change: Callable[[str], str]) -> Any:
    match value:
        case str():
            return change(value)
        case tuple():
            return tuple(_changed(one, change) for one in value)
        case ChatMessage() | ToolCall():
            texts = {name: change(text)[: _LIMITS.get(name)] for name, text in value}
            return value.model_copy(
                update=texts | {"role": texts["role"] or "?"} if "role" in texts else texts
            )
        case Mapping():
            return {name: change(text) for name, text in value.items()}
    return value


def further_texts(texts: QAEvent | JudgeTask | Inputs) -> Iterator[str]:
    """Yield the texts other than question, answer, reference and pages."""
    for one in (*(texts.messages or ()), *(texts.tool_calls or ())):
        yield from (text for _, text in one)
    yield texts.other_answer or ""
    yield from (texts.fields or {}).values()


@dataclass(frozen=True, slots=True)
class ScoredOutcome:
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
        """Return the outcome of a finite number, rounded to six decimals, with further fields."""
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
    reason: UnscoredReason
    verdict: Mapping[str, Any] | None = None
    evidence: Any = None
    corrections: tuple[Correction, ...] = ()
    suspicions: tuple[Suspicion, ...] = ()


Outcome = ScoredOutcome | UnscoredOutcome


@dataclass(frozen=True, slots=True)
class OwnProcess:
    """Limits of the child process that runs a user's code metric: of one call, and of memory in MiB."""

    seconds: float = DEFAULT_SECONDS
    memory_mb: int = DEFAULT_MEMORY_MB
    first: Callable[[], object] | None = None
    """Called at its start, within 60 s; its exceptions are ignored."""


class Metric(Protocol):
    """One way to judge an answer. Pure: no I/O, no clock, no randomness."""

    @property
    def name(self) -> str: ...

    @property
    def score_range(self) -> tuple[float, float]:
        """Lowest and highest score, inclusive; whole numbers if scores are."""

    @property
    def labels(self) -> Mapping[str, int]:
        """The number of each label, or of `true` and `false`; empty if scores are numbers."""

    @property
    def mode(self) -> Mode: ...

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
        """Turn the judge's reply into a checked verdict; InvalidVerdictError says what to repair."""


def build_task(
    event: QAEvent,
    metric: Metric,
    *,
    source: Source,
    sampling: Sampling,
    recorded_at: datetime,
    sampled_at: datetime,
    replay_id: str | None = None,
) -> JudgeTask:
    """Build a task with the texts that the metric needs; `recorded_at` is used if the event has no time."""
    return JudgeTask(
        result_id=result_id(
            topic=source.topic, event_id=event.event_id, metric=metric.name, replay_id=replay_id
        ),
        event_id=event.event_id,
        metric=metric.name,
        replay_id=replay_id,
        source=source,
        trace_id=event.trace_id,
        span_id=event.span_id,
        labels=event.labels,
        **metric.select(event).of_task(),
        sampling=sampling,
        occurred_at=event.occurred_at or recorded_at,
        sampled_at=sampled_at,
    )


def unsampled_task(
    event: QAEvent,
    metric: Metric,
    *,
    source: str,
    now: datetime,
    number: int = 0,
    policy: str = "every event",
) -> JudgeTask:
    """Build the task of an event that was not sampled; `source` is its topic and `number` its offset."""
    return build_task(
        event,
        metric,
        source=Source(topic=source, partition=0, offset=number),
        sampling=Sampling(probability=1.0, stratum="default", policy=policy),
        recorded_at=now,
        sampled_at=now,
    )


def reading_size(texts: QAEvent | JudgeTask) -> int:
    """Return the size of all texts in ASCII characters; others are weighted by processing time."""
    pages = texts.context or {}
    each = (
        texts.question,
        texts.answer,
        texts.reference or "",
        *pages,
        *pages.values(),
        *further_texts(texts),
    )
    return size_of("".join(each))


def size_of(text: str) -> int:
    if len(text) > READ_AT_ONCE:
        return len(text)  # beyond the limit already; counting exactly would take time
    beyond, normal = beyond_ascii(text)
    # Invisible characters are not compared, but processed.
    return len(text) - beyond + WEIGHT_BEYOND_ASCII * max(normal, beyond)
