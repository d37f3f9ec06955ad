"""Sections `ingest` and `sampling`: which records are read, and which events are judged."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, StringConstraints, model_validator

from schemas.base import DEFAULT_STRATUM, LabelName, SamplingKey, Upstream
from streams.settings.base import Rate, Section, refuse
from streams.settings.mapping import mapping_problems
from streams.settings.sections.joining import ConversationSettings, OtlpSettings
from streams.settings.sections.registry import RegistrySettings


def _as_texts(value: object) -> object:
    # YAML reads `tier: 1` and `beta: true` as a number and a boolean; event labels are converted to strings
    # in the same way.
    items = value if isinstance(value, list | tuple) else [value]
    return tuple(
        str(item).lower() if isinstance(item, bool) else str(item) if isinstance(item, int | float) else item
        for item in items
    )


LabelValues = Annotated[
    tuple[Annotated[str, StringConstraints(max_length=200)], ...],
    BeforeValidator(
        _as_texts, json_schema_input_type=str | int | float | bool | list[str | int | float | bool]
    ),
    Field(min_length=1),
]
"""A label's allowed values; a single value needs no list."""
LabelConditions = Annotated[dict[LabelName, LabelValues], Field(max_length=32)]


def _rule_labels(value: object) -> object:
    """Accept `{labels: {tenant: gold}}` for `{tenant: gold}`, as in metrics.<name>.when."""
    if not isinstance(value, Mapping):
        return value
    if "has" in value:
        raise ValueError("a sampling rule matches labels only; use has under metrics.<name>.when")
    nested = value.get("labels")
    if not isinstance(nested, Mapping):
        return value
    return {name: of for name, of in value.items() if name != "labels"} | dict(nested)


_RuleWhen = Annotated[
    dict[LabelName, LabelValues | Annotated[dict[LabelName, LabelValues], Field(min_length=1)]],
    Field(min_length=1, max_length=32),
]
"""The form of a rule's `when`: labels, or labels under `labels`."""


class IngestSettings(Section):
    """How records are read."""

    format: Literal["json", "otlp"] = Field(
        default="json",
        description=(
            "json: one JSON event per record; otlp: traces as an OpenTelemetry Collector writes them to "
            "Kafka."
        ),
    )
    otlp: OtlpSettings = Field(default_factory=OtlpSettings)
    registry: RegistrySettings | None = Field(
        default=None,
        description="Schema registry for records in Confluent's wire format (Avro, JSON, Protobuf).",
    )
    conversations: ConversationSettings = Field(default_factory=ConversationSettings)
    max_event_bytes: int = Field(
        default=4_194_304, ge=1_000, le=104_857_600, description="Larger records become dead letters."
    )
    mapping: dict[str, Annotated[str, StringConstraints(min_length=1)]] = Field(
        default_factory=dict,
        description="Maps other JSON to an event: event field (or labels.<name>, fields.<name>) to JMESPath "
        "expression. With format otlp the expressions read the normalised trace; other fields are found "
        "automatically.",
    )

    @model_validator(mode="after")
    def _expressions(self) -> Self:
        problems = [(f"mapping.{target}", what) for target, what in mapping_problems(self.mapping)]
        if self.registry is not None and self.format == "otlp":
            problems.append(("registry", "has no effect with format otlp; remove it"))
        refuse(problems)
        return self


class SamplingRule(Section):
    """A stratum and its rate."""

    name: Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9_.-]{0,63}$")] = Field(
        description="The stratum's name, as it appears in results."
    )
    when: Annotated[
        LabelConditions, Field(min_length=1), BeforeValidator(_rule_labels, json_schema_input_type=_RuleWhen)
    ] = Field(
        description=(
            "Labels the event must have: name to value or values; also accepted under `labels`, as for "
            "metrics."
        ),
    )
    rate: Rate = Field(description="Share of these events to judge.")


class SamplingSettings(Section):
    """Which share of the events is judged. The first matching rule decides."""

    default_rate: Rate = Field(default=1.0, description="Share of the events that match no rule.")
    rules: tuple[SamplingRule, ...] = Field(
        default=(), max_length=100, description="Strata with their own rate."
    )
    key: SamplingKey = Field(
        default="auto",
        description="Source of randomness. auto: trace context, else event id; record_key: hash of the "
        "record's key, so that all events with one key are sampled together.",
    )
    upstream: Upstream | None = Field(
        default=None,
        description="How to combine with an upstream sampler (`ot=th` in tracestate, or the event's "
        "sampling_probability). equalize: the lower of its probability and this rate; proportional: "
        "this rate is a share of what it kept; ignore: use this rate alone. None: equalize for "
        "ingest.format otlp, else ignore, because an event topic does not depend on trace sampling.",
    )

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        seen: set[str] = set()
        problems: list[tuple[str, str]] = []
        for index, rule in enumerate(self.rules):
            if rule.name == DEFAULT_STRATUM:
                problems.append(
                    (
                        f"rules.{index}.name",
                        f"{DEFAULT_STRATUM} is the stratum of events that match no rule; rename",
                    )
                )
            elif rule.name in seen:
                problems.append((f"rules.{index}.name", f"is used twice (got {rule.name!r}); rename one"))
            seen.add(rule.name)
        refuse(problems)
        return self
