"""Section `metrics`: the metrics, their events and their judge."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Annotated, Final, Literal, Self

from pydantic import BeforeValidator, ConfigDict, Field, JsonValue, model_validator
from pydantic.config import JsonDict

from judge.metrics.registry import BUILT_IN
from schemas.base import EventField, MetricName
from streams.settings.base import FilePath, Rate, Section, refuse
from streams.settings.sections.code import CodeSettings, PythonSettings
from streams.settings.sections.intake import LabelConditions
from streams.settings.sections.panel import PanelSettings

Unit = Literal["event", "conversation"]
"""The unit that a metric judges."""


_FLAT_LABEL: Final[JsonDict] = {
    "anyOf": [{"type": ["string", "number", "boolean"]}, {"type": "array", "minItems": 1}]
}
"""For the JSON Schema: a label directly in `when`; `_flat` moves it to `labels`."""


def _one_or_several(value: object) -> object:
    return (value,) if isinstance(value, str) else value


class MetricConditions(Section):
    """Which events a metric judges; all conditions must hold."""

    model_config = ConfigDict(json_schema_extra={"additionalProperties": _FLAT_LABEL})

    has: Annotated[
        tuple[EventField, ...],
        BeforeValidator(_one_or_several, json_schema_input_type=EventField | tuple[EventField, ...]),
    ] = Field(default=(), description="Fields that must not be blank.")
    labels: LabelConditions = Field(
        default_factory=dict,
        description=(
            "Labels the event must have: name to value or values; also accepted directly in `when`, as in "
            "sampling.rules."
        ),
    )

    @model_validator(mode="before")
    @classmethod
    def _flat(cls, value: object) -> object:
        """Move names other than has and labels to labels; a name similar to these stays, as an error."""
        if not isinstance(value, Mapping):
            return value
        labels = value.get("labels", {})
        if not isinstance(labels, Mapping):
            return value
        flat = [
            name
            for name in value
            if name not in {*cls.model_fields, *labels} and not get_close_matches(str(name), cls.model_fields)
        ]
        if not flat:
            return value
        rest = {name: of for name, of in value.items() if name not in flat}
        return {**rest, "labels": {**{name: value[name] for name in flat}, **labels}}


class MetricSettings(Section):
    """One metric."""

    when: MetricConditions = Field(default_factory=MetricConditions)
    unit: Unit = Field(
        default="event",
        description="event: each answer; conversation: all events of a conversation_id together, once it is "
        "idle (ingest.conversations); needs records keyed by conversation_id and sampling.key: "
        "record_key.",
    )
    rate: Rate = Field(
        default=1.0,
        description="Share of the sampled events that this metric judges; with `code` or `python`, of all "
        "events except strata with rate 0.",
    )
    mode: Literal["evidence", "verbatim"] | None = Field(
        default=None,
        description="evidence: the judge lists evidence and code scores it; verbatim: the "
        "judge's own score. None: evidence, or verbatim with a prompt pack.",
    )
    prompt_pack: FilePath | None = Field(default=None, description="File with the metric's prompts.")
    code: CodeSettings | None = Field(
        default=None, description="A check by code instead of prompts; free, except `similarity: embeddings`."
    )
    python: PythonSettings | None = Field(
        default=None, description="Your own function instead of prompts; it runs in a separate process."
    )
    score_range: tuple[int | float, int | float] | None = Field(
        default=None,
        description=(
            "Lowest and highest score (metrics of a prompt pack, a function, a length, a latency or a "
            "cost only); whole numbers for `result: integer` and for a pack without `result: number`."
        ),
    )
    endpoints: tuple[str, ...] = Field(
        default=(),
        max_length=20,
        description=(
            "Names of the judge.endpoints for this metric, in order of preference; empty: all, in their "
            "order."
        ),
    )
    model: str | None = Field(
        default=None,
        min_length=1,
        max_length=200,
        description=(
            "Model to use instead of the endpoint's own, at its published price; it has its own limits and "
            "breaker."
        ),
    )
    parameters: dict[str, JsonValue] = Field(
        default_factory=dict,
        description=(
            "Sampling parameters of this metric (temperature, seed, ...); they override the endpoint's."
        ),
    )
    panel: PanelSettings | None = Field(
        default=None, description="Several votes per answer instead of one verdict."
    )
    verification: Literal["marks", "strict", "off"] = Field(
        default="marks",
        description="How to treat suspicions: marks: listed in the result's `suspicions`; strict: they "
        "lower the score; off: not checked. Proven errors always lower the score (coverage and "
        "relevance).",
    )
    citation_pattern: str | None = Field(
        default=None,
        min_length=1,
        max_length=500,
        description=(
            "Regular expression for your citation format; its first group is the page number or document "
            "name (relevance)."
        ),
    )
    without_citations: Literal["lowest", "unscored"] = Field(
        default="lowest",
        description=("Whether an answer without citations scores 1 (as defined) or is unscored (relevance)."),
    )

    @property
    def is_code(self) -> bool:
        """Whether code computes the score without an endpoint."""
        return self.is_check and not self.embeds

    @property
    def is_check(self) -> bool:
        """Whether it is a check or a function, without a prompt."""
        return self.code is not None or self.python is not None

    @property
    def embeds(self) -> bool:
        """Whether it compares texts by an endpoint's embeddings."""
        similarity = None if self.code is None else self.code.similarity
        return similarity is not None and similarity.by == "embeddings"

    @property
    def rises(self) -> bool:
        """Whether a rise of the mean is a deterioration."""
        found = self.code or self.python
        return found is not None and found.rises

    @property
    def asked(self) -> tuple[str, ...]:
        """Names of its endpoints; empty: all."""
        return (self.panel.endpoints if self.panel is not None else ()) or self.endpoints

    @property
    def models(self) -> tuple[str | None, ...]:
        """Models to use at each of these endpoints; None: the endpoint's own."""
        return (self.panel.models if self.panel is not None else ()) or (self.model,)

    @model_validator(mode="after")
    def _one_list(self) -> Self:
        if self.model is not None and self.panel is not None and self.panel.models:
            refuse([("model", "excludes panel.models; keep one of them")])
        if self.panel is not None and (len(self.endpoints) > 1 or (self.endpoints and self.panel.endpoints)):
            refuse(
                [
                    (
                        "endpoints",
                        "must have one entry with a panel without endpoints, otherwise none; correct it",
                    )
                ]
            )
        return self

    @model_validator(mode="after")
    def _code(self) -> Self:
        named = [name for name in ("code", "python", "prompt_pack") if getattr(self, name) is not None]
        problems = [] if len(named) < 2 else [(named[1], f"excludes {named[0]}; keep one of them")]
        judged = ("mode", "panel") if self.embeds else ("mode", "endpoints", "model", "parameters", "panel")
        if self.is_check:
            fields = type(self).model_fields
            problems += [
                (name, "is only for metrics with a judge; remove it")
                for name in judged
                if getattr(self, name) != fields[name].get_default(call_default_factory=True)
            ]
        if self.embeds and self.model is None and not self.endpoints:
            problems.append(("model", "is required; name an embedding model"))
        refuse(problems)
        return self

    @model_validator(mode="after")
    def _pack(self) -> Self:
        problems: list[tuple[str, str]] = []
        if self.score_range is not None and self.score_range[0] >= self.score_range[1]:
            got = list(self.score_range)
            problems.append(
                ("score_range", f"must be [lowest, highest] with lowest < highest (got {got}); correct it")
            )
        if self.prompt_pack is not None and self.mode == "evidence":
            problems.append(
                ("mode", "must be verbatim with a prompt pack (got 'evidence'); remove mode or prompt_pack")
            )
        refuse(problems)
        return self


def default_metrics() -> Mapping[MetricName, MetricSettings]:
    """Return the built-in metrics that are on by default, each for the events with the fields it needs."""
    return {
        name: MetricSettings(when=MetricConditions(has=metric.needs))
        for name, metric in BUILT_IN.items()
        if metric.needs is not None
    }
