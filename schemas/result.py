"""Result: the outcome of one sampled answer under one metric. Topic `qa.scores`.

A result is `Scored`, `Unscored` (nothing to judge) or `Failed` (judging failed). A missing score is never NaN
or 0.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field, JsonValue, StrictBool, StrictFloat, TypeAdapter

from schemas.base import EventId, Message, MetricName, Source, Timestamp
from schemas.event import Labels
from schemas.task import Sampling

RESULT_ATTRIBUTE: Final = "judgestream.result_id"
"""The attribute of a verdict in OTLP that holds its id."""
UnscoredReason = Literal["missing_input", "no_claims", "too_long"]
"""missing_input: a text that the metric needs is missing or blank; no_claims: the answer makes no claim;
too_long: a text or the whole request exceeds a limit, which the evidence names."""

FailedType = Literal[
    "invalid_verdict",  # the judge's reply is invalid after all repair attempts
    "content_refused",  # a content filter or the judge itself refused this event
    "context_too_long",  # the event does not fit the judge's context window
    "reply_cut",  # the judge's reply ended at its length limit
    "no_answer",  # the judge answers other events, but repeatedly not this one
    "rejected_request",  # the endpoint refuses this request for another reason
    "verification_timeout",  # processing its texts exceeded a limit of time or memory
    "metric_error",  # a metric's own code or schema failed, timed out or returned an invalid value
    "no_quorum",  # too few members of a panel gave a verdict
    "internal_error",  # an internal error, with its type in the detail
]


ResultKind = Literal["integer", "number", "boolean", "label"]
"""integer: a whole number on a scale; number: any number on a scale; boolean: true or false; label: one of
several names."""


class Correction(Message):
    """A statement of the judge that code corrected."""

    kind: str = Field(
        pattern=r"^[a-z][a-z0-9_]*$",
        description="A kind listed in corrections.md; later versions may add kinds.",
    )
    detail: str


class Suspicion(Correction):
    """A possible error that code cannot prove; the score is unchanged."""


class Evaluator(Message):
    """What produced a score. A new fingerprint starts a new series; never combine scores of two."""

    fingerprint: str = Field(description="Hash of all other fields and of what they refer to.")
    prompt: str = Field(description="Hash of the prompt templates.")
    schema_: str = Field(alias="schema", description="Hash of the response schema, or the mode without one.")
    scoring: str = Field(description="Version of the rules that turn evidence into a score.")
    model: str = Field(description="The model that was asked.")
    parameters: dict[str, JsonValue] = Field(
        default_factory=dict, description="Sampling parameters of the call, without those of transport."
    )


class JudgeCall(Message):
    """The judge that answered."""

    endpoint: str
    model_asked: str
    model_answered: str
    system_fingerprint: str | None = Field(
        default=None, description="The provider's name of the build that answered, if it gives one."
    )
    fallback: bool = False
    cached: bool = False
    tries: int = Field(default=1, ge=1, description="Calls made for this verdict, including failed ones.")


class Usage(Message):
    """Tokens as counted by the endpoint, over all tries."""

    input_tokens: int = Field(default=0, ge=0)
    cached_tokens: int = Field(default=0, ge=0, description="Input tokens from a prompt cache.")
    output_tokens: int = Field(default=0, ge=0)


class Times(Message):
    """Timestamps (UTC), and the duration of judging."""

    occurred_at: Timestamp
    sampled_at: Timestamp
    judged_at: Timestamp
    judge_seconds: float | None = Field(default=None, ge=0, description="None without a call.")


class Vote(Message):
    """A vote of one member of a panel."""

    endpoint: str
    model: str = Field(description="The model that was asked.")
    status: Literal["scored", "unscored", "failed"]
    score: int | None = Field(default=None, description="As `score` of a result; null without one.")
    value: StrictBool | StrictFloat | str | None = Field(default=None, description="As `value` of a result.")
    reason: UnscoredReason | FailedType | None = Field(
        default=None, description="Reason for a missing score: `reason` or `error_type` of a result."
    )
    cost_usd: float | None = Field(default=None, ge=0, description="None if the price is unknown.")


class FirstPhase(Message):
    """What the cheap judge of two-phase judging found, whichever of the two the result is of."""

    fingerprint: str = Field(description="Of the cheap judge's evaluator.")
    model: str = Field(description="The cheap model that was asked.")
    score: float = Field(description="Its score, unrounded.")
    probability: float = Field(
        gt=0, lt=1, description="Probability with which the strong judge was asked, part of `sampling`'s."
    )
    strong: str = Field(description="Fingerprint of the strong judge's evaluator.")


class ResultBase(Message):
    """Common fields of all results."""

    schema_version: Literal[1] = 1
    result_id: str = Field(pattern=r"^[0-9a-f]{32}$")
    event_id: EventId
    replay_id: str | None = None
    trace_id: str | None = None
    span_id: str | None = None
    labels: Labels = Field(default_factory=dict)
    metric: MetricName
    source: Source
    task: Source | None = Field(default=None, description="The record of its task; null without one.")
    evaluator: Evaluator
    judge: JudgeCall | None = Field(default=None, description="None without a call.")
    usage: Usage = Field(default_factory=Usage)
    cost_usd: float | None = Field(default=None, ge=0, description="None if the model's price is unknown.")
    votes: tuple[Vote, ...] = Field(default=(), description="The votes of a panel; empty without a panel.")
    agreement: float | None = Field(
        default=None, ge=0, le=1, description="Agreement of a panel's votes with the result; 1: all agree."
    )
    first_phase: FirstPhase | None = Field(default=None, description="None without two-phase judging.")
    sampling: Sampling
    times: Times

    def __repr_args__(self) -> list[tuple[str | None, object]]:
        """Limit the `repr` to event, metric and outcome."""
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
        description="For a number the nearest whole one, for a boolean or label its number; higher is better."
    )
    kind: ResultKind = Field(default="integer", description="The kind of result.")
    value: StrictBool | StrictFloat | str | None = Field(
        default=None, description="The number, boolean or label; null if the score is complete."
    )
    score_exact: str | None = Field(
        default=None,
        pattern=r"^-?\d+(\.\d+|/\d+)?$",
        description="The score before rounding, as an exact decimal or fraction (coverage, numbers).",
    )
    evidence: JsonValue = Field(default=None, description="The judge's items, verified by code.")
    corrections: tuple[Correction, ...] = ()
    suspicions: tuple[Suspicion, ...] = Field(
        default=(), description="Suspicions, which did not lower the score."
    )

    @property
    def amount(self) -> float:
        """The number used in means, shares and charts: the exact number if the score is rounded."""
        return self.value if isinstance(self.value, float) else self.score

    @property
    def shown(self) -> str:
        """The displayed value: the number, true or false, or the label."""
        if isinstance(self.value, bool):
            return str(self.value).lower()
        return self.value if isinstance(self.value, str) else f"{self.amount:.6g}"


class Unscored(ResultBase):
    """There was nothing to judge; not part of any mean."""

    status: Literal["unscored"] = "unscored"
    reason: UnscoredReason
    verdict: dict[str, JsonValue] | None = Field(
        default=None, description="If the metric prescribes one nevertheless (coverage with missing input)."
    )
    evidence: JsonValue = None
    corrections: tuple[Correction, ...] = ()
    suspicions: tuple[Suspicion, ...] = Field(
        default=(), description="Suspicions, which did not lower the score."
    )


class Failed(ResultBase):
    """Judging this event failed; a retry would not help."""

    status: Literal["failed"] = "failed"
    error_type: FailedType
    detail: str = Field(description="What went wrong, truncated; may quote the judge.")


Result = Annotated[Scored | Unscored | Failed, Field(discriminator="status")]

RESULT: TypeAdapter[Scored | Unscored | Failed] = TypeAdapter(Result)
"""Parses a result from JSON bytes: `RESULT.validate_json(value)`."""
