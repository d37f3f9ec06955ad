"""Sections `kafka`, `topics` and `dead_letters`: the broker, how to log in, and the topics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import AfterValidator, AwareDatetime, BeforeValidator, Field, StringConstraints

from streams.settings.addresses import token_address
from streams.settings.base import FilePath, Problems, Secret, Section, refuse, written

Protocol = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
Mechanism = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "AWS_MSK_IAM"]

_LOGIN: Final = ("username", "password")
_OF_MECHANISM: Final[Mapping[Mechanism, tuple[str, ...]]] = {
    "PLAIN": _LOGIN,
    "SCRAM-SHA-256": _LOGIN,
    "SCRAM-SHA-512": _LOGIN,
    "OAUTHBEARER": ("oauth", "token"),
    "AWS_MSK_IAM": ("aws_region",),
}
"""The settings of each mechanism."""
_OF_SASL: Final = tuple(dict.fromkeys(name for names in _OF_MECHANISM.values() for name in names))
_REMEDIES: Final = {
    "password": ("password_env", "set it or password_file"),
    "token": ("token_file", "set it or oauth"),
}
_OF_TLS: Final = ("ca_file", "certificate_file", "key_file", "key_password")


class OAuthSettings(Section):
    """Tokens by the client-credentials grant of OAuth 2.0 (RFC 6749, section 4.4)."""

    token_url: Annotated[str, AfterValidator(token_address)]
    """The token endpoint."""
    client_id: str = Field(min_length=1)
    """The client id."""
    client_secret: Secret
    """The client's secret; read again for each token."""
    scope: str | None = Field(default=None, min_length=1)
    """Scopes, separated by spaces."""


class SecuritySettings(Section):
    """Authentication at the broker."""

    protocol: Protocol = "PLAINTEXT"
    """The listener's security protocol."""
    mechanism: Mechanism | None = None
    """SASL mechanism (SASL protocols only)."""
    username: str | None = Field(default=None, min_length=1)
    """SASL user (PLAIN and SCRAM only)."""
    password: Secret | None = None
    """SASL password (PLAIN and SCRAM only)."""
    ca_file: FilePath | None = None
    """Certificate authorities (PEM); default: the system's. oauth.token_url trusts both."""
    certificate_file: FilePath | None = None
    """Client certificate (PEM)."""
    key_file: FilePath | None = None
    """The client certificate's key (PEM)."""
    key_password: Secret | None = None
    """Password of the private key."""
    token: Secret | None = None
    """A token (OAUTHBEARER only); read again for each connection."""
    oauth: OAuthSettings | None = None
    aws_region: str | None = Field(default=None, pattern=r"^[a-z0-9-]{1,40}$")
    """Region of the cluster (AWS_MSK_IAM only)."""

    def _problems(self) -> Problems:
        if not self.protocol.startswith("SASL_"):
            why = f"with protocol {self.protocol}; remove it or choose a SASL protocol"
            yield from self._without_effect(("mechanism", *_OF_SASL), why)
        elif self.mechanism is None:
            yield "mechanism", f"is required with protocol {self.protocol}; set it"
        else:
            yield from self._login_problems(self.mechanism)
        if (self.certificate_file is None) != (self.key_file is None):
            yield "", "certificate_file and key_file belong together; set both or none"
        if not self.protocol.endswith("SSL"):
            why = f"with protocol {self.protocol}; remove it or choose an SSL protocol"
            has_https = self.oauth is not None and self.oauth.token_url.startswith("https:")
            yield from self._without_effect(_OF_TLS[has_https:], why)  # ca_file is the token endpoint's, too
        elif self.key_file is None:
            why = "without key_file; set key_file or remove it"
            yield from self._without_effect(["key_password"], why)

    def _without_effect(self, names: Iterable[str], why: str) -> Problems:
        for name in names:
            if (given := getattr(self, name)) is not None:
                yield written(name, given), f"has no effect {why}"

    def _login_problems(self, mechanism: Mechanism) -> Problems:
        needed, why = _OF_MECHANISM[mechanism], f"with mechanism {mechanism}"
        others = [name for name in _OF_SASL if name not in needed]
        yield from self._without_effect(others, f"{why}; remove it")
        missing = [name for name in needed if getattr(self, name) is None]
        if mechanism == "OAUTHBEARER":
            if not missing:
                yield "", "token_file and oauth exclude each other; keep one"
            missing = missing[1:]  # one of the two suffices
        for name in missing:
            field, remedy = _REMEDIES.get(name, (name, "set it"))
            yield field, f"is required {why}; {remedy}"
        if mechanism == "AWS_MSK_IAM" and self.protocol != "SASL_SSL":
            yield "protocol", f"must be SASL_SSL {why} (got {self.protocol}); set it"


def _servers(text: str) -> str:
    for server in text.split(","):
        if "@" in server:
            refuse([("", "must not contain a user or password, because it is displayed; use kafka.security")])
        if "://" in server:
            raise ValueError("must be host:port without http:// or the like; Kafka uses its own protocol")
        host, colon, port = server.strip().rpartition(":")
        if not (host and colon and port.isascii() and port.isdigit() and 0 < int(port) <= 65535):
            example = 'write for example "kafka:9092"'
            raise ValueError(f"must be host:port, or several separated by commas; {example}")
    return ",".join(server.strip() for server in text.split(","))


def _start(value: object) -> object:
    if isinstance(value, str) and value not in {"latest", "earliest"}:
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            moment = None
        if moment is None or moment.tzinfo is None:
            example = "write for example 2026-11-01T00:00:00Z"
            raise ValueError(f"must be latest, earliest or a time with its zone; {example}")
    return value


class KafkaSettings(Section):
    """The broker and the consumer group."""

    bootstrap_servers: Annotated[str, AfterValidator(_servers)] = "127.0.0.1:9092"
    """host:port, several separated by commas."""
    group_id: str = Field(default="judgestream", min_length=1, max_length=200)
    """Consumer group."""
    security: SecuritySettings = Field(default_factory=SecuritySettings)
    start: Annotated[Literal["latest", "earliest"] | AwareDatetime, BeforeValidator(_start)] = "latest"
    """Where a group without committed offsets starts on the events topic: latest, earliest (judges the whole
    backlog), or a time such as 2026-11-01T00:00:00Z."""
    session_timeout_seconds: float = Field(default=30, ge=1, le=1800)
    """Time without heartbeats after which a worker loses its partitions; it sends 30 in that time."""

    @property
    def heartbeat_interval_seconds(self) -> float:
        return self.session_timeout_seconds / 30


def _legal_topic(name: str) -> str:
    if name in {".", ".."}:
        raise ValueError("must not be . or ..; choose a name")
    return name


TopicName = Annotated[
    str, StringConstraints(pattern=r"^[A-Za-z0-9._-]{1,249}$"), AfterValidator(_legal_topic)
]
"""A topic name that Kafka accepts."""


def _internal(name: str) -> Any:
    return property(lambda topics: f"{topics.prefix}{name}")


class TopicSettings(Section):
    """Names and settings of the topics."""

    events: TopicName = "qa.events"
    """Input: answered questions."""
    scores: TopicName = "qa.scores"
    """Results (out)."""
    dead_letters: TopicName = "qa.dead-letters"
    """Dead letters: records that could not be processed."""
    alerts: TopicName = "qa.alerts"
    """Alerts of the monitor."""
    labels: TopicName = "qa.labels"
    """Human labels on verdicts."""
    prefix: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9._-]{0,150}$")] = ""
    """Comes before the names of all other topics, such as judge.tasks.<metric> and qa.observations: each
    installation on a cluster needs its own."""
    create: bool = False
    """Create missing topics at start, for trials."""
    create_partitions: int = Field(default=4, ge=1, le=10_000)
    """Partitions of created topics."""
    create_replication_factor: int = Field(default=1, ge=1, le=100)
    """Replicas of created topics."""

    anchors: ClassVar[str] = _internal("qa.anchors")
    evaluations: ClassVar[str] = _internal("judge.evaluations")
    observations: ClassVar[str] = _internal("qa.observations")
    monitor_state: ClassVar[str] = _internal("qa.monitor-state")
    budget: ClassVar[str] = _internal("qa.budget")
    batch_tasks: ClassVar[str] = _internal("qa.batch-tasks")
    batches: ClassVar[str] = _internal("qa.batches")

    def task_topic(self, metric: str) -> str:
        return f"{self.prefix}judge.tasks.{metric}"


class DeadLetterSettings(Section):
    """Handling of records that cannot be processed."""

    max_ratio: float | None = Field(default=None, gt=0, lt=1)
    """Maximum share of dead letters among the latest 1,000 records of a topic, counted by each worker; above
    it the worker stops with exit code 1."""
