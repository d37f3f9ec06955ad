"""A broker's answers, as plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from streams.kafka.topics.rights import Right


@dataclass(frozen=True, slots=True)
class Node:
    """A broker as the cluster names it to clients."""

    node_id: int
    host: str
    port: int

    @property
    def address(self) -> str:
        """Host and port."""
        return f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Partition:
    """One partition: its leader (-1: none), its replicas, and which of them are in sync."""

    leader: int
    replicas: int
    in_sync: int


@dataclass(frozen=True, slots=True)
class TopicView:
    """One topic as the broker shows it to us.

    Args:
        name: Its name.
        error_code: Kafka's; 0 where there is nothing wrong.
        partitions: Its partitions.
        rights: What we may do with it; None where the broker does not report.
    """

    name: str
    error_code: int
    partitions: tuple[Partition, ...] = ()
    rights: frozenset[Right] | None = None


@dataclass(frozen=True, slots=True)
class Cluster:
    """The cluster as it shows itself.

    Args:
        nodes: The brokers.
        topics: The topics that were asked for, by name.
    """

    nodes: tuple[Node, ...]
    topics: Mapping[str, TopicView]


@dataclass(frozen=True, slots=True)
class GroupView:
    """A consumer group as its coordinator shows it.

    Args:
        error_code: Kafka's; 0 where there is nothing wrong.
        state: Stable, Empty, Dead (there is none), ...
        protocol_type: "consumer" for every consumer group; empty where there is none.
        protocol: How its members share partitions; empty while it has none.
        clients: What each member calls itself.
        rights: What we may do with it; None where the broker does not report.
    """

    error_code: int
    state: str = ""
    protocol_type: str = ""
    protocol: str = ""
    clients: tuple[str, ...] = ()
    rights: frozenset[Right] | None = None


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings as the broker shows them.

    Args:
        broker: The broker's own; empty where it does not show them.
        topics: By topic; those that are not shown are missing.
        hidden: Why something is not shown, by topic, or under "" for the broker.
    """

    broker: Mapping[str, str] = field(default_factory=dict)
    topics: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    hidden: Mapping[str, str] = field(default_factory=dict)
