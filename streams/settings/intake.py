"""Sections `ingest` and `sampling`: which records are read, and which events are judged."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final, Literal

import jmespath
from jmespath.exceptions import JMESPathError
from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    StringConstraints,
    TypeAdapter,
    ValidationError,
)

from schemas import QAEvent
from schemas.base import DEFAULT_STRATUM, MAX_LABEL_NAME_CHARS, FieldName, LabelName, SamplingKey, Upstream
from streams.settings.addresses import web_address
from streams.settings.base import Count, FilePath, Problems, Rate, Seconds, Secret, Section, repeated
from streams.settings.walk import suggest


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


class OtlpSettings(Section):
    """How traces become events (`ingest.format: otlp`)."""

    unit: Literal["trace", "span"] = "trace"
    """trace: one event per trace; spans are joined, so records must be keyed by trace id
    (partition_traces_by_id of the Collector's Kafka exporter). span: one event per model call, without a
    join."""


class RegistryAuthSettings(Section):
    """Credentials for a schema registry."""

    username: str | None = Field(default=None, min_length=1)
    """User for basic authentication; without it the secret is a bearer token."""
    secret: Secret
    """The password or token."""


class RegistrySettings(Section):
    """The schema registry of records in Confluent's wire format (Avro, JSON, Protobuf)."""

    url: Annotated[str, AfterValidator(web_address)]
    """Its address."""
    auth: RegistryAuthSettings | None = None
    ca: FilePath | None = None
    """File with certificate authorities; None: the system's."""


MAX_EXPRESSION_CHARS: Final = 200  # in a message
LABEL: Final = "labels."
FIELD: Final = "fields."
_FIELD_NAME: Final = TypeAdapter(FieldName)


def mapping_problems(expressions: Mapping[str, str]) -> Problems:
    for target, expression in expressions.items():
        if (what := _target_problem(target)) is not None:
            yield target, what
        try:
            jmespath.compile(expression)
        except (JMESPathError, ValueError, RecursionError) as error:
            why = str(error).splitlines()[0] if str(error) else type(error).__name__
            got = repr(expression[:MAX_EXPRESSION_CHARS])
            yield target, f"is not valid JMESPath, {why} (got {got}); correct the expression"


def _target_problem(target: str) -> str | None:
    if target in QAEvent.model_fields:
        return None
    if target.startswith(LABEL):
        length = len(target) - len(LABEL)
        if 1 <= length <= MAX_LABEL_NAME_CHARS:
            return None
        return f"a label's name must have 1 to {MAX_LABEL_NAME_CHARS} characters (got {length}); rename it"
    if target.startswith(FIELD):
        try:
            _FIELD_NAME.validate_python(target.removeprefix(FIELD))
        except ValidationError:
            return "a name in fields must be a letter, then letters, digits, _ and -, at most 64; rename it"
        return None
    return (
        "is not a field of an event; "
        f"{suggest(target, [*QAEvent.model_fields, 'labels.<name>', 'fields.<name>'])}"
    )


class IngestSettings(Section):
    """How records are read."""

    format: Annotated[str, StringConstraints(min_length=1)] = "json"
    """json: one JSON event per record; otlp: traces as an OpenTelemetry Collector writes them to Kafka; or
    the name of a reader of another package."""
    otlp: OtlpSettings = Field(default_factory=OtlpSettings)
    registry: RegistrySettings | None = None
    max_event_bytes: int = Field(default=4_194_304, ge=1_000, le=104_857_600)
    """Larger records become dead letters."""
    idle_seconds: Seconds | None = None
    """Idle time after which a conversation (300 by default), or a trace without a root span (60), is closed;
    at the latest twelve times this long after its first record. Offsets are held no longer than this."""
    max_open_bytes: int = Field(default=134_217_728, ge=1_048_576, le=17_179_869_184)
    """Maximum bytes of records with open traces or conversations; above it the oldest are closed early."""
    mapping: dict[str, Annotated[str, StringConstraints(min_length=1)]] = Field(default_factory=dict)
    """Maps other JSON to an event: event field (or labels.<name>, fields.<name>) to JMESPath expression. With
    format otlp the expressions read the normalised trace; other fields are found automatically."""

    def _problems(self) -> Problems:
        for target, what in mapping_problems(self.mapping):
            yield f"mapping.{target}", what
        if self.registry is not None and self.format == "otlp":
            yield "registry", "has no effect with format otlp; remove it"


class SamplingRule(Section):
    """A stratum and its rate."""

    name: Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9_.-]{0,63}$")]
    """The stratum's name, as it appears in results."""
    when: Annotated[
        LabelConditions, Field(min_length=1), BeforeValidator(_rule_labels, json_schema_input_type=_RuleWhen)
    ]
    """Labels the event must have: name to value or values; also under `labels`."""
    rate: Rate
    """Share of these events to judge."""


class SamplingBudgetSettings(Section):
    """What judging may use in a day of UTC, by which the rates are set; one of both."""

    usd_per_day: float | None = Field(default=None, gt=0, le=1_000_000)
    """US dollars."""
    verdicts_per_day: Count | None = None
    """Verdicts of judges."""

    def _problems(self) -> Problems:
        if (self.usd_per_day is None) == (self.verdicts_per_day is None):
            yield "", "needs usd_per_day or verdicts_per_day, and not both"


class SamplingSettings(Section):
    """Which share of the events is judged. The first matching rule decides."""

    default_rate: Rate = 1.0
    """Share of the events that match no rule."""
    rules: tuple[SamplingRule, ...] = Field(default=(), max_length=100)
    """Strata with their own rate."""
    key: SamplingKey = "auto"
    """Source of randomness. auto: trace context, else event id; record_key: hash of the record's key, so that
    all events with one key are sampled together."""
    upstream: Upstream = "ignore"
    """How to combine with an upstream sampler (`ot=th` in tracestate, or the event's sampling_probability).
    equalize: the lower of its probability and this rate; proportional: this rate is a share of what it kept;
    ignore: this rate alone. Choose ignore unless a sampler is in front: users can write a tracestate.
    A probability below 0.01 is unknown."""
    budget: SamplingBudgetSettings | None = None

    @property
    def most(self) -> Mapping[str, float]:
        """The rates above 0, by stratum."""
        rates = {rule.name: rule.rate for rule in self.rules} | {DEFAULT_STRATUM: self.default_rate}
        return {name: rate for name, rate in rates.items() if rate}

    def _problems(self) -> Problems:
        names = [rule.name for rule in self.rules]
        yield from repeated("rules", names)
        if DEFAULT_STRATUM in names:
            what = f"{DEFAULT_STRATUM} is the stratum of events that match no rule; rename"
            yield f"rules.{names.index(DEFAULT_STRATUM)}.name", what
