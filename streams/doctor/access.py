"""Checks our rights at the broker. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from aiokafka.errors import ClusterAuthorizationFailedError, GroupAuthorizationFailedError, for_code

from judge.text.printable import printable
from streams.doctor.facts import GroupView, TopicView
from streams.doctor.finding import Finding, failed, not_tried, ok, warning
from streams.doctor.topics import acl_command
from streams.kafka.access.errors import principal_of
from streams.kafka.topics.flow import TopicUse
from streams.kafka.topics.grants import Operation
from streams.kafka.topics.rights import Right
from streams.settings import KafkaSettings

OUR_PROTOCOL: Final = "roundrobin"
"""Partition assignment of workers; a group with another one would refuse them."""
OUR_CLIENT: Final = "judgestream"
"""Client id of workers; group members with another one would receive some of the records."""
_WORDS: Final[Mapping[Right, Operation]] = {Right.READ: "Read", Right.WRITE: "Write"}


def check_topic_rights(
    topics: Iterable[TopicView], needs: Mapping[str, TopicUse], kafka: KafkaSettings
) -> list[Finding]:
    """Return a finding for each missing topic right, and one with the rights granted."""
    found: list[Finding] = []
    allowed: dict[Right, list[str]] = {Right.READ: [], Right.WRITE: []}
    untold: list[str] = []
    for topic in topics:
        need = needs[topic.name]
        if topic.error_code:
            continue  # reported with the topic
        if topic.rights is None:
            untold.append(topic.name)
            continue
        for right, wanted in ((Right.READ, need.reads), (Right.WRITE, need.writes)):
            if not wanted:
                continue
            if right in topic.rights:
                allowed[right].append(topic.name)
                continue
            word = _WORDS[right]
            found.append(
                failed(
                    "access",
                    topic.name,
                    f"{principal_of(kafka)} may not {word.lower()} it",
                    acl_command(kafka, word, topic=topic.name),
                )
            )
    if untold:
        found.append(
            not_tried(
                "access",
                "topics",
                ("this broker does not report permissions (Kafka 2.3 and newer do)"),
            )
        )
    told = [f"{_WORDS[right]}: {', '.join(names)}" for right, names in allowed.items() if names]
    if told:
        found.append(ok("access", "topics", "; ".join(told)))
    return found


def check_producer(error_code: int, kafka: KafkaSettings) -> Finding:
    """Check whether an idempotent producer, as in a worker, gets its id."""
    if not error_code:
        return ok("access", "producer", "idempotent writing is permitted")
    if error_code == ClusterAuthorizationFailedError.errno:
        return failed(
            "access",
            "producer",
            f"{principal_of(kafka)} may not write idempotently",
            (
                "grant Write on the topics, or with a broker before 2.8: "
                f"{acl_command(kafka, 'IdempotentWrite')}"
            ),
        )
    return failed(
        "access",
        "producer",
        f"idempotent writing fails: {for_code(error_code).__name__}",
        "check the broker's log",
        may_pass=True,
    )


def check_group(group_id: str, group: GroupView, kafka: KafkaSettings) -> list[Finding]:
    """Check whether a worker can join its group."""
    subject = f"group {group_id}"
    grant = acl_command(kafka, "Read", group=group_id)
    if group.error_code == GroupAuthorizationFailedError.errno:
        return [failed("access", subject, f"{principal_of(kafka)} may not use it", grant)]
    if group.error_code:
        name = for_code(group.error_code).__name__
        return [
            failed(
                "access", subject, f"it has no coordinator: {name}", "check the broker's log", may_pass=True
            )
        ]
    if group.rights is not None and Right.READ not in group.rights:
        return [failed("access", subject, f"{principal_of(kafka)} may not join it", grant)]
    others = sorted(client for client in group.clients if client != OUR_CLIENT)
    if group.protocol_type not in {"", "consumer"} or group.protocol not in {"", OUR_PROTOCOL} or others:
        who = (
            f"clients {', '.join(others)}" if others else f"protocol {group.protocol or group.protocol_type}"
        )
        return [
            failed(
                "access",
                subject,
                f"is in use by another application ({len(group.clients)} members, {printable(who, 200)})",
                "choose another kafka.group_id",
            )
        ]
    state = (
        "does not exist yet"
        if group.state in {"", "Dead"}
        else f"{group.state}, {len(group.clients)} members"
    )
    if group.rights is None:
        return [ok("access", subject, f"{state}; this broker does not report whether joining is allowed")]
    return [ok("access", subject, f"{state}; joining is allowed")]


def check_hidden(hidden: Mapping[str, str], kafka: KafkaSettings) -> list[Finding]:
    """Warn of settings that the broker does not show."""
    return [
        warning(
            "topics",
            name or "broker",
            f"its settings cannot be read ({reason}), so they are not checked",
            acl_command(kafka, "DescribeConfigs", topic=name),
        )
        for name, reason in hidden.items()
    ]
