"""How topics are created, and what there is to say of one that is there already. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from streams.kafka.topics.flow import ALL_AGENTS, AgentName, TopicKind, topic_uses
from streams.settings import KafkaSettings, Settings, TopicSettings

CLEANUP: Final = "cleanup.policy"
RETENTION: Final = "retention.ms"
IN_SYNC: Final = "min.insync.replicas"
CONFIG_NAMES: Final = (CLEANUP, RETENTION, IN_SYNC)
"""Every setting of a topic that is ours to choose."""
_MILLISECONDS_AN_HOUR: Final = 3_600_000
_ENOUGH_COPIES: Final = 3
"""With this many copies one may be away while a write still has to reach two."""


@dataclass(frozen=True, slots=True)
class WantedTopic:
    """A topic as it is created.

    Args:
        name: Its name.
        partitions: Its partitions, 1 or more.
        replication_factor: Copies of each record, 1 or more.
        config: Its settings, as Kafka names them.
    """

    name: str
    partitions: int
    replication_factor: int
    config: Mapping[str, str]

    def command(self, kafka: KafkaSettings) -> str:
        """Write the command of Kafka's own tools that creates it."""
        settings = " ".join(f"--config {key}={value}" for key, value in self.config.items())
        return (
            f"{topics_tool(kafka)} --create --topic {self.name} --partitions {self.partitions} "
            f"--replication-factor {self.replication_factor} {settings}"
        )


@dataclass(frozen=True, slots=True)
class FoundTopic:
    """A topic as it is there.

    Args:
        name: Its name.
        partitions: Its partitions.
        replicas: Copies of its records; the fewest of its partitions.
        config: Those of `CONFIG_NAMES` that the broker shows.
    """

    name: str
    partitions: int
    replicas: int
    config: Mapping[str, str]


def topics_tool(kafka: KafkaSettings) -> str:
    """Write how Kafka's own tool for topics gets at these brokers.

    Where they are guarded its login stands in a file.
    """
    login = "" if kafka.security.protocol == "PLAINTEXT" else " --command-config admin.properties"
    return f"kafka-topics.sh --bootstrap-server {shlex.quote(kafka.bootstrap_servers)}{login}"


def plan_topics(settings: Settings, agents: Collection[AgentName] | None = None) -> list[WantedTopic]:
    """Say how the topics of these agents are created.

    Args:
        settings: The settings.
        agents: Whose topics; None for all that the settings have work for.
    """
    if agents is None:
        to_topic = any(sink.kind == "otlp_topic" for sink in settings.sinks.values())
        agents = tuple(name for name in ALL_AGENTS if name != "sink" or to_topic)
    topics = settings.topics
    safe = {IN_SYNC: "2"} if topics.create_replication_factor >= _ENOUGH_COPIES else {}
    return [
        WantedTopic(
            use.name,
            topics.create_partitions,
            topics.create_replication_factor,
            {CLEANUP: use.kind.cleanup, **_retention(topics, use.kind), **safe},
        )
        for use in topic_uses(topics, settings.metrics, agents)
    ]


def _retention(topics: TopicSettings, kind: TopicKind) -> Mapping[str, str]:
    if kind.cleanup == "compact":
        return {}  # the latest record of each key stays
    hours: int = getattr(topics.create_retention_hours, kind.field)
    return {RETENTION: str(hours * _MILLISECONDS_AN_HOUR)}


def differences(wanted: WantedTopic, found: FoundTopic) -> Sequence[str]:
    """Say where a topic that is there is not as it would be created.

    What the broker does not show is left out.
    """
    pairs = [
        ("partitions", str(wanted.partitions), str(found.partitions)),
        ("copies", str(wanted.replication_factor), str(found.replicas)),
        *(
            (key, value, found.config[key])
            for key, value in wanted.config.items()
            if found.config.get(key, "") != ""
        ),
    ]
    return [f"{what} {there}, not {ours}" for what, ours, there in pairs if ours != there]
