"""Section `judge`: endpoints, limits, budget and cache."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    JsonValue,
    SecretStr,
    StringConstraints,
    WrapSerializer,
)

from judge.text.redaction import Kind
from schemas.base import LabelName, MetricName
from streams.errors import SettingsError
from streams.settings.addresses import endpoint_address, refuse_secret_parameters
from streams.settings.base import (
    Count,
    FilePath,
    Problems,
    Rate,
    Seconds,
    Secret,
    Section,
    read_secret,
    repeated,
)

OPENAI_BASE_URL = "https://api.openai.com/v1"
OPENAI_MODEL = "gpt-4.1-mini"
"""The model at OpenAI's own address if OPENAI_MODEL is not set."""


class PriceSettings(Section):
    """A model's prices in USD per million tokens."""

    input: float = Field(ge=0, le=10_000)
    """Input tokens."""
    cached: float | None = Field(default=None, ge=0, le=10_000)
    """Cached input tokens; default: the input price."""
    output: float = Field(ge=0, le=10_000)
    """Output tokens."""


class BatchSettings(Section):
    """Batches of an endpoint: most verdicts come later, at a lower price."""

    close_after_seconds: Seconds = 600
    """How long a batch waits for further requests before it is sent."""
    max_requests: int = Field(default=500, ge=1, le=5_000)
    """Requests of a batch. A worker has four times as many tasks in flight there."""
    give_up_after_seconds: Seconds = 7200
    """After this time a batch is cancelled, and what it has not answered is asked singly."""
    fast_share: Rate = 0.2
    """Share of the events that are judged at once, chosen by their id."""

    def _problems(self) -> Problems:
        if self.give_up_after_seconds < self.close_after_seconds:
            got = f"({self.close_after_seconds:g}), got {self.give_up_after_seconds:g}"
            what = f"must be at least close_after_seconds {got}; raise it or lower the other"
            yield "give_up_after_seconds", what


class LaneSettings(Section):
    """A slower and cheaper way to the same model."""

    batch: BatchSettings | None = None
    """Use /v1/files and /v1/batches of the endpoint, in workers."""
    tier: Literal["flex"] | None = None
    """Use this service_tier for all calls."""
    price_factor: float = Field(default=0.5, ge=0, le=1)
    """Price in this lane, as a share of the usual one."""

    def _problems(self) -> Problems:
        if (self.batch is None) == (self.tier is None):
            yield "", "needs either batch or tier; set one of them"


class EndpointSettings(Section):
    """One judge: an OpenAI-compatible endpoint and a model."""

    name: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$")]
    """Appears in results and metrics."""
    base_url: Annotated[str, AfterValidator(endpoint_address)] = OPENAI_BASE_URL
    """Address up to and with /v1."""
    model: str = Field(min_length=1, max_length=200)
    """The model to ask."""
    api_key: Secret | None = None
    """The API key."""
    parameters: Annotated[dict[str, JsonValue], AfterValidator(refuse_secret_parameters)] = Field(
        default_factory=dict
    )
    """Parameters as the endpoint names them: of sampling (temperature, seed, ...), or of transport
    (service_tier, prompt_cache_key, ...), which begin no new series."""
    context_tokens: int | None = Field(default=None, ge=512, le=100_000_000)
    """The model's context window; an event whose request exceeds it is unscored, as too_long."""
    max_in_flight: int | None = Field(default=None, ge=1, le=10_000)
    """Maximum concurrent calls, if lower than judge.max_in_flight."""
    requests_per_minute: float | None = Field(default=None, gt=0, le=10_000_000)
    """Request limit; default: the x-ratelimit-* headers."""
    tokens_per_minute: float | None = Field(default=None, gt=0, le=10_000_000_000)
    """Token limit, input plus output; default: headers."""
    usd_per_million_tokens: PriceSettings | None = None
    """Prices; default: the published ones of a known provider."""
    lane: LaneSettings | None = None

    def read_key(self, env: Mapping[str, str] | None = None) -> SecretStr | None:
        return read_secret(self.api_key, f"judge.endpoints ({self.name}).api_key", env)


SAMPLING_BUDGET = "sampling.budget"
"""The name of the limit that it sets, beside those of `judge.budget`."""


class LimitSettings(Section):
    """Limits of a day of UTC."""

    usd_per_day: float | None = Field(default=None, gt=0, le=1_000_000)
    """US dollars."""
    calls_per_day: Count | None = None
    """Judge calls."""

    @property
    def is_limited(self) -> bool:
        return self.usd_per_day is not None or self.calls_per_day is not None


class CapSettings(LimitSettings):
    """A limit on a metric, on each value of a label, or on each value within a metric."""

    metric: MetricName | None = None
    """The metric; default: all."""
    by: LabelName | None = None
    """The event label whose values each have this limit; default: one limit."""

    @property
    def name(self) -> str:
        return " by ".join(part for part in (self.metric or "all", self.by) if part)

    def _problems(self) -> Problems:
        if self.metric is None and self.by is None:
            yield "", "needs metric, by or both; limits on all verdicts are judge.budget's own"
        elif not self.is_limited:
            yield "", "limits nothing; set usd_per_day or calls_per_day"


class BudgetSettings(LimitSettings):
    """Cost limits of judging, for all workers together. `budget: none` sets no limit."""

    unlimited: ClassVar[bool] = False
    """Whether it is `budget: none`; otherwise a paid endpoint requires a limit."""
    when_spent: Literal["defer", "lower_rate"] = "defer"
    """defer: tasks wait in Kafka for the next day; lower_rate: additionally, fewer events are sampled
    while spending is ahead of the day's usual traffic, with their probability recorded. For caps, too."""
    caps: tuple[CapSettings, ...] = Field(default=(), max_length=20)
    """Further limits on metrics or label values; a verdict must be within all that concern it."""

    @property
    def limits(self) -> tuple[tuple[str, LimitSettings], ...]:
        """By name; that on all verdicts is called `all`."""
        whole: tuple[tuple[str, LimitSettings], ...] = (("all", self),) if self.is_limited else ()
        return (*whole, *((cap.name, cap) for cap in self.caps))

    def _problems(self) -> Problems:
        return repeated("caps", [cap.name for cap in self.caps])


class Unlimited(BudgetSettings):
    """`budget: none`."""

    unlimited = True


Budget = Annotated[
    BudgetSettings,
    BeforeValidator(
        lambda given: Unlimited() if given == "none" else given,
        json_schema_input_type=BudgetSettings | Literal["none"],
    ),
    WrapSerializer(lambda budget, write: "none" if budget.unlimited else write(budget)),
]


class CacheSettings(Section):
    """Cache of verdicts: the same evaluator judges the same texts once."""

    max_entries: int = Field(default=0, ge=0, le=100_000_000)
    """Maximum number of cached verdicts, some kilobytes each; 0 disables the cache."""
    file: FilePath | None = None
    """File that keeps the cache across restarts; default: in memory. Workers on one machine may share it."""

    def _problems(self) -> Problems:
        if self.file is not None and not self.max_entries:
            yield "max_entries", "must be at least 1 with a file (got 0); raise it or remove file"


class JudgeSettings(Section):
    """Endpoints and limits of judging."""

    endpoints: tuple[EndpointSettings, ...] = Field(default=(), max_length=20)
    """Endpoints in order of preference; empty: one from OPENAI_BASE_URL, OPENAI_API_KEY and OPENAI_MODEL."""
    max_in_flight: int = Field(default=64, ge=1, le=10_000)
    """Maximum concurrent judge calls per worker."""
    timeout_seconds: float = Field(default=30, gt=0, le=3600)
    """Time limit of one call."""
    max_output_tokens: int = Field(default=4096, ge=64, le=131_072)
    """Maximum length of a reply, in tokens."""
    redact: tuple[Kind, ...] = ()
    """What to redact in all texts before they leave the process; names needs the extra presidio."""
    cache: CacheSettings = Field(default_factory=CacheSettings)
    budget: Budget = Field(default_factory=BudgetSettings)

    @property
    def has_batches(self) -> bool:
        return any(one.lane is not None and one.lane.batch is not None for one in self.endpoints)

    def _problems(self) -> Problems:
        yield from repeated("endpoints", [one.name for one in self.endpoints])
        reserved = f"max_output_tokens ({self.max_output_tokens}), which are reserved for the reply"
        for index, window in enumerate(one.context_tokens for one in self.endpoints):
            if window is not None and window <= self.max_output_tokens:
                what = f"must be more than {reserved} (got {window}); raise it or lower the other"
                yield f"endpoints.{index}.context_tokens", what


def default_endpoints(env: Mapping[str, str]) -> tuple[EndpointSettings, ...]:
    """Return the endpoint that the OPENAI_* variables describe, if OPENAI_BASE_URL or _API_KEY is set."""
    base_url, api_key, model = (
        env.get(f"OPENAI_{name}", "").strip() for name in ("BASE_URL", "API_KEY", "MODEL")
    )
    if not (base_url or api_key):
        return ()
    if base_url:
        try:
            base_url = endpoint_address(base_url)
        except ValueError as error:
            raise SettingsError([f"OPENAI_BASE_URL: {error}"]) from None
        if not model:
            what = "is required with OPENAI_BASE_URL; set it to a model served there"
            raise SettingsError([f"OPENAI_MODEL: {what}"])
    values: dict[str, Any] = {"api_key": {"env": "OPENAI_API_KEY"}} if api_key else {}
    base_url, model = base_url or OPENAI_BASE_URL, model or OPENAI_MODEL
    return (EndpointSettings(name="openai", base_url=base_url, model=model, **values),)
