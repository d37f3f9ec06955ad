"""Plan how topics are created, and compare existing topics with the plan. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from streams.kafka.topics.flow import ALL_AGENTS, AgentName, TopicKind, topic_uses
from streams.settings import KafkaSettings, Settings

CLEANUP: Final = "cleanup.policy"
RETENTION: Final = "retention.ms"
IN_SYNC: Final = "min.insync.replicas"
CONFIG_NAMES: Final = (CLEANUP, RETENTION, IN_SYNC)
"""Topic settings that the plan sets."""
_MILLISECONDS_AN_HOUR: Final = 3_600_000
_ENOUGH_COPIES: Final = 3
"""With this many replicas, `min.insync.replicas` of 2 tolerates the loss of one."""


@dataclass(frozen=True, slots=True)
class WantedTopic:
    """A topic to create.

    Args:
        name: Its name.
        partitions: Number of partitions, 1 or more.
        replication_factor: Replicas of each partition, 1 or more.
        config: Its settings, by Kafka's names.
    """

    name: str
    partitions: int
    replication_factor: int
    config: Mapping[str, str]

    def command(self, kafka: KafkaSettings) -> str:
        """Return the command of Kafka's tools that creates it."""
        settings = " ".join(f"--config {key}={value}" for key, value in self.config.items())
        return (
            f"{topics_tool(kafka)} --create --topic {self.name} --partitions {self.partitions} "
            f"--replication-factor {self.replication_factor} {settings}"
        )


@dataclass(frozen=True, slots=True)
class FoundTopic:
    """An existing topic.

    Args:
        name: Its name.
        partitions: Number of partitions.
        replicas: Replicas of the partition with the fewest.
        config: Those of `CONFIG_NAMES` that the broker shows.
    """

    name: str
    partitions: int
    replicas: int
    config: Mapping[str, str]


def topics_tool(kafka: KafkaSettings) -> str:
    """Return the start of a `kafka-topics.sh` command, with a login file for protected brokers."""
    login = "" if kafka.security.protocol == "PLAINTEXT" else " --command-config admin.properties"
    return f"kafka-topics.sh --bootstrap-server {shlex.quote(kafka.bootstrap_servers)}{login}"


def plan_topics(settings: Settings, agents: Collection[AgentName] | None = None) -> list[WantedTopic]:
    """Return the topics to create for some agents.

    Args:
        settings: The settings.
        agents: The agents; None for all, and `sink` only if a sink writes to a topic.
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
            {CLEANUP: use.kind.cleanup, **_retention(use.kind), **safe},
        )
        for use in topic_uses(topics, settings.metrics, agents)
    ]


def _retention(kind: TopicKind) -> Mapping[str, str]:
    if kind.cleanup == "compact":
        return {}  # compacted topics need no retention
    return {RETENTION: str(kind.keep_hours * _MILLISECONDS_AN_HOUR)}


def differences(wanted: WantedTopic, found: FoundTopic) -> Sequence[str]:
    """Return the differences of an existing topic from the plan; hidden settings are ignored."""
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
