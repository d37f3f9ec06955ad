"""Published verdicts of the two built-in metrics, without further keys."""

from __future__ import annotations

from typing import Annotated

from pydantic import ConfigDict, Field

from schemas.base import Message


class CoverageVerdict(Message):
    """How much of a reference an answer covers."""

    model_config = ConfigDict(extra="forbid", strict=True)

    score: int = Field(ge=0, le=5)
    rationale: Annotated[list[str], Field(min_length=5, max_length=5)] = Field(
        description="Facts, conclusions, terminology, organization, and the score with its formula."
    )


class RelevanceVerdict(Message):
    """How well an answer's claims are supported by the pages they cite."""

    model_config = ConfigDict(extra="forbid", strict=True)

    score: int = Field(ge=1, le=5)
    justification: str
