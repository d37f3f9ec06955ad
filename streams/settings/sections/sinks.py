"""Section `sinks`: receivers of verdicts besides the results topic, for a worker with `--agents sink`."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, StringConstraints, model_validator

from streams.settings.addresses import web_address
from streams.settings.base import EnvName, FilePath, Section, refuse

SinkName = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_-]{0,31}$")]
SinkKind = Literal[
    "otlp_topic", "otlp_http", "otlp_spans", "langfuse", "phoenix", "mlflow", "webhook", "incident_webhook"
]


class SinkSettings(Section):
    """One receiver of verdicts."""

    kind: SinkKind = Field(
        description="otlp_topic: gen_ai.evaluation.result log events on topics.evaluations; otlp_http: the "
        "same to a Collector; otlp_spans: spans of the judge's own calls to a Collector; "
        "langfuse: scores; phoenix: span annotations; mlflow: assessments; webhook: signed JSON; "
        "incident_webhook: signed JSON, once per incident."
    )
    url: Annotated[str, AfterValidator(web_address)] | None = Field(
        default=None,
        description=(
            "The receiver's address: for otlp_http including /v1/logs, for otlp_spans /v1/traces, for "
            "webhooks the full URL, otherwise the host."
        ),
    )
    public_key: str | None = Field(default=None, min_length=1, description="Langfuse's public key.")
    secret_env: EnvName | None = Field(
        default=None,
        description="Name of the environment variable with the secret: Langfuse's secret key, a bearer "
        "token, "
        "or a webhook's signing key.",
    )
    secret_file: FilePath | None = Field(default=None, description="File with the secret.")
    batch: int = Field(default=100, ge=1, le=1000, description="Maximum verdicts per request.")
    linger_seconds: float = Field(
        default=0.5, ge=0, le=60, description="Maximum time to collect verdicts for one request."
    )
    timeout_seconds: float = Field(default=10, gt=0, le=300, description="Time limit of one request.")

    @model_validator(mode="after")
    def _complete(self) -> Self:
        problems = []
        if self.kind == "otlp_topic" and self.url is not None:
            problems.append(
                ("url", "has no effect with otlp_topic, which writes to topics.evaluations; remove it")
            )
        if self.kind != "otlp_topic" and self.url is None:
            problems.append(("url", f"is required for {self.kind}; name the receiver's address"))
        if self.kind == "langfuse" and (self.public_key is None or not (self.secret_env or self.secret_file)):
            problems.append(
                ("public_key", "and a secret are required for langfuse; add public_key and secret_env")
            )
        if self.kind in {"webhook", "incident_webhook"} and not (self.secret_env or self.secret_file):
            problems.append(
                (
                    "secret_env",
                    f"is required for {self.kind}, which is signed; add it or secret_file",
                )
            )
        refuse(problems)
        return self
