"""Anchor: a frozen task with its first scores. Topic `qa.anchors`, compacted by `anchor_id`.

A record without a value removes its anchor.
"""

from __future__ import annotations

from typing import Final, Literal

from pydantic import Field

from schemas.base import Message, MetricName, Timestamp
from schemas.result import Evaluator
from schemas.task import JudgeTask

FIRST_JUDGEMENTS: Final = 3


class Anchor(Message):
    """An answer that is judged again and again, to tell whether the judge has changed."""

    schema_version: Literal[1] = 1
    anchor_id: str = Field(pattern=r"^[0-9a-f]{32}$", description="The key: hash of answer and metric.")
    metric: MetricName
    task: JudgeTask = Field(description="The task; its texts are redacted.")
    evaluator: Evaluator = Field(description="That of the first judgements; another one makes them void.")
    scores: tuple[float, ...] = Field(
        min_length=FIRST_JUDGEMENTS, max_length=FIRST_JUDGEMENTS, description="Of the first judgements."
    )
    human_score: float | None = Field(default=None, description="A person's score; None: it has none.")
    known_bad: bool = Field(
        description="Whether the person's score, or else the first mean, is in the lower half of the scale."
    )
    enrolled_at: Timestamp
