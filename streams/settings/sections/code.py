"""Metrics computed by code: `metrics.<name>.code` and `metrics.<name>.python`."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Field, StringConstraints, model_validator

from judge.metric import DEFAULT_MEMORY_MB, DEFAULT_SECONDS
from judge.metrics.code.checks import EventText
from judge.metrics.code.function import TEXTS
from judge.metrics.code.regex import MAX_PATTERN_CHARS
from schemas.base import LabelName
from streams.settings.base import FilePath, Section, refuse

_Read = Literal["question", "answer", "reference"]
_Phrase = Annotated[str, StringConstraints(min_length=1, max_length=1000)]
Worse = Literal["down", "up"]
"""The direction in which a number gets worse."""


class RegexSettings(Section):
    """Whether a pattern is found."""

    pattern: str = Field(
        min_length=1,
        max_length=MAX_PATTERN_CHARS,
        description="RE2 regular expression (linear time): no look-around, no back-references.",
    )
    of: _Read = Field(default="answer", description="The text to search.")
    good: bool = Field(default=True, description="Whether a match is good.")


class ContainsSettings(Section):
    """Whether a text contains words or phrases."""

    texts: tuple[_Phrase, ...] = Field(
        min_length=1, max_length=1000, description="Texts to find, character by character."
    )
    need: Literal["any", "all"] = Field(default="all", description="Whether one match is enough.")
    ignore_case: bool = Field(default=True, description="Whether to ignore case.")
    of: _Read = Field(default="answer", description="The text to search.")
    good: bool = Field(default=True, description="Whether a match is good.")


class JsonValidSettings(Section):
    """Whether the answer is JSON, alone or within one Markdown fence."""

    schema_file: FilePath | None = Field(
        default=None, description="JSON Schema (Draft 2020-12) to validate against."
    )


class LengthSettings(Section):
    """Length of a text."""

    unit: Literal["characters", "words", "sentences"] = Field(
        default="words", description="The unit to count."
    )
    of: _Read = Field(default="answer", description="The text.")
    worse: Worse = Field(default="down", description="Which direction of the mean raises an alert.")


class SimilaritySettings(Section):
    """Similarity of answer and reference, 0 to 1. A value alone, as in `similarity: words`, means `by`."""

    by: Literal["words", "embeddings"] = Field(
        default="words",
        description="words: common words in order. embeddings: cosine of the metric model's vectors from an "
        "endpoint's /embeddings; such a call is sampled and costs money like a judge call.",
    )

    @model_validator(mode="before")
    @classmethod
    def _named(cls, given: Any) -> Any:
        return {"by": given} if isinstance(given, str) else given


class LatencySettings(Section):
    """Latency of the answer, from a label of the event."""

    label: LabelName = Field(default="latency_seconds", description="The label with the number.")
    unit: Literal["seconds", "milliseconds"] = Field(default="seconds", description="Its unit.")


class CostSettings(Section):
    """Cost of the answer, from a label of the event."""

    label: LabelName = Field(default="cost_usd", description="The label with the number, in USD.")


class CodeSettings(Section):
    """One built-in check. A name alone, as in `code: latency`, means its defaults."""

    regex: RegexSettings | None = Field(default=None, description="Whether a pattern is found.")
    contains: ContainsSettings | None = Field(
        default=None, description="Whether a text contains words or phrases."
    )
    json_valid: JsonValidSettings | None = Field(default=None, description="Whether the answer is JSON.")
    length: LengthSettings | None = Field(default=None, description="Length of a text.")
    similarity: SimilaritySettings | None = Field(
        default=None, description="Similarity of answer and reference."
    )
    latency: LatencySettings | None = Field(default=None, description="Latency of the answer, from a label.")
    cost: CostSettings | None = Field(default=None, description="Cost of the answer, from a label.")

    @property
    def rises(self) -> bool:
        """Whether more of it is worse."""
        return (
            self.latency is not None
            or self.cost is not None
            or (self.length is not None and self.length.worse == "up")
        )

    @model_validator(mode="before")
    @classmethod
    def _named(cls, given: Any) -> Any:
        return {given: {}} if isinstance(given, str) else given

    @model_validator(mode="after")
    def _one(self) -> Self:
        given = [name for name in type(self).model_fields if getattr(self, name) is not None]
        if len(given) != 1:
            known = ", ".join(type(self).model_fields)
            refuse([("", f"must be one of {known} (got {', '.join(given) or 'none'}); name one")])
        return self


_Label = Annotated[str, StringConstraints(min_length=1, max_length=60)]


class PythonSettings(Section):
    """A function of your own. `package.module:function` alone means its defaults."""

    function: str = Field(
        pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_][\w.]*$",
        max_length=300,
        description="`package.module:function`: takes the event; returns a number, a boolean, a label or a "
        "`Score`.",
    )
    result: Literal["number", "integer", "boolean"] | tuple[_Label, ...] | dict[_Label, int] = Field(
        default="number",
        description="Type of its result: a number or whole number within score_range, true or false, or "
        "labels, best first or with a number each.",
    )
    worse: Worse = Field(default="down", description="Which direction of the mean raises an alert.")
    inputs: tuple[EventText, ...] = Field(
        default=TEXTS,
        description="Texts passed to the function; others are not sent to its process. It always gets "
        "labels and ids.",
    )
    seconds: float = Field(default=DEFAULT_SECONDS, ge=0.01, le=300, description="Time limit of one call.")
    memory_mb: int = Field(
        default=DEFAULT_MEMORY_MB, ge=64, le=1_048_576, description="Memory limit of its process, in MiB."
    )

    @property
    def rises(self) -> bool:
        """Whether more of it is worse."""
        return self.worse == "up"

    @model_validator(mode="before")
    @classmethod
    def _named(cls, given: Any) -> Any:
        return {"function": given} if isinstance(given, str) else given
