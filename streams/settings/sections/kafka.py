"""Sections `kafka` and `topics`: the broker and the topics."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, AwareDatetime, BeforeValidator, Field, StringConstraints, model_validator

from streams.settings.base import Section, refuse
from streams.settings.sections.security import SecuritySettings


def _legal_topic(name: str) -> str:
    if name in {".", ".."}:
        raise ValueError("must not be . or ..; choose a name")
    return name


TopicName = Annotated[
    str, StringConstraints(pattern=r"^[A-Za-z0-9._-]{1,249}$"), AfterValidator(_legal_topic)
]
"""A topic name that Kafka accepts."""
TopicPrefix = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9._-]{1,185}$")]
"""Prefix of a topic name; leaves room for a metric name of up to 64 characters."""


def _servers(text: str) -> str:
    for server in text.split(","):
        if "@" in server:
            refuse([("", "must not contain a user or password, because it is displayed; use kafka.security")])
        if "://" in server:
            raise ValueError("must be host:port without http:// or the like; Kafka uses its own protocol")
        host, colon, port = server.strip().rpartition(":")
        if not (host and colon and port.isascii() and port.isdigit() and 0 < int(port) <= 65535):
            raise ValueError(
                'must be host:port, or several separated by commas; write for example "kafka:9092"'
            )
    return ",".join(server.strip() for server in text.split(","))


def _start(value: object) -> object:
    if isinstance(value, str) and value not in {"latest", "earliest"}:
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            moment = None
        if moment is None or moment.tzinfo is None:
            raise ValueError(
                "must be latest, earliest or a time with its zone; write for example 2026-11-01T00:00:00Z"
            )
    return value


class KafkaSettings(Section):
    """The broker and the consumer group."""

    bootstrap_servers: Annotated[str, AfterValidator(_servers)] = Field(
        default="127.0.0.1:9092", description="host:port, several separated by commas."
    )
    group_id: str = Field(default="judgestream", min_length=1, max_length=200, description="Consumer group.")
    group_instance_id: str | None = Field(
        default=None,
        min_length=1,
        max_length=200,
        description="Static group membership: rolling restarts cause no rebalance. Must differ for each "
        "worker.",
    )
    client_rack: str | None = Field(
        default=None,
        min_length=1,
        max_length=200,
        description=(
            "This worker's rack (broker.rack of nearby brokers): it reads from the nearest replica."
        ),
    )
    security: SecuritySettings = Field(default_factory=SecuritySettings)
    start: Annotated[Literal["latest", "earliest"] | AwareDatetime, BeforeValidator(_start)] = Field(
        default="latest",
        description="Where a group without committed offsets starts on the events topic: latest, earliest "
        "(judges the whole backlog), or a time such as 2026-11-01T00:00:00Z.",
    )
    session_timeout_seconds: float = Field(
        default=30,
        ge=1,
        le=1800,
        description="Time without heartbeats after which a worker loses its partitions.",
    )
    heartbeat_interval_seconds: float = Field(
        default=3, ge=0.1, le=600, description="Pause between heartbeats to the group coordinator."
    )
    rebalance_timeout_seconds: float = Field(
        default=60, ge=1, le=3600, description="How long a rebalance waits for records in flight."
    )
    commit_interval_seconds: float = Field(
        default=0.5, ge=0.05, le=60, description="Interval between offset commits."
    )
    metadata_age_seconds: float = Field(
        default=30,
        ge=1,
        le=600,
        description="Interval of metadata refreshes; added partitions are read after it.",
    )
    producer_timeout_seconds: float = Field(
        default=40, ge=1, le=600, description="Time limit of a produce request."
    )

    resume_at: Literal["committed", "beginning"] = Field(
        default="committed",
        description="Where to resume if a log ends before the next offset (a recreated topic or an unclean "
        "leader election): at the committed offset if it exists, or at the beginning.",
    )

    @model_validator(mode="after")
    def _beats(self) -> Self:
        if self.heartbeat_interval_seconds * 3 > self.session_timeout_seconds:
            limit, got = f"{self.session_timeout_seconds:g}", f"{self.heartbeat_interval_seconds:g}"
            what = f"must be at most a third of session_timeout_seconds ({limit}) (got {got}); lower it"
            refuse([("heartbeat_interval_seconds", what)])
        return self


Hours = Annotated[int, Field(ge=1, le=87_600)]


class RetentionSettings(Section):
    """Retention of created topics, in hours. Older records are lost to all readers."""

    events: Hours = Field(default=168, description="Events: the longest intake outage without loss.")
    tasks: Hours = Field(default=168, description="Tasks: the longest judge outage without loss.")
    scores: Hours = Field(default=720, description="Results: the longest delay of readers.")
    dead_letters: Hours = Field(default=720, description="Dead letters: the time to inspect and resend them.")
    alerts: Hours = Field(default=2160, description="Alerts.")
    observations: Hours = Field(
        default=168, description="The monitor's observations, reread from its last saved state."
    )
    labels: Hours = Field(default=87_600, description="Human labels.")
    evaluations: Hours = Field(default=168, description="Verdicts as OTLP log events, for a Collector.")


class TopicSettings(Section):
    """Names and settings of the topics."""

    events: TopicName = Field(default="qa.events", description="Input: answered questions.")
    tasks_prefix: TopicPrefix = Field(
        default="judge.tasks.", description="Prefix of the task topics, one per metric."
    )
    scores: TopicName = Field(default="qa.scores", description="Results (out).")
    dead_letters: TopicName = Field(
        default="qa.dead-letters", description="Dead letters: records that could not be processed."
    )
    alerts: TopicName = Field(default="qa.alerts", description="Alerts of the monitor.")
    labels: TopicName = Field(default="qa.labels", description="Human labels on verdicts.")
    evaluations: TopicName = Field(
        default="judge.evaluations",
        description="Verdicts as OTLP log events, from a sink of kind otlp_topic.",
    )
    observations: TopicName = Field(
        default="qa.observations", description="Results by metric, internal to the monitor."
    )
    monitor_state: TopicName = Field(
        default="qa.monitor-state", description="The monitor's state (compacted)."
    )
    create: bool = Field(default=False, description="Create missing topics at start, for trials.")
    create_partitions: int = Field(default=4, ge=1, le=10_000, description="Partitions of created topics.")
    create_replication_factor: int = Field(default=1, ge=1, le=100, description="Replicas of created topics.")
    create_retention_hours: RetentionSettings = Field(
        default_factory=RetentionSettings, description="How long created topics keep records."
    )

    def task_topic(self, metric: str) -> str:
        """Return the name of a metric's task topic."""
        return f"{self.tasks_prefix}{metric}"


class DeadLetterLimitSettings(Section):
    """Dead letters that stop the worker; counted per topic, in each worker."""

    consecutive: int | None = Field(
        default=None, ge=1, le=1_000_000_000, description="Maximum consecutive dead letters."
    )
    ratio: float | None = Field(
        default=None, gt=0, lt=1, description="Maximum share of dead letters among recent records."
    )
    ratio_over_records: int = Field(
        default=1000, ge=10, le=1_000_000, description="Number of recent records for `ratio`."
    )


class DeadLetterSettings(Section):
    """Handling of records that cannot be processed."""

    when_refused: Literal["wait", "skip"] = Field(
        default="wait",
        description="If the dead-letter topic refuses even the smallest letter: wait (the partition stops, "
        "readiness reports it), or skip the record (counted, logged with its position).",
    )
    limit: DeadLetterLimitSettings | None = Field(
        default=None,
        description="Stop with exit code 1 when too many records become dead letters; null for no limit.",
    )
