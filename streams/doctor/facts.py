"""A broker's answers, as plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from streams.kafka.topics.rights import Right


@dataclass(frozen=True, slots=True)
class Node:
    """A broker as the cluster advertises it."""

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
    """The broker's description of a topic.

    Args:
        name: Its name.
        error_code: Kafka's error code; 0: none.
        partitions: Its partitions.
        rights: Our rights; None if the broker does not report them.
    """

    name: str
    error_code: int
    partitions: tuple[Partition, ...] = ()
    rights: frozenset[Right] | None = None


@dataclass(frozen=True, slots=True)
class Cluster:
    """The cluster's description.

    Args:
        nodes: The brokers.
        topics: The requested topics, by name.
    """

    nodes: tuple[Node, ...]
    topics: Mapping[str, TopicView]


@dataclass(frozen=True, slots=True)
class GroupView:
    """A coordinator's description of a consumer group.

    Args:
        error_code: Kafka's error code; 0: none.
        state: Stable, Empty, Dead (there is none), ...
        protocol_type: "consumer" for every consumer group; empty if the group does not exist.
        protocol: The partition assignment of its members; empty without members.
        clients: Client id of each member.
        rights: Our rights; None if the broker does not report them.
    """

    error_code: int
    state: str = ""
    protocol_type: str = ""
    protocol: str = ""
    clients: tuple[str, ...] = ()
    rights: frozenset[Right] | None = None


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings reported by the broker.

    Args:
        broker: The broker's own; empty if not shown.
        topics: By topic, as far as shown.
        hidden: Reasons why settings are not shown, by topic, or under "" for the broker.
    """

    broker: Mapping[str, str] = field(default_factory=dict)
    topics: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    hidden: Mapping[str, str] = field(default_factory=dict)
