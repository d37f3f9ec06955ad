"""The least permissions of a principal on the broker, by part and by command.

`docs/permissions.md` shows them as commands, the worker checks them at start, and the tests against Apache
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
"""Kafka takes Read and Write for Describe, too, so that is never granted by itself; and since 2.8 Write for
IdempotentWrite."""

CLUSTER: Final = "kafka-cluster"
"""The name that Kafka knows the cluster by as a resource."""


@dataclass(frozen=True, slots=True)
class Grant:
    """Operations on one resource.

    Args:
        resource: What kind of thing.
        name: Its name; of the cluster always `CLUSTER`.
        operations: What is allowed.
    """

    resource: Resource
    name: str
    operations: tuple[Operation, ...]


def worker_grants(
    topics: TopicSettings, metrics: Iterable[str], group_id: str, agents: Collection[str]
) -> list[Grant]:
    """List what a worker needs.

    Args:
        topics: Names of topics.
        metrics: Names of metrics.
        group_id: The consumer group of these agents.
        agents: Which agents run in it.
    """
    named = [Grant("topic", use.name, use.operations) for use in topic_uses(topics, metrics, agents)]
    # The store alone needs no group.
    return [*named, *([] if set(agents) == {"store"} else [Grant("group", group_id, ("Read",))])]


def checking_grants(grants: Sequence[Grant]) -> list[Grant]:
    """List what a worker with these grants needs besides to check the broker's settings at its start.

    Without it there is a warning and no check.
    """
    topics = [grant.name for grant in grants if grant.resource == "topic"]
    return [
        *(Grant("topic", topic, ("DescribeConfigs",)) for topic in topics),
        Grant("cluster", CLUSTER, ("DescribeConfigs",)),
    ]


def creating_grants(grants: Sequence[Grant]) -> list[Grant]:
    """List what it takes besides to create the topics of these grants, by the worker or another party."""
    return [Grant("topic", grant.name, ("Create",)) for grant in grants if grant.resource == "topic"]


def produce_grants(topic: str) -> list[Grant]:
    """List what `judgestream produce` needs."""
    return [Grant("topic", topic, ("Write",))]


def tail_grants(topic: str) -> list[Grant]:
    """List what `judgestream tail` needs: it reads without a group."""
    return [Grant("topic", topic, ("Read",))]


def commands(grants: Sequence[Grant], principal: str, *, broker: str = "kafka:9092") -> list[str]:
    """Write grants as calls of Kafka's own tool, one a resource.

    Args:
        grants: What to allow.
        principal: To whom, such as "User:judgestream".
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
