"""Label: what a person says of a verdict. Topic `qa.labels`, append-only: the latest of a person counts."""

from __future__ import annotations

import hashlib
import json
from typing import Annotated, Literal

from pydantic import Field, StrictBool, StrictFloat, StringConstraints

from schemas.base import EventId, Message, MetricName, Timestamp
from schemas.result import ResultKind

MAX_NOTE_CHARS = 2_000
MAX_WHO_CHARS = 200


class Selection(Message):
    """How a verdict came to be reviewed.

    Without the probability, labels would say nothing about all verdicts.
    """

    kind: Literal["random", "doubt", "incident", "chosen", "import"]
    probability: float | None = Field(
        default=None, gt=0, le=1, description="Chance with which it was picked; None where nobody knows."
    )


class Label(Message):
    """What a person says the score should be."""

    schema_version: Literal[1] = 1
    label_id: str = Field(pattern=r"^[0-9a-f]{32}$", description="Hash of result, person and moment.")
    result_id: str = Field(pattern=r"^[0-9a-f]{32}$", description="The verdict that this is about.")
    event_id: EventId
    metric: MetricName
    score: int | None = Field(
        description="What the score should be, as `score` of a result; None where it cannot be said."
    )
    kind: ResultKind = Field(default="integer", description="What the metric gives.")
    value: StrictBool | StrictFloat | str | None = Field(
        default=None, description="As `value` of a result: the number, the boolean or the label."
    )
    judge_score: int | None = Field(
        default=None, description="The judge's score; None if there was none or it is unknown."
    )
    judge_value: StrictBool | StrictFloat | str | None = Field(
        default=None, description="`value` of the result; None where its score says all."
    )
    fingerprint: str | None = Field(default=None, description="The evaluator whose verdict it is.")
    note: Annotated[str, StringConstraints(max_length=MAX_NOTE_CHARS)] = ""
    who: Annotated[str, StringConstraints(min_length=1, max_length=MAX_WHO_CHARS)]
    labelled_at: Timestamp
    selection: Selection


def label_id(*, result_id: str, who: str, labelled_at: str) -> str:
    """The deterministic id of a label, so that the same file imported twice adds nothing.

    Args:
        result_id: The verdict.
        who: The person.
        labelled_at: The moment, as RFC 3339.
    """
    return hashlib.sha256(json.dumps([result_id, who, labelled_at]).encode()).hexdigest()[:32]
