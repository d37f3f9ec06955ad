"""Every topic in one table: what it holds, who reads it, who writes it, and how it is kept.

Permissions, creation, checks, the demo and the readers of records all follow from `TOPICS`. A new topic is
one row here, its name in `TopicSettings` and its retention in `RetentionSettings`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final, Literal, get_args

from streams.settings import TopicSettings

AgentName = Literal["intake", "judge", "monitor", "store", "sink"]
ALL_AGENTS: Final[tuple[AgentName, ...]] = get_args(AgentName)
AGENTS: Final[tuple[AgentName, ...]] = ("intake", "judge", "monitor")
"""The agents that one worker runs by default. The others must be asked for: the store keeps a copy on a disk,
and the sink sends verdicts to other places, in a worker and a consumer group of its own."""
OTLP_LOGS: Final = "otlp_logs"
"""What no schema of ours describes: an ExportLogsServiceRequest of OpenTelemetry, in Protobuf."""


@dataclass(frozen=True, slots=True)
class TopicKind:
    """One row of the table.

    Args:
        field: The topic's name in `TopicSettings` and, unless it is compacted, in `RetentionSettings`;
            `tasks` stands for one topic a metric.
        message: What its records are, by the name of the message's schema; None for what only this release
            reads.
        readers: Agents that read it.
        writers: Agents that write to it.
        cleanup: Kafka's `cleanup.policy`. Results and tasks of one event share a key, so compaction would
            lose some.
    """

    field: str
    message: str | None
    readers: tuple[AgentName, ...] = ()
    writers: tuple[AgentName, ...] = ()
    cleanup: Literal["delete", "compact"] = "delete"

    def names(self, topics: TopicSettings, metrics: Iterable[str]) -> list[str]:
        """Give the names that topics of this kind have."""
        if self.field == "tasks":
            return [topics.task_topic(metric) for metric in metrics]
        name: str = getattr(topics, self.field)
        return [name]


TOPICS: Final = (
    TopicKind("events", "qa_event", readers=("intake",)),
    TopicKind("tasks", "judge_task", readers=("judge", "store"), writers=("intake",)),
    TopicKind("dead_letters", "dead_letter", writers=("intake", "judge", "sink")),
    TopicKind("scores", "result", readers=("monitor", "store", "sink"), writers=("judge",)),
    TopicKind("alerts", "alert", readers=("store", "sink"), writers=("monitor",)),
    TopicKind("labels", "label", readers=("store",)),
    TopicKind("evaluations", OTLP_LOGS, writers=("sink",)),
    TopicKind("observations", "result", readers=("monitor",), writers=("monitor",)),
    TopicKind("monitor_state", None, readers=("monitor",), writers=("monitor",), cleanup="compact"),
)


@dataclass(frozen=True, slots=True)
class TopicUse:
    """What some agents do with one topic.

    Args:
        name: The topic.
        kind: Its row.
        reads: Whether one of the agents reads it.
        writes: Whether one of them writes to it.
    """

    name: str
    kind: TopicKind
    reads: bool
    writes: bool

    @property
    def operations(self) -> tuple[Literal["Read", "Write"], ...]:
        """What an authoriser must allow, as Kafka names it."""
        return (*(("Read",) if self.reads else ()), *(("Write",) if self.writes else ()))


def topic_uses(
    topics: TopicSettings, metrics: Iterable[str], agents: Collection[str] = AGENTS
) -> list[TopicUse]:
    """List the topics that agents use, in the order of the table.

    Args:
        topics: Names of topics.
        metrics: Names of metrics; each has a task topic.
        agents: Whose topics.
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
    """Say what the records of a topic are; None for a topic that is none of ours."""
    if name.startswith(topics.tasks_prefix):
        return "judge_task"
    return next((kind.message for kind in TOPICS if name in kind.names(topics, ())), None)


def group_of(group_id: str, agents: Collection[AgentName]) -> str:
    """Name the consumer group: the configured one for all agents together, one of its own for any fewer."""
    # The store belongs to no group: it reads everything, from where its own file ends.
    grouped = [name for name in (*AGENTS, "sink") if name in agents]
    return group_id if grouped == list(AGENTS) else ".".join([group_id, *grouped])
