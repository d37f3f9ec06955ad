"""Section `telemetry`: metrics, status page, access and logs."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, SecretStr, StringConstraints, model_validator

from schemas.base import LabelName
from streams.settings.base import EnvName, FilePath, Section, refuse

DEFAULT_LABELS = ("app", "model")
"""Labels that most products have; the shipped dashboards group by them."""


class BasicAuthSettings(Section):
    """Login for page and metrics. The password comes from the environment or a file, never from YAML."""

    username: Annotated[str, StringConstraints(pattern=r"^[^:\x00-\x1f\x7f]{1,200}$")] = Field(
        description="The user name, without a colon."
    )
    password: SecretStr | None = Field(
        default=None,
        description="Only by the variable JUDGESTREAM_TELEMETRY__BASIC_AUTH__PASSWORD, never in YAML.",
    )
    password_env: EnvName | None = Field(
        default=None, description="Name of the environment variable with the password."
    )
    password_file: FilePath | None = Field(
        default=None, description="File with the password; read again when it changes."
    )

    @model_validator(mode="after")
    def _one_password(self) -> Self:
        given = [
            name for name in ("password", "password_env", "password_file") if getattr(self, name) is not None
        ]
        if not given:
            refuse([("password_env", "is required with a username; set it or password_file")])
        if len(given) > 1:
            refuse([("", f"{' and '.join(given)} exclude each other; keep one")])
        return self


class TlsSettings(Section):
    """TLS of the port. All files are read again when they change."""

    certificate_file: FilePath = Field(
        description="The worker's certificate (PEM), followed by intermediate certificates."
    )
    key_file: FilePath = Field(description="Its private key (PEM), without a password.")
    client_ca_file: FilePath | None = Field(
        default=None,
        description=(
            "Certificate authorities (PEM) of clients; then every client needs one, including probes."
        ),
    )


class TelemetrySettings(Section):
    """The worker's metrics, page and logs."""

    host: str = Field(
        default="127.0.0.1", min_length=1, description="Address of /metrics, /healthz, /readyz and /."
    )
    port: int = Field(default=8080, ge=0, le=65535, description="Port; 0 picks a free one.")
    basic_auth: BasicAuthSettings | None = Field(
        default=None, description="Requires user and password except at /healthz and /readyz."
    )
    tls: TlsSettings | None = Field(default=None, description="Serve the port with TLS.")
    page: Literal["open", "loopback"] = Field(
        default="open",
        description="Who may open the page without a login. loopback: only this machine (and kubectl "
        "port-forward); open: everyone. Metrics and probes are open in both cases.",
    )
    allowed_hosts: tuple[
        Annotated[str, StringConstraints(pattern=r"^(\*\.)?[A-Za-z0-9_.-]{1,253}$")], ...
    ] = Field(
        default=(),
        max_length=50,
        description="Host names that the page accepts without a login, such as *.example.com. Addresses, "
        "names without a dot, and private domains (.local, .internal, .svc) are always accepted.",
    )
    labels: tuple[LabelName, ...] = Field(
        default=DEFAULT_LABELS, max_length=8, description="Event labels that become metric labels."
    )
    max_label_values: int = Field(
        default=20,
        ge=1,
        le=1000,
        description='Maximum values of a label in metrics; further ones become "other".',
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="Minimum log level."
    )
    log_format: Literal["auto", "json", "text"] = Field(
        default="auto", description="auto: text on a terminal, JSON elsewhere."
    )
