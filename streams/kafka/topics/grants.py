"""The least permissions of a principal on the broker, by agent and by command.

`docs/permissions.md` lists them as commands, the worker checks them at start, and the tests against Apache
Kafka grant exactly these.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from streams.kafka.topics.flow import topic_uses
from streams.settings import TopicSettings

Resource = Literal["topic", "group", "cluster"]
Operation = Literal["Read", "Write", "Create", "DescribeConfigs", "IdempotentWrite"]
"""Describe is never granted by itself, because Read and Write imply it. Since Kafka 2.8 Write implies
IdempotentWrite."""

CLUSTER: Final = "kafka-cluster"
"""Kafka's resource name of the cluster."""


@dataclass(frozen=True, slots=True)
class Grant:
    """Operations on one resource.

    Args:
        resource: Kind of the resource.
        name: Its name; `CLUSTER` for the cluster.
        operations: Allowed operations.
    """

    resource: Resource
    name: str
    operations: tuple[Operation, ...]


def worker_grants(
    topics: TopicSettings, metrics: Iterable[str], group_id: str, agents: Collection[str]
) -> list[Grant]:
    """Return the permissions that a worker needs.

    Args:
        topics: Names of topics.
        metrics: Names of metrics.
        group_id: The consumer group of these agents.
        agents: The agents that run in it.
    """
    named = [Grant("topic", use.name, use.operations) for use in topic_uses(topics, metrics, agents)]
    # Only the store needs no group.
    return [*named, *([] if set(agents) == {"store"} else [Grant("group", group_id, ("Read",))])]


def checking_grants(grants: Sequence[Grant]) -> list[Grant]:
    """Return the additional permissions to check the broker's settings at start.

    Without them the worker logs a warning and checks nothing.
    """
    topics = [grant.name for grant in grants if grant.resource == "topic"]
    return [
        *(Grant("topic", topic, ("DescribeConfigs",)) for topic in topics),
        Grant("cluster", CLUSTER, ("DescribeConfigs",)),
    ]


def creating_grants(grants: Sequence[Grant]) -> list[Grant]:
    """Return the additional permissions to create the topics of these grants."""
    return [Grant("topic", grant.name, ("Create",)) for grant in grants if grant.resource == "topic"]


def produce_grants(topic: str) -> list[Grant]:
    """Return the permissions that `judgestream produce` needs."""
    return [Grant("topic", topic, ("Write",))]


def tail_grants(topic: str) -> list[Grant]:
    """Return the permissions that `judgestream tail` needs; it reads without a group."""
    return [Grant("topic", topic, ("Read",))]


def commands(grants: Sequence[Grant], principal: str, *, broker: str = "kafka:9092") -> list[str]:
    """Format grants as commands of Kafka's ACL tool, one per resource.

    Args:
        grants: Permissions to grant.
        principal: The grantee, such as "User:judgestream".
        broker: Host and port of a listener on which the caller may change ACLs.
    """
    lines = []
    for grant in grants:
        operations = " ".join(f"--operation {operation}" for operation in grant.operations)
        resource = (
            "--cluster" if grant.resource == "cluster" else f"--{grant.resource} {shlex.quote(grant.name)}"
        )
        lines.append(
            f"kafka-acls.sh --bootstrap-server {broker} --command-config admin.properties --add "
            f"--allow-principal {shlex.quote(principal)} {operations} {resource}"
        )
    return lines
