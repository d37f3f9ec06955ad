"""Tables of checks of topics and rights at the broker. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from aiokafka.errors import (
    ClusterAuthorizationFailedError,
    GroupAuthorizationFailedError,
    TopicAuthorizationFailedError,
    UnknownTopicOrPartitionError,
    for_code,
)

from judge.text.printable import printable
from streams.doctor.findings import ALWAYS, Finding, Row, evaluate, failed, not_tried, ok, warning
from streams.doctor.probe import LONGEST_SESSION, SHORTEST_SESSION, GroupView, TopicView
from streams.kafka.access.errors import principal_of
from streams.kafka.topics.grants import CLUSTER, Grant, granting
from streams.kafka.topics.table import TopicUse, plan_topics, topics_tool
from streams.settings.broker import KafkaSettings
from streams.settings.tree import Settings

LEAST_RETENTION_MS: Final = 24 * 3_600_000
"""Minimum retention of tasks, which wait while a judge is down."""
MIN_MESSAGE_BYTES: Final = 32 * 1024
"""Enough for a result without evidence and for a dead letter without its value."""
OUR_PROTOCOL: Final = "roundrobin"  # a group with another one would refuse the workers
OUR_CLIENT: Final = "judgestream"  # members with another client id would receive some of the records


@dataclass(frozen=True, slots=True)
class Expected:
    """What topics are checked against; `events_bytes` is the largest record of the events topic, if known."""

    settings: Settings
    workers: int
    events_bytes: int | None = None
    is_trial: bool = False
    """Whether the cluster is one broker, which can keep no replica."""


def check_topic(
    topic: TopicView, shown: Mapping[str, str] | None, need: TopicUse, expected: Expected
) -> list[Finding]:
    """Check one topic: return all its problems, or one finding that it is good (`shown`: its settings)."""
    name, kafka, shown, workers = topic.name, expected.settings.kafka, shown or {}, expected.workers
    if topic.error_code:
        return evaluate("topics", name, _unusable(topic, need, expected.settings))[:1]
    count, leaderless = len(topic.partitions), sum(one.leader < 0 for one in topic.partitions)
    replicas = min((one.replicas for one in topic.partitions), default=0)
    in_sync = min((one.in_sync for one in topic.partitions), default=0)
    least, limit = _number(shown.get("min.insync.replicas")), _number(shown.get("max.message.bytes"))
    retention_ms = _number(shown.get("retention.ms"))
    keeps = "" if retention_ms is None else duration(retention_ms)
    largest = min(expected.settings.ingest.max_event_bytes, expected.events_bytes or 2**40)
    takes_events = need.kind.field == "tasks" and need.writes
    idle = "a second worker would get no partition"
    if count < workers:
        idle = f"{workers - count} of {workers} workers get no partition"
    policy = shown.get("cleanup.policy", "")
    durable = need.writes and least is not None and least <= replicas
    rows = (
        Row(leaderless, "failed",
            f"{leaderless} of {count} partitions have no leader, so they cannot be read or written",
            "check which brokers are down", may_pass=True),
        Row("compact" in policy and need.kind.cleanup != "compact", "failed",
            f"cleanup.policy must be delete (got {policy}): compaction removes unread records",
            "set it, with a retention longer than any judge outage"),
        Row(limit is not None and limit < MIN_MESSAGE_BYTES, "failed",
            f"max.message.bytes must be at least {MIN_MESSAGE_BYTES} (got {limit})",
            "raise it: dead letters would not fit"),
        Row(replicas > 1 and shown.get("unclean.leader.election.enable") == "true", "failed",
            "unclean.leader.election.enable must be false (got true): a lagging replica may become "
            "leader and lose confirmed records", "set it to false"),
        Row(need.writes and (least or 0) > replicas, "failed",
            f"min.insync.replicas is {least} and there are {replicas} replicas: every write fails",
            "lower min.insync.replicas, or add replicas"),
        Row(durable and in_sync < (least or 0), "failed",
            f"{in_sync} replicas of a partition are in sync and min.insync.replicas is {least}: writes are "
            "refused", "check which brokers are down or slow", may_pass=True),
        Row(durable and least == replicas > 1, "warning",
            f"min.insync.replicas is {least}, the number of replicas: writes fail while one broker restarts",
            "lower min.insync.replicas by one, or add a replica"),
        Row(durable and least == 1 < replicas, "warning",
            "min.insync.replicas is 1: an acknowledged record may exist on one disk only", "set it to 2"),
        Row(replicas == 1 and not expected.is_trial, "warning",
            "has 1 replica: a disk failure loses its records",
            "use 3 replicas with min.insync.replicas 2, except in trials"),
        Row(need.reads and retention_ms is not None and 0 <= retention_ms < LEAST_RETENTION_MS, "warning",
            f"keeps records for {keeps}: tasks that wait longer, for a judge that is down, are lost",
            f"set retention.ms to {LEAST_RETENTION_MS} or more"),
        Row(need.reads and count < max(workers, 2), "warning", f"too few partitions ({count}): {idle}",
            f"{topics_tool(kafka)} --alter --topic {name} --partitions {max(workers, 4)} (see "
            "docs/scaling.md for the number)"),
        Row(takes_events and limit is not None and limit < largest, "warning",
            f"accepts records of up to {limit} bytes, but events may have {largest}: larger ones become dead "
            "letters",
            f"set max.message.bytes to {largest} or more, or ingest.max_event_bytes to {limit} or less"),
    )  # fmt: skip
    findings = evaluate("topics", name, rows)
    parts = [f"{count} partitions", f"{replicas} replicas"]
    if least is not None:
        parts.append(f"at least {least} of them in sync")
    if retention_ms is not None:
        parts.append("kept forever" if retention_ms < 0 else f"kept for {keeps}")
    if limit is not None:
        parts.append(f"records up to {limit} bytes")
    return findings or [ok("topics", name, ", ".join(parts))]


def check_sessions(kafka: KafkaSettings, broker: Mapping[str, str]) -> list[Finding]:
    """Check the session timeout against the broker's settings, with which it would refuse workers."""
    name, session = "kafka.session_timeout_seconds", kafka.session_timeout_seconds
    least, most = (_number(broker.get(one)) for one in (SHORTEST_SESSION, LONGEST_SESSION))
    rows = (
        Row(least is not None and session * 1000 < least, "failed",
            f"{name} must be at least the broker's {SHORTEST_SESSION} ({least} ms), got {session:g} s",
            "raise it"),
        Row(most is not None and session * 1000 > most, "failed",
            f"{name} must be at most the broker's {LONGEST_SESSION} ({most} ms), got {session:g} s",
            "lower it"),
    )  # fmt: skip
    return evaluate("broker", "sessions", rows)


def _unusable(topic: TopicView, need: TopicUse, settings: Settings) -> Iterator[Row]:
    kafka, error, creates = settings.kafka, for_code(topic.error_code), settings.topics.create
    if error is UnknownTopicOrPartitionError:
        partitions = settings.topics.create_partitions
        yield Row(creates, "ok", f"does not exist; a worker creates it with {partitions} partitions")
        plan = next(plan for plan in plan_topics(settings) if plan.name == topic.name)
        remedy = f"judgestream topics creates missing topics; or: {plan.command(kafka)}"
        yield Row(ALWAYS, "failed", "does not exist", remedy, may_pass=True)
    detail = f"does not exist, or {principal_of(kafka)} may not describe it"
    grant = granting(Grant("topic", topic.name, need.operations), kafka)
    yield Row(error is TopicAuthorizationFailedError, "failed", detail, f"create it, or: {grant}")
    what = f"cannot be used: {error.__name__}"
    yield Row(ALWAYS, "failed", what, "check the broker's log", may_pass=True)


def _number(text: str | None) -> int | None:
    try:
        return int(text or "")
    except ValueError:
        return None


def duration(milliseconds: int) -> str:
    """Return a duration in its largest unit: 604800000 is "7 d"."""
    seconds = milliseconds / 1000
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.3g} s"


def largest_record(shown: Mapping[str, Mapping[str, str]], topic: str) -> int | None:
    return _number(shown.get(topic, {}).get("max.message.bytes"))


def check_topic_rights(
    topics: Iterable[TopicView], needs: Mapping[str, TopicUse], kafka: KafkaSettings
) -> list[Finding]:
    usable = [topic for topic in topics if not topic.error_code]  # others are reported with the topic
    findings: list[Finding] = []
    granted: dict[str, list[str]] = {}
    for topic in usable:
        need, rights = needs[topic.name], topic.rights
        for word in () if rights is None else need.operations:
            if word in (rights or ()):
                granted.setdefault(word, []).append(topic.name)
                continue
            what = f"{principal_of(kafka)} may not {word.lower()} it"
            remedy = granting(Grant("topic", topic.name, (word,)), kafka)
            findings.append(failed("access", topic.name, what, remedy))
    if any(topic.rights is None for topic in usable):
        why = "this broker does not report permissions (Kafka 2.3 and newer do)"
        findings.append(not_tried("access", "topics", why))
    if granted:
        told = "; ".join(f"{word}: {', '.join(names)}" for word, names in sorted(granted.items()))
        findings.append(ok("access", "topics", told))
    return findings


def check_producer(error_code: int, kafka: KafkaSettings) -> Finding:
    if error_code == ClusterAuthorizationFailedError.errno:
        grant = granting(Grant("cluster", CLUSTER, ("IdempotentWrite",)), kafka)
        remedy = f"grant Write on the topics, or with a broker before 2.8: {grant}"
        return failed("access", "producer", f"{principal_of(kafka)} may not write idempotently", remedy)
    if error_code:
        what = f"idempotent writing fails: {for_code(error_code).__name__}"
        return failed("access", "producer", what, "check the broker's log", may_pass=True)
    return ok("access", "producer", "idempotent writing is permitted")


def check_group(group_id: str, group: GroupView, kafka: KafkaSettings) -> list[Finding]:
    clients = sorted(client for client in group.clients if client != OUR_CLIENT)
    others = f"clients {', '.join(clients)}" if clients else ""
    ours = group.protocol_type in {"", "consumer"} and group.protocol in {"", OUR_PROTOCOL}
    if not (others or ours):
        others = f"protocol {group.protocol or group.protocol_type}"
    members, principal = len(group.clients), principal_of(kafka)
    grant = granting(Grant("group", group_id, ("Read",)), kafka)
    denied = group.error_code == GroupAuthorizationFailedError.errno
    state = f"{group.state}, {members} members"
    if group.state in {"", "Dead"}:
        state = "does not exist yet"
    rows = (
        Row(denied, "failed", f"{principal} may not use it", grant),
        Row(group.error_code, "failed", f"it has no coordinator: {for_code(group.error_code).__name__}",
            "check the broker's log", may_pass=True),
        Row(group.rights is not None and "Read" not in group.rights, "failed",
            f"{principal} may not join it", grant),
        Row(others, "failed",
            f"is in use by another application ({members} members, {printable(others, 200)})",
            "choose another kafka.group_id"),
        Row(group.rights is None, "ok",
            f"{state}; this broker does not report whether joining is allowed"),
        Row(ALWAYS, "ok", f"{state}; joining is allowed"),
    )  # fmt: skip
    return evaluate("access", f"group {group_id}", rows)[:1]


def check_hidden(hidden: Mapping[str, str], kafka: KafkaSettings) -> list[Finding]:
    findings = []
    for name, reason in hidden.items():
        what = f"its settings cannot be read ({reason}), so they are not checked"
        grant = Grant("topic" if name else "cluster", name, ("DescribeConfigs",))
        findings.append(warning("topics", name or "broker", what, granting(grant, kafka)))
    return findings
