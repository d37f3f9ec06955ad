"""Section `metrics`: the metrics, their events, and their judge, check or function."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Annotated, Any, ClassVar, Final, Literal, Self

from pydantic import (
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    PrivateAttr,
    StringConstraints,
    model_validator,
)
from pydantic.config import JsonDict

from judge.metric import DEFAULT_MEMORY_MB, DEFAULT_SECONDS
from judge.metrics.code import MAX_PATTERN_CHARS
from judge.metrics.registry import BUILT_IN, metric_class, needs_judge
from schemas.base import EventField, LabelName, MetricName
from streams.settings.base import FilePath, Problems, Rate, Section
from streams.settings.intake import LabelConditions

Unit = Literal["event", "conversation"]
Worse = Literal["down", "up"]
MAX_VOTES: Final = 15
_Text = Literal["question", "answer", "reference"]
_Phrase = Annotated[str, StringConstraints(min_length=1, max_length=1000)]
_Label = Annotated[str, StringConstraints(min_length=1, max_length=60)]
_FLAT_LABEL: Final[JsonDict] = {
    "anyOf": [{"type": ["string", "number", "boolean"]}, {"type": "array", "minItems": 1}]
}
"""For the JSON Schema: a label directly in `when`; `_flat` moves it to `labels`."""


class RegexSettings(Section):
    """Whether a pattern is found."""

    pattern: str = Field(min_length=1, max_length=MAX_PATTERN_CHARS)
    """RE2 regular expression (linear time): no look-around, no back-references."""
    of: _Text = "answer"
    """The text to search."""
    good: bool = True
    """Whether a match is good."""


class ContainsSettings(Section):
    """Whether a text contains words or phrases."""

    texts: tuple[_Phrase, ...] = Field(min_length=1, max_length=1000)
    """Texts to find in the answer, character by character, without regard to case; otherwise use regex."""
    good: bool = True
    """true: good if all are found; false: bad if any is found. For other combinations use regex."""


class JsonValidSettings(Section):
    """Whether the answer is JSON, alone or within one Markdown fence."""

    schema_file: FilePath | None = None
    """JSON Schema (Draft 2020-12) to validate against."""


class LengthSettings(Section):
    """Length of the answer."""

    unit: Literal["characters", "words", "sentences"] = "words"
    """What to count."""
    worse: Worse = "down"
    """Which direction of the mean raises an alert."""


class SimilaritySettings(Section):
    """Similarity of answer and reference, 0 to 1. A value alone, as in `similarity: words`, means `by`."""

    short_form: ClassVar = "by"
    by: Literal["words", "embeddings"] = "words"
    """words: common words in order. embeddings: cosine of the metric model's vectors from an endpoint's
    /embeddings; such a call is sampled and costs money like a judge call."""


class LatencySettings(Section):
    """Latency of the answer, from a label of the event."""

    label: LabelName = "latency_seconds"
    """The label with the number, in seconds; in milliseconds if its name ends in _ms or _milliseconds."""


class CostSettings(Section):
    """Cost of the answer, from a label of the event."""

    label: LabelName = "cost_usd"
    """The label with the number, in USD."""


class CodeSettings(Section):
    """One built-in check. A name alone, as in `code: latency`, means its defaults."""

    regex: RegexSettings | None = None
    contains: ContainsSettings | None = None
    json_valid: JsonValidSettings | None = None
    length: LengthSettings | None = None
    similarity: SimilaritySettings | None = None
    latency: LatencySettings | None = None
    cost: CostSettings | None = None

    @property
    def rises(self) -> bool:
        grows = self.length is not None and self.length.worse == "up"
        return grows or self.latency is not None or self.cost is not None

    @model_validator(mode="before")
    @classmethod
    def _named(cls, given: Any) -> Any:
        return {given: {}} if isinstance(given, str) else given

    def _problems(self) -> Problems:
        given = [name for name in type(self).model_fields if getattr(self, name) is not None]
        if len(given) != 1:
            known = ", ".join(type(self).model_fields)
            yield "", f"must be one of {known} (got {', '.join(given) or 'none'}); name one"


class PythonSettings(Section):
    """A function of your own. `package.module:function` alone means its defaults."""

    short_form: ClassVar = "function"
    function: str = Field(pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_][\w.]*$", max_length=300)
    """`package.module:function`: takes the event; returns a number, a boolean, a label or a `Score`."""
    result: Literal["number", "integer", "boolean"] | tuple[_Label, ...] | dict[_Label, int] = "number"
    """Type of its result: a number or whole number within score_range, true or false, or labels, best first
    or with a number each."""
    worse: Worse = "down"
    """Which direction of the mean raises an alert."""
    seconds: float = Field(default=DEFAULT_SECONDS, ge=0.01, le=300)
    """Time limit of one call."""
    memory_mb: int = Field(default=DEFAULT_MEMORY_MB, ge=64, le=1_048_576)
    """Memory limit of its process, in MiB."""

    @property
    def rises(self) -> bool:
        return self.worse == "up"


class PanelSettings(Section):
    """The voters; all vote concurrently, and each vote is a paid call. A list alone means `endpoints`."""

    short_form: ClassVar = "endpoints"
    endpoints: tuple[str, ...] = Field(default=(), max_length=MAX_VOTES)
    """Names of the judge.endpoints that vote; empty: the metric's one endpoint."""
    models: tuple[Annotated[str, StringConstraints(min_length=1, max_length=200)], ...] = Field(
        default=(), max_length=MAX_VOTES
    )
    """Models that vote at each of these endpoints, instead of the endpoint's own."""
    samples: int = Field(default=1, ge=1, le=MAX_VOTES)
    """Votes of each endpoint; above 1 with temperature 1 unless set in the parameters, and without the
    cache."""

    @property
    def votes(self) -> int:
        return max(len(self.endpoints), 1) * max(len(self.models), 1) * self.samples

    def _problems(self) -> Problems:
        if not 2 <= self.votes <= MAX_VOTES:
            yield "", f"must result in 2 to {MAX_VOTES} votes, endpoints x models x samples, got {self.votes}"
        if len(set(self.models)) != len(self.models):
            yield "models", f"names a model twice (got {list(self.models)}); remove one"


class TwoPhaseSettings(Section):
    """A cheap judge for all sampled answers; the metric's own judges a random part of them."""

    endpoint: str
    """Name of the cheap judge, one of judge.endpoints."""
    model: str | None = Field(default=None, min_length=1, max_length=200)
    """The cheap model; default: the endpoint's own."""
    strong_share: float = Field(default=0.1, gt=0, le=0.5)
    """Share of the answers that the metric's own judge gets, too; up to three times as much where the cheap
    verdict was corrected or doubted."""


class MetricConditions(Section):
    """Which events a metric judges; all conditions must hold."""

    model_config = ConfigDict(json_schema_extra={"additionalProperties": _FLAT_LABEL})

    has: Annotated[
        tuple[EventField, ...],
        BeforeValidator(
            lambda given: (given,) if isinstance(given, str) else given,
            json_schema_input_type=EventField | tuple[EventField, ...],
        ),
    ] = ()
    """Fields that must not be blank."""
    labels: LabelConditions = Field(default_factory=dict)
    """Labels the event must have: name to value or values; also directly in `when`."""

    @model_validator(mode="before")
    @classmethod
    def _flat(cls, value: object) -> object:
        """Move names other than has and labels to labels; a name similar to these stays, as an error."""
        labels = value.get("labels", {}) if isinstance(value, Mapping) else None
        if not isinstance(value, Mapping) or not isinstance(labels, Mapping):
            return value
        known = {*cls.model_fields, *labels}
        flat = {
            name: of
            for name, of in value.items()
            if name not in known and not get_close_matches(str(name), cls.model_fields)
        }
        if not flat:
            return value
        return {**{name: of for name, of in value.items() if name not in flat}, "labels": {**flat, **labels}}


class MetricSettings(Section):
    """One metric."""

    when: MetricConditions = Field(default_factory=MetricConditions)
    unit: Unit = "event"
    """event: each answer; conversation: all events of a conversation_id together, once it is idle
    (ingest.idle_seconds); needs records keyed by conversation_id and sampling.key: record_key."""
    rate: Rate = 1.0
    """Share of the sampled events that this metric judges; with `code` or `python`, of all events except
    strata with rate 0."""
    prompt_pack: FilePath | None = None
    """File with the metric's prompts."""
    code: CodeSettings | None = None
    python: PythonSettings | None = None
    score_range: tuple[int | float, int | float] | None = None
    """Lowest and highest score (metrics of a prompt pack, a function, a length, a latency or a cost only);
    whole numbers for `result: integer` and for a pack without `result: number`."""
    endpoints: tuple[str, ...] = Field(default=(), max_length=20)
    """Names of the judge.endpoints for this metric, in order of preference; empty: all."""
    model: str | None = Field(default=None, min_length=1, max_length=200)
    """Model to use instead of the endpoint's own, at its published price."""
    parameters: dict[str, JsonValue] = Field(default_factory=dict)
    """Sampling parameters of this metric (temperature, seed, ...); they override the endpoint's."""
    panel: PanelSettings | None = None
    two_phase: TwoPhaseSettings | None = None
    citation_pattern: str | None = Field(default=None, min_length=1, max_length=500)
    """Regular expression for your citation format; its first group is the page number or document name
    (relevance)."""
    without_citations: Literal["lowest", "unscored"] = "lowest"
    """Whether an answer without citations scores 1 (as defined) or is unscored (relevance)."""

    _in_class: bool = PrivateAttr(default=False)

    def find_class(self, name: str) -> Self:
        """Note whether an installed class of this name judges without an endpoint; return the metric."""
        self._in_class = self.prompt_pack is None and not self.is_check and not needs_judge(name)
        return self

    @property
    def is_code(self) -> bool:
        """Whether no endpoint is asked."""
        return self._in_class or (self.is_check and not self.embeds)

    @property
    def is_check(self) -> bool:
        return self.code is not None or self.python is not None

    @property
    def embeds(self) -> bool:
        similarity = None if self.code is None else self.code.similarity
        return similarity is not None and similarity.by == "embeddings"

    @property
    def rises(self) -> bool:
        check = self.code or self.python
        return check is not None and check.rises

    @property
    def cheap(self) -> MetricSettings | None:
        """The metric as the cheap judge judges it; None without two-phase judging."""
        if self.two_phase is None:
            return None
        own = {"endpoints": (self.two_phase.endpoint,), "model": self.two_phase.model}
        return self.model_copy(update={**own, "two_phase": None})

    @property
    def asked(self) -> tuple[str, ...]:
        """Names of its endpoints; empty: all."""
        return (self.panel.endpoints if self.panel is not None else ()) or self.endpoints

    @property
    def models(self) -> tuple[str | None, ...]:
        """Models to use at each of these endpoints; None: the endpoint's own."""
        return (self.panel.models if self.panel is not None else ()) or (self.model,)

    def _problems(self) -> Problems:
        sources = [name for name in ("code", "python", "prompt_pack") if getattr(self, name) is not None]
        if len(sources) > 1:
            yield sources[1], f"excludes {sources[0]}; keep one of them"
        judged = ("panel", "two_phase", *(() if self.embeds else ("endpoints", "model", "parameters")))
        for name in judged if self.is_check else ():
            if getattr(self, name):
                yield name, "is only for metrics with a judge; remove it"
        if self.embeds and self.model is None and not self.endpoints:
            yield "model", "is required; name an embedding model"
        if self.panel is not None:
            yield from self._panel_problems(self.panel)
        if self.score_range is not None and self.score_range[0] >= self.score_range[1]:
            got = list(self.score_range)
            yield "score_range", f"must be [lowest, highest] with lowest < highest (got {got}); correct it"

    def _panel_problems(self, panel: PanelSettings) -> Problems:
        if self.two_phase is not None:
            yield "two_phase", "excludes panel; keep one of them"
        if self.model is not None and panel.models:
            yield "model", "excludes panel.models; keep one of them"
        if len(self.endpoints) > 1 or (self.endpoints and panel.endpoints):
            yield (
                "endpoints",
                "must have one entry with a panel without endpoints, otherwise none; correct it",
            )


def default_metrics() -> Mapping[MetricName, MetricSettings]:
    """Return the metrics that are on by default, each for the events with the fields it needs."""
    return {name: MetricSettings(when=MetricConditions(has=metric_class(name).needs)) for name in BUILT_IN}
