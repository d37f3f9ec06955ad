"""One table of all topics: message, readers, writers, cleanup policy; and how they are created. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, Literal, get_args

from streams.settings.broker import KafkaSettings, TopicSettings
from streams.settings.tree import Settings

AgentName = Literal["intake", "judge", "monitor", "store", "sink"]
ALL_AGENTS: Final[tuple[AgentName, ...]] = get_args(AgentName)
AGENTS: Final[tuple[AgentName, ...]] = ("intake", "judge", "monitor")
"""The agents that a worker runs by default. The others must be requested: `store` keeps a copy on disk, and
`sink` sends verdicts to other systems, in its own worker and consumer group."""
OTLP_LOGS: Final = "otlp_logs"
"""A message outside our schemas: OpenTelemetry's ExportLogsServiceRequest, in Protobuf."""


@dataclass(frozen=True, slots=True)
class TopicKind:
    """One row of the table.

    Args:
        message: Its message schema; None for a format internal to this release.
        keep_hours: Retention of a created topic, unless it is compacted: how long its readers may be away.
    """

    field: str
    message: str | None
    readers: tuple[AgentName, ...] = ()
    writers: tuple[AgentName, ...] = ()
    cleanup: Literal["delete", "compact"] = "delete"
    keep_hours: int = 168

    def names(self, topics: TopicSettings, metrics: Iterable[str]) -> list[str]:
        if self.field == "tasks":
            return [topics.task_topic(metric) for metric in metrics]
        name: str = getattr(topics, self.field)
        return [name]


TOPICS: Final = (
    TopicKind("events", "qa_event", readers=("intake",)),
    TopicKind("tasks", "judge_task", readers=("judge", "monitor", "store"), writers=("intake", "monitor")),
    TopicKind("dead_letters", "dead_letter", writers=("intake", "judge", "monitor", "sink"), keep_hours=720),
    TopicKind("scores", "result", readers=("monitor", "store", "sink"), writers=("judge",), keep_hours=720),
    TopicKind("alerts", "alert", readers=("store", "sink"), writers=("monitor",), keep_hours=2160),
    TopicKind("labels", "label", readers=("store",), keep_hours=87_600),
    TopicKind("evaluations", OTLP_LOGS, writers=("sink",)),
    TopicKind("observations", "result", readers=("monitor",), writers=("monitor",)),
    TopicKind("anchors", "anchor", readers=("monitor",), cleanup="compact"),
    TopicKind("monitor_state", None, readers=("monitor",), writers=("monitor",), cleanup="compact"),
    TopicKind("budget", None, readers=("intake", "judge"), writers=("judge",), cleanup="compact"),
    TopicKind("batch_tasks", "judge_task", readers=("judge",), writers=("judge",)),
    TopicKind("batches", None, readers=("judge",), writers=("judge",), cleanup="compact"),
)
_ONLY_WITH: Final[Mapping[str, Callable[[Settings], bool]]] = {
    "budget": lambda settings: bool(settings.limits),
    "batch_tasks": lambda settings: settings.judge.has_batches,
    "batches": lambda settings: settings.judge.has_batches,
}


@dataclass(frozen=True, slots=True)
class TopicUse:
    name: str
    kind: TopicKind
    reads: bool
    writes: bool

    @property
    def operations(self) -> tuple[Literal["Read", "Write"], ...]:
        return (*(("Read",) if self.reads else ()), *(("Write",) if self.writes else ()))


def _as_used(settings: Settings, kind: TopicKind) -> TopicKind:
    # The workers of sampling.budget tell each other there what they count, suspect and conclude.
    is_shared = kind.field == "budget" and settings.sampling.budget is not None
    return replace(kind, readers=AGENTS, writers=AGENTS) if is_shared else kind


def topic_uses(settings: Settings, agents: Collection[str] = AGENTS) -> list[TopicUse]:
    """Return the topics that agents use, in the order of the table; of a budget or batches only if set."""
    chosen = frozenset(agents)
    return [
        TopicUse(name, kind, reads, writes)
        for kind in map(partial(_as_used, settings), TOPICS)
        if kind.field not in _ONLY_WITH or _ONLY_WITH[kind.field](settings)
        if (reads := not chosen.isdisjoint(kind.readers)) | (writes := not chosen.isdisjoint(kind.writers))
        for name in kind.names(settings.topics, settings.metrics)
    ]


def message_of(topics: TopicSettings, name: str) -> str | None:
    """Return the name of the message schema of a topic; None for an unknown topic."""
    if name.startswith(topics.task_topic("")):
        return "judge_task"
    return next((kind.message for kind in TOPICS if name in kind.names(topics, ())), None)


def group_of(group_id: str, agents: Collection[AgentName]) -> str:
    """Return the consumer group's name: the configured one for all agents, with a suffix for fewer."""
    # The store is in no group: it continues from the positions in its file.
    grouped = [name for name in (*AGENTS, "sink") if name in agents]
    return group_id if grouped == list(AGENTS) else ".".join([group_id, *grouped])


# Creation

RETENTION: Final = "retention.ms"


@dataclass(frozen=True, slots=True)
class WantedTopic:
    name: str
    partitions: int
    replication_factor: int
    config: Mapping[str, str]

    def command(self, kafka: KafkaSettings) -> str:
        settings = " ".join(f"--config {key}={value}" for key, value in self.config.items())
        return (
            f"{topics_tool(kafka)} --create --topic {self.name} --partitions {self.partitions} "
            f"--replication-factor {self.replication_factor} {settings}"
        )


def topics_tool(kafka: KafkaSettings) -> str:
    """Return the start of a `kafka-topics.sh` command, with a login file for protected brokers."""
    login = "" if kafka.security.protocol == "PLAINTEXT" else " --command-config admin.properties"
    return f"kafka-topics.sh --bootstrap-server {shlex.quote(kafka.bootstrap_servers)}{login}"


def plan_topics(settings: Settings, agents: Collection[AgentName] | None = None) -> list[WantedTopic]:
    """Return the topics to create: of some agents, or of all, then of `sink` only if a sink writes to one."""
    if agents is None:
        to_topic = any(sink.kind == "otlp_topic" for sink in settings.sinks.values())
        agents = tuple(name for name in ALL_AGENTS if name != "sink" or to_topic)
    topics = settings.topics
    # With fewer than three replicas a restarting broker would stop every write.
    safe = {"min.insync.replicas": "2"} if topics.create_replication_factor >= 3 else {}
    numbers = topics.create_partitions, topics.create_replication_factor
    planned = []
    for use in topic_uses(settings, agents):
        retention = {} if use.kind.cleanup == "compact" else {RETENTION: str(use.kind.keep_hours * 3_600_000)}
        config = {"cleanup.policy": use.kind.cleanup, **retention, **safe}
        planned.append(WantedTopic(use.name, *numbers, config))
    return planned
