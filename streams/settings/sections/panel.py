"""Several votes on every answer: `metrics.<name>.panel`."""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import Field, StringConstraints, model_validator

from streams.settings.base import Section, refuse

MAX_VOTES = 15


class PanelSettings(Section):
    """The voters; all vote concurrently, and each vote is a paid call. A list alone means `endpoints`."""

    endpoints: tuple[str, ...] = Field(
        default=(),
        max_length=MAX_VOTES,
        description="Names of the judge.endpoints that vote; empty: the metric's one endpoint.",
    )
    models: tuple[Annotated[str, StringConstraints(min_length=1, max_length=200)], ...] = Field(
        default=(),
        max_length=MAX_VOTES,
        description="Models that vote at each of these endpoints, instead of the endpoint's own.",
    )
    samples: int = Field(
        default=1,
        ge=1,
        le=MAX_VOTES,
        description=(
            "Votes of each endpoint; above 1 with temperature 1 unless set in the parameters, and without "
            "the cache."
        ),
    )
    quorum: int | None = Field(
        default=None,
        ge=1,
        description="Minimum number of verdicts, else the result is failed; default: more than half.",
    )

    @property
    def votes(self) -> int:
        """Number of votes on each answer."""
        return max(len(self.endpoints), 1) * max(len(self.models), 1) * self.samples

    @model_validator(mode="before")
    @classmethod
    def _listed(cls, given: Any) -> Any:
        return {"endpoints": given} if isinstance(given, list | tuple) else given

    @model_validator(mode="after")
    def _several(self) -> Self:
        problems = []
        if not 2 <= self.votes <= MAX_VOTES:
            what = f"must result in 2 to {MAX_VOTES} votes, endpoints x models x samples, got {self.votes}"
            problems.append(("", what))
        if len(set(self.models)) != len(self.models):
            problems.append(("models", f"names a model twice (got {list(self.models)}); remove one"))
        if self.quorum is not None and self.quorum > self.votes:
            what = f"must be at most the number of votes ({self.votes}), got {self.quorum}; lower it"
            problems.append(("quorum", what))
        refuse(problems)
        return self
