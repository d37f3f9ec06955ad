"""Label: a person's rating of a verdict. Topic `qa.labels`, append-only: the person's latest counts."""

from __future__ import annotations

import hashlib
import json
from typing import Annotated, Literal

from pydantic import Field, StrictBool, StrictFloat, StringConstraints

from schemas.base import EventId, Message, MetricName, Timestamp
from schemas.result import ResultKind

MAX_NOTE_CHARS = 2_000
MAX_WHO_CHARS = 200
MAX_FRAME_CHARS = 2_000


class Selection(Message):
    """How a verdict was selected for review. The probability is needed for estimates over all verdicts."""

    kind: Literal["random", "doubt", "incident", "chosen", "import"]
    probability: float | None = Field(
        default=None, gt=0, le=1, description="Probability of its selection; None if unknown."
    )
    policy: str | None = Field(
        default=None, max_length=100, description="The labelling policy with its version, such as random/1."
    )
    frame: str = Field(
        default="",
        max_length=MAX_FRAME_CHARS,
        description="The filter of the answers that could be drawn; empty: all.",
    )
    drawn: int | None = Field(default=None, gt=0, description="Number of answers drawn with this one.")
    drawn_at: Timestamp | None = Field(default=None, description="Time of the draw.")


class Label(Message):
    """The score that a person considers right."""

    schema_version: Literal[1] = 1
    label_id: str = Field(pattern=r"^[0-9a-f]{32}$", description="Hash of result, person and moment.")
    result_id: str = Field(pattern=r"^[0-9a-f]{32}$", description="The labelled verdict.")
    event_id: EventId
    metric: MetricName
    score: int | None = Field(
        description="The right score, as `score` of a result; None if it cannot be decided."
    )
    kind: ResultKind = Field(default="integer", description="The metric's kind of result.")
    value: StrictBool | StrictFloat | str | None = Field(
        default=None, description="As `value` of a result: the number, boolean or label."
    )
    judge_score: int | None = Field(
        default=None, description="The judge's score; None if there was none or it is unknown."
    )
    judge_value: StrictBool | StrictFloat | str | None = Field(
        default=None, description="`value` of the result; None if its score is complete."
    )
    fingerprint: str | None = Field(default=None, description="The evaluator of the verdict.")
    note: Annotated[str, StringConstraints(max_length=MAX_NOTE_CHARS)] = ""
    who: Annotated[str, StringConstraints(min_length=1, max_length=MAX_WHO_CHARS)]
    labelled_at: Timestamp
    selection: Selection


def label_id(*, result_id: str, who: str, labelled_at: str) -> str:
    """Return the deterministic id of a label, so that repeated imports add nothing."""
    return hashlib.sha256(json.dumps([result_id, who, labelled_at]).encode()).hexdigest()[:32]
