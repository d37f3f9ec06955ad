"""Result: what happened to one sampled answer under one metric. Topic `qa.scores`.

A result is `Scored`, `Unscored` (there is nothing to judge: no number) or `Failed` (judging went wrong: no
number). A missing number is never written as NaN or 0.
"""

from __future__ import annotations

import hashlib
import json
from typing import Annotated, Literal

from pydantic import Field, JsonValue, StrictBool, StrictFloat, TypeAdapter

from schemas.base import EventId, Labels, Message, MetricName, Source, Timestamp
from schemas.task import Sampling

UnscoredReason = Literal["missing_input", "no_claims"]
"""missing_input: a text the metric needs is missing or blank; no_claims: the answer claims nothing."""

FailedType = Literal[
    "invalid_verdict",  # the judge's reply does not hold after the repair attempts
    "content_refused",  # a content filter or the judge itself refused this event
    "context_too_long",  # the event does not fit the judge's context window
    "reply_cut",  # the judge's reply ended at its length limit
    "no_answer",  # the judge answers other events, and again and again not this one
    "rejected_request",  # the endpoint refuses this request for another reason of its own
    "verification_timeout",  # reading its texts took more time or memory than an event may take
    "metric_error",  # a code metric raised, took too long or gave what it may not give
    "no_quorum",  # too few members of a panel gave a verdict
    "internal_error",  # our own mistake, with its type in the detail
]


ResultKind = Literal["integer", "number", "boolean", "label"]
"""integer: a whole number on a scale; number: any number on a scale; boolean: true or false; label: one of
several names."""


class Correction(Message):
    """Something the judge claimed and code found otherwise."""

    kind: str = Field(
        pattern=r"^[a-z][a-z0-9_]*$",
        description="One that corrections.md lists; later versions may add some.",
    )
    detail: str


class Suspicion(Message):
    """Something that looks wrong and that code cannot show to be; the score stays as it is."""

    kind: str = Field(
        pattern=r"^[a-z][a-z0-9_]*$",
        description="One that corrections.md lists; later versions may add some.",
    )
    detail: str


class Evaluator(Message):
    """What produced a number. A new fingerprint starts a new series: numbers of two must not be blended."""

    fingerprint: str = Field(description="Hash of all the fields beside it and of what they name.")
    prompt: str = Field(description="Hash of the prompt templates.")
    schema_: str = Field(alias="schema", description="Hash of the response schema, or the mode without one.")
    scoring: str = Field(description="Version of the rules that turn evidence into a score.")
    model: str = Field(description="The model that was asked.")
    parameters: dict[str, JsonValue] = Field(
        default_factory=dict, description="Sampling parameters of the call."
    )


class JudgeCall(Message):
    """Which judge answered."""

    endpoint: str
    model_asked: str
    model_answered: str
    fallback: bool = False
    cached: bool = False
    tries: int = Field(default=1, ge=1, description="Calls made for this verdict, failed ones included.")


class Usage(Message):
    """Tokens, as the endpoint counts them, over all tries."""

    input_tokens: int = Field(default=0, ge=0)
    cached_tokens: int = Field(
        default=0, ge=0, description="Those of the input that came from a prompt cache."
    )
    output_tokens: int = Field(default=0, ge=0)


class Times(Message):
    """When things happened (UTC), and how long the judge took."""

    occurred_at: Timestamp
    sampled_at: Timestamp
    judged_at: Timestamp
    judge_seconds: float | None = Field(default=None, ge=0, description="None where no call.")


class Vote(Message):
    """What one member of a panel said."""

    endpoint: str
    model: str = Field(description="The model that was asked.")
    status: Literal["scored", "unscored", "failed"]
    score: int | None = Field(default=None, description="As `score` of a result; null without one.")
    value: StrictBool | StrictFloat | str | None = Field(default=None, description="As `value` of a result.")
    reason: UnscoredReason | FailedType | None = Field(
        default=None, description="Why there is no score: `reason` or `error_type` of a result."
    )
    cost_usd: float | None = Field(default=None, ge=0, description="None where the price is not known.")


class ResultBase(Message):
    """What every result carries."""

    schema_version: Literal[1] = 1
    result_id: str = Field(pattern=r"^[0-9a-f]{32}$")
    event_id: EventId
    replay_id: str | None = None
    trace_id: str | None = None
    span_id: str | None = None
    labels: Labels = Field(default_factory=dict)
    metric: MetricName
    source: Source
    evaluator: Evaluator
    judge: JudgeCall | None = Field(default=None, description="None where no call.")
    usage: Usage = Field(default_factory=Usage)
    cost_usd: float | None = Field(
        default=None, ge=0, description="None where the model's price is not known."
    )
    votes: tuple[Vote, ...] = Field(
        default=(), description="What each member of a panel said; empty without a panel."
    )
    agreement: float | None = Field(
        default=None, ge=0, le=1, description="How far a panel's votes agree with the result; 1: all of them."
    )
    sampling: Sampling
    times: Times

    def __repr_args__(self) -> list[tuple[str | None, object]]:
        """What is shown in a prompt or a notebook: which event, which metric, and what came out."""
        found = {
            name: getattr(self, name, None)
            for name in ("event_id", "metric", "shown", "reason", "error_type")
        }
        return [(name, one) for name, one in found.items() if one is not None]


class Scored(ResultBase):
    """The answer was judged."""

    status: Literal["scored"] = "scored"
    verdict: dict[str, JsonValue] = Field(description="Exactly as the metric publishes it.")
    score: int = Field(
        description="Of a number the nearest whole one, of a boolean or a label its number: more is better."
    )
    kind: ResultKind = Field(default="integer", description="What the judge gave.")
    value: StrictBool | StrictFloat | str | None = Field(
        default=None, description="The number, the boolean or the label; null where the score says all."
    )
    score_exact: str | None = Field(
        default=None,
        pattern=r"^-?\d+(\.\d+|/\d+)?$",
        description="The score before rounding, as an exact decimal or fraction (coverage, numbers).",
    )
    evidence: JsonValue = Field(default=None, description="What the judge listed and code verified.")
    corrections: tuple[Correction, ...] = ()
    suspicions: tuple[Suspicion, ...] = Field(
        default=(), description="What code merely suspects; it lowered nothing."
    )

    @property
    def amount(self) -> float:
        """What means, shares and charts count: the number itself where the score is its nearest whole one."""
        return self.value if isinstance(self.value, float) else self.score

    @property
    def shown(self) -> str:
        """What people read: the number, true or false, or the label."""
        if isinstance(self.value, bool):
            return str(self.value).lower()
        return self.value if isinstance(self.value, str) else f"{self.amount:.6g}"


class Unscored(ResultBase):
    """There was nothing to judge; no average counts this."""

    status: Literal["unscored"] = "unscored"
    reason: UnscoredReason
    verdict: dict[str, JsonValue] | None = Field(
        default=None, description="Where the metric prescribes one even so (coverage with missing input)."
    )
    evidence: JsonValue = None
    corrections: tuple[Correction, ...] = ()
    suspicions: tuple[Suspicion, ...] = Field(
        default=(), description="What code merely suspects; it lowered nothing."
    )


class Failed(ResultBase):
    """Judging this event failed; a retry would not help."""

    status: Literal["failed"] = "failed"
    error_type: FailedType
    detail: str = Field(description="What went wrong, cut to a bound; may quote the judge.")


Result = Annotated[Scored | Unscored | Failed, Field(discriminator="status")]

RESULT: TypeAdapter[Scored | Unscored | Failed] = TypeAdapter(Result)
"""Reads a result from JSON bytes: `RESULT.validate_json(value)`."""


_ID_PARTS = json.JSONEncoder(ensure_ascii=True, separators=(",", ":"))
# Made once: `json.dumps` with these arguments makes one at every call, which takes longer than the rest of an
# id.


def result_id(*, topic: str, event_id: str, metric: str, replay_id: str | None) -> str:
    """The deterministic id of a result: 32 hexadecimal digits.

    Args:
        topic: The topic that the event came from.
        event_id: The event's id.
        metric: The metric's name.
        replay_id: The replay that asked for the judging, or None for the live stream.
    """
    parts = _ID_PARTS.encode([topic, event_id, metric, replay_id])
    return hashlib.sha256(parts.encode()).hexdigest()[:32]
