"""Sections `monitor`, `store`, `review`, `sinks` and `telemetry`: what becomes of results."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints

from schemas.base import LabelName, LabelValue, MetricName
from streams.settings.addresses import has_web_scheme, web_address
from streams.settings.base import FilePath, KindSection, Secret, Section

DEFAULT_LABELS: Final = ("app", "model")
"""Labels that most products have; the shipped dashboards group by them."""
_Worse = dict[LabelValue, Literal["up", "down"]]
Levels = Annotated[tuple[float, ...], Field(max_length=8)]
LinkTemplate = Annotated[str, AfterValidator(has_web_scheme), Field(max_length=1_000)]
"""An address with placeholders in braces."""
SinkName = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_-]{0,31}$")]


class ObjectiveSettings(Section):
    """An objective: a share of the answers must reach a score."""

    at_least: float
    """Lowest score that meets the objective."""
    share: float = Field(default=0.99, gt=0, lt=1)
    """Share of the answers that must meet it; the rest is the error budget."""


def _as_written(given: object) -> object:
    """Turn booleans back into the labels `true` and `false`."""
    if not isinstance(given, dict):
        return given
    return {str(label).lower() if isinstance(label, bool) else label: way for label, way in given.items()}


class MonitorSettings(Section):
    """Which series are monitored, and when a drop raises an alert."""

    labels: tuple[LabelName, ...] = Field(default=DEFAULT_LABELS, max_length=8)
    """Labels whose values are monitored separately, besides all traffic."""
    baseline_samples: int = Field(default=60, ge=10, le=1_000_000)
    """Judged answers for the first baseline of a series; recomputed with every doubling."""
    min_drop: float = Field(default=0.1, gt=0, le=5)
    """Smallest relevant fall of a mean, in points of a scale five wide; proportional on others, and for the
    rise of a share (0.02)."""
    shares: dict[MetricName, Levels | Annotated[_Worse, BeforeValidator(_as_written)]] = Field(
        default_factory=dict
    )
    """By metric, levels: the share of scores at or below each is monitored. Default: the lowest third of the
    scale; an empty list monitors only the mean. Or labels (also true and false) with the direction that is
    worse: {refusal: {refused: up}} alerts when more answers refuse."""
    targets: dict[MetricName, float] = Field(default_factory=dict)
    """By metric, the lowest acceptable mean, instead of a learned baseline."""
    objectives: dict[MetricName, ObjectiveSettings] = Field(default_factory=dict)
    """By metric, the share of answers that must reach a score; alerts report how fast the error budget (the
    rest) is spent."""
    samples_per_false_alarm: int = Field(default=20_000, ge=100, le=1_000_000_000)
    """Judged answers of a metric per allowed false alarm."""
    rejudge_per_day: int = Field(default=1_000, ge=0, le=100_000)
    """After a fall 160 answers from before it are judged again, to tell whether the product or the judge
    moved: at most this many a metric and day (UTC), besides judge.budget. 0: an alarm says no such word."""


class StoreSettings(Section):
    """The verdict store, written by a worker with `--agents store`."""

    path: FilePath = Path("judgestream-store.sqlite3")
    """The store's file, on a local disk; only one worker may write it."""
    texts: Literal["full", "excerpt", "none"] = "full"
    """Which texts of question, answer, reference and pages are kept (after redaction)."""
    keep_days: int = Field(default=30, ge=1, le=3_650)
    """How long verdicts are kept."""
    max_gigabytes: float = Field(default=10, gt=0, le=10_000)
    """Maximum size; the oldest texts are deleted first, then verdicts."""
    product_labels: tuple[LabelName, ...] = Field(
        default=("model", "prompt_version", "version", "release", "deployment"), max_length=32
    )
    """Labels that identify the version of the answering product: a new value is reported as a change of the
    product, for other labels as a change of the mix."""
    explorer_url: LinkTemplate | None = None
    """Address of the explorer, such as https://judge.example.com, for links in alerts."""
    trace_url: LinkTemplate | None = None
    """URL template of a trace; {trace_id} and {span_id} are filled in."""
    record_url: LinkTemplate | None = None
    """URL template of a record; {topic}, {partition} and {offset} are filled in."""


class BasicAuthSettings(Section):
    """A login."""

    username: Annotated[str, StringConstraints(pattern=r"^[^:\x00-\x1f\x7f]{1,200}$")]
    """The user name, without a colon."""
    password: Secret
    """The password."""


class TlsSettings(Section):
    """TLS of the port. All files are read again when they change."""

    certificate_file: FilePath
    """The worker's certificate (PEM), followed by intermediate certificates."""
    key_file: FilePath
    """Its private key (PEM), without a password."""
    client_ca_file: FilePath | None = None
    """Certificate authorities (PEM) of clients; then every client needs one, including probes."""


class ReviewSettings(Section):
    """The port of `judgestream review`, the only one that writes; section `telemetry` sets its TLS."""

    basic_auth: BasicAuthSettings | None = None
    """Login for labelling, separate from telemetry's; required if others can reach the address."""


class TelemetrySettings(Section):
    """The worker's metrics, page and logs."""

    host: str = Field(default="127.0.0.1", min_length=1)
    """Address of /metrics, /healthz, /readyz and /."""
    port: int = Field(default=8080, ge=0, le=65535)
    """Port; 0 picks a free one."""
    basic_auth: BasicAuthSettings | None = None
    """Requires user and password except at /healthz and /readyz. Without a login the port answers only to
    addresses, names without a dot and private domains (.local, .internal, .svc)."""
    tls: TlsSettings | None = None
    page: Literal["open", "loopback"] = "open"
    """Who may open the page without a login. loopback: only this machine (and kubectl port-forward); open:
    everyone. Metrics and probes are open in both cases."""
    labels: tuple[LabelName, ...] = Field(default=DEFAULT_LABELS, max_length=8)
    """Event labels that become metric labels."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """Minimum log level."""
    log_format: Literal["auto", "json", "text"] = "auto"
    """auto: text on a terminal, JSON elsewhere."""


SinkSecret = Annotated[
    Secret, Field(description="Langfuse's secret key, a bearer token, or a webhook's signing key.")
]


class SinkSettings(KindSection):
    """One receiver of verdicts besides the results topic, for a worker with `--agents sink`."""

    group = "judgestream.sinks"
    kind: str
    """otlp_topic: gen_ai.evaluation.result log events on judge.evaluations; otlp_http: the same to a
    Collector; otlp_spans: spans of the judge's own calls to a Collector; langfuse: scores; phoenix: span
    annotations; mlflow: assessments; webhook: signed JSON; incident_webhook: signed JSON, once per
    incident; or a kind of another package."""


class WebSinkSettings(SinkSettings):
    """A receiver with an HTTP interface."""

    url: Annotated[str, AfterValidator(web_address)]
    """The receiver's address: for otlp_http including /v1/logs, for otlp_spans /v1/traces, for webhooks the
    full URL, otherwise the host."""
    secret: SinkSecret | None = None
