"""One table of all topics: message, readers, writers and cleanup policy.

Permissions, creation, checks, the demo and the readers of records are derived from `TOPICS`. To add a topic,
add a row here and its name to `TopicSettings`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final, Literal, get_args

from streams.settings import TopicSettings

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
        field: The topic's name in `TopicSettings`; `tasks` means one topic per metric.
        message: Name of the message schema of its records; None for a format internal to this release.
        readers: Agents that read it.
        writers: Agents that write to it.
        cleanup: Kafka's `cleanup.policy`. Results and tasks of one event share a key, so compaction would
            lose some.
        keep_hours: Retention of a created topic, unless it is compacted: how long its readers may be away.
    """

    field: str
    message: str | None
    readers: tuple[AgentName, ...] = ()
    writers: tuple[AgentName, ...] = ()
    cleanup: Literal["delete", "compact"] = "delete"
    keep_hours: int = 168

    def names(self, topics: TopicSettings, metrics: Iterable[str]) -> list[str]:
        """Return the names of the topics of this kind."""
        if self.field == "tasks":
            return [topics.task_topic(metric) for metric in metrics]
        name: str = getattr(topics, self.field)
        return [name]


TOPICS: Final = (
    TopicKind("events", "qa_event", readers=("intake",)),
    TopicKind("tasks", "judge_task", readers=("judge", "store"), writers=("intake",)),
    TopicKind("dead_letters", "dead_letter", writers=("intake", "judge", "sink"), keep_hours=720),
    TopicKind("scores", "result", readers=("monitor", "store", "sink"), writers=("judge",), keep_hours=720),
    TopicKind("alerts", "alert", readers=("store", "sink"), writers=("monitor",), keep_hours=2160),
    TopicKind("labels", "label", readers=("store",), keep_hours=87_600),
    TopicKind("evaluations", OTLP_LOGS, writers=("sink",)),
    TopicKind("observations", "result", readers=("monitor",), writers=("monitor",)),
    TopicKind("monitor_state", None, readers=("monitor",), writers=("monitor",), cleanup="compact"),
)


@dataclass(frozen=True, slots=True)
class TopicUse:
    """How some agents use one topic.

    Args:
        name: The topic.
        kind: Its row.
        reads: Whether one of the agents reads it.
        writes: Whether one of the agents writes to it.
    """

    name: str
    kind: TopicKind
    reads: bool
    writes: bool

    @property
    def operations(self) -> tuple[Literal["Read", "Write"], ...]:
        """The required ACL operations, by Kafka's names."""
        return (*(("Read",) if self.reads else ()), *(("Write",) if self.writes else ()))


def topic_uses(
    topics: TopicSettings, metrics: Iterable[str], agents: Collection[str] = AGENTS
) -> list[TopicUse]:
    """Return the topics that agents use, in the order of the table.

    Args:
        topics: Names of topics.
        metrics: Names of metrics; each has a task topic.
        agents: The agents.
    """
    named = list(metrics)
    chosen = frozenset(agents)
    return [
        TopicUse(name, kind, reads, writes)
        for kind in TOPICS
        if (reads := not chosen.isdisjoint(kind.readers)) | (writes := not chosen.isdisjoint(kind.writers))
        for name in kind.names(topics, named)
    ]


def message_of(topics: TopicSettings, name: str) -> str | None:
    """Return the name of the message schema of a topic; None for an unknown topic."""
    if name.startswith(topics.tasks_prefix):
        return "judge_task"
    return next((kind.message for kind in TOPICS if name in kind.names(topics, ())), None)


def group_of(group_id: str, agents: Collection[AgentName]) -> str:
    """Return the consumer group's name: the configured one for all agents, with a suffix for fewer."""
    # The store is in no group: it continues from the positions in its file.
    grouped = [name for name in (*AGENTS, "sink") if name in agents]
    return group_id if grouped == list(AGENTS) else ".".join([group_id, *grouped])
