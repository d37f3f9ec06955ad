"""Tables of checks of topics and rights at the broker. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
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
from streams.doctor.findings import (
    Finding,
    Row,
    always,
    evaluate,
    failed,
    not_tried,
    ok,
    split_problem,
    warning,
)
from streams.doctor.probe import GroupView, TopicView
from streams.kafka.access.errors import principal_of
from streams.kafka.topics.broker_settings import TopicFacts, problems_of
from streams.kafka.topics.grants import CLUSTER, Grant, Operation, commands
from streams.kafka.topics.rights import Right
from streams.kafka.topics.table import TopicUse, plan_topics, topics_tool
from streams.settings import KafkaSettings, Settings

LEAST_RETENTION_MS: Final = 24 * 3_600_000
"""Minimum retention of tasks, which wait while a judge is down."""
OUR_PROTOCOL: Final = "roundrobin"
"""Partition assignment of workers; a group with another one would refuse them."""
OUR_CLIENT: Final = "judgestream"
"""Client id of workers; group members with another one would receive some of the records."""
_WORDS: Final[Mapping[Right, Operation]] = {Right.READ: "Read", Right.WRITE: "Write"}


@dataclass(frozen=True, slots=True)
class Expected:
    """What topics are checked against; `events_bytes` is the largest record of the events topic, if known."""

    settings: Settings
    workers: int
    events_bytes: int | None = None
    is_trial: bool = False
    """Whether the cluster is one broker, which can keep no replica."""


class TopicCase:
    """The facts of one topic, as the table names them."""

    def __init__(
        self, topic: TopicView, shown: Mapping[str, str], need: TopicUse, expected: Expected
    ) -> None:
        self.settings, kafka = expected.settings, expected.settings.kafka
        self.is_trial = expected.is_trial
        self.name, self.error_code, self.need = topic.name, topic.error_code, need
        self.error = for_code(topic.error_code).__name__
        self.count = len(topic.partitions)
        self.leaderless = sum(one.leader < 0 for one in topic.partitions)
        self.replicas = min((one.replicas for one in topic.partitions), default=0)
        self.in_sync = min((one.in_sync for one in topic.partitions), default=0)
        self.least = _number(shown.get("min.insync.replicas"))
        self.retention_ms = _number(shown.get("retention.ms"))
        self.limit = _number(shown.get("max.message.bytes"))
        self.keeps = "" if self.retention_ms is None else duration(self.retention_ms)
        self.largest = min(expected.settings.ingest.max_event_bytes, expected.events_bytes or 2**40)
        self.workers, self.wanted_partitions = expected.workers, max(expected.workers, 4)
        self.idle = (
            f"{self.workers - self.count} of {self.workers} workers get no partition"
            if self.count < self.workers
            else "a second worker would get no partition"
        )
        self.principal, self.tool = principal_of(kafka), topics_tool(kafka)
        self.least_retention_ms = LEAST_RETENTION_MS

    @property
    def writes_with_least(self) -> bool:
        return self.need.writes and self.least is not None and self.least <= self.replicas

    @property
    def keeps_briefly(self) -> bool:
        return self.retention_ms is not None and 0 <= self.retention_ms < LEAST_RETENTION_MS

    @property
    def too_small(self) -> bool:
        takes_events = self.need.kind.field == "tasks" and self.need.writes
        return takes_events and self.limit is not None and self.limit < self.largest

    @property
    def creation(self) -> str:
        plans = plan_topics(self.settings)
        return next(plan.command(self.settings.kafka) for plan in plans if plan.name == self.name)

    @property
    def grant(self) -> str:
        return acl_command(self.settings.kafka, *self.need.operations, topic=self.name)


TOPIC_ROWS: Final[tuple[Row[TopicCase], ...]] = (
    Row(lambda f: f.error_code == UnknownTopicOrPartitionError.errno and f.settings.topics.create, "ok",
        "does not exist; a worker creates it with {f.settings.topics.create_partitions} partitions",
        ends=True),
    Row(lambda f: f.error_code == UnknownTopicOrPartitionError.errno, "failed",
        "does not exist", "judgestream topics creates missing topics; or: {f.creation}",
        may_pass=True, ends=True),
    Row(lambda f: f.error_code == TopicAuthorizationFailedError.errno, "failed",
        "does not exist, or {f.principal} may not describe it", "create it, or: {f.grant}", ends=True),
    Row(lambda f: f.error_code, "failed",
        "cannot be used: {f.error}", "check the broker's log", may_pass=True, ends=True),
    Row(lambda f: f.leaderless, "failed",
        "{f.leaderless} of {f.count} partitions have no leader, so they cannot be read or written",
        "check which brokers are down", may_pass=True),
    Row(lambda f: f.need.writes and f.least is not None and f.least > f.replicas, "failed",
        "min.insync.replicas is {f.least} and there are {f.replicas} replicas: every write fails",
        "lower min.insync.replicas, or add replicas"),
    Row(lambda f: f.writes_with_least and f.in_sync < (f.least or 0), "failed",
        "{f.in_sync} replicas of a partition are in sync and min.insync.replicas is {f.least}: writes are "
        "refused", "check which brokers are down or slow", may_pass=True),
    Row(lambda f: f.writes_with_least and f.least == f.replicas > 1, "warning",
        "min.insync.replicas is {f.least}, the number of replicas: writes fail while one broker restarts",
        "lower min.insync.replicas by one, or add a replica"),
    Row(lambda f: f.writes_with_least and f.least == 1 < f.replicas, "warning",
        "min.insync.replicas is 1: an acknowledged record may exist on one disk only", "set it to 2"),
    Row(lambda f: f.replicas == 1 and not f.is_trial, "warning",
        "has 1 replica: a disk failure loses its records",
        "use 3 replicas with min.insync.replicas 2, except in trials"),
    Row(lambda f: f.need.reads and f.keeps_briefly, "warning",
        "keeps records for {f.keeps}: tasks that wait longer, for a judge that is down, are lost",
        "set retention.ms to {f.least_retention_ms} or more"),
    Row(lambda f: f.need.reads and f.count < max(f.workers, 2), "warning",
        "too few partitions ({f.count}): {f.idle}",
        "{f.tool} --alter --topic {f.name} --partitions {f.wanted_partitions} (see docs/scaling.md for the "
        "number)"),
    Row(lambda f: f.too_small, "warning",
        "accepts records of up to {f.limit} bytes, but events may have {f.largest}: larger ones become dead "
        "letters",
        "set max.message.bytes to {f.largest} or more, or ingest.max_event_bytes to {f.limit} or less"),
)  # fmt: skip


def check_topic(
    topic: TopicView, shown: Mapping[str, str] | None, need: TopicUse, expected: Expected
) -> list[Finding]:
    """Check one topic: return all its problems, or one finding that it is good (`shown`: its settings)."""
    facts = TopicCase(topic, shown or {}, need, expected)
    compacted = need.kind.cleanup == "compact"
    refused = TopicFacts(facts.replicas, {} if facts.error_code else shown or {}, compacted=compacted)
    # A worker refuses to start with these.
    problems = [] if facts.error_code else problems_of(expected.settings.kafka, {}, {topic.name: refused})
    fatal = [failed("topics", topic.name, *split_problem(one, topic.name)) for one in problems]
    return [*evaluate("topics", topic.name, TOPIC_ROWS, facts, "" if fatal else _summary(facts)), *fatal]


def _summary(facts: TopicCase) -> str:
    parts = [f"{facts.count} partitions", f"{facts.replicas} replicas"]
    if facts.least is not None:
        parts.append(f"at least {facts.least} of them in sync")
    if facts.retention_ms is not None:
        parts.append("kept forever" if facts.retention_ms < 0 else f"kept for {facts.keeps}")
    if facts.limit is not None:
        parts.append(f"records up to {facts.limit} bytes")
    return ", ".join(parts)


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
    """Return the largest record that a topic accepts, if known."""
    return _number(shown.get(topic, {}).get("max.message.bytes"))


def acl_command(kafka: KafkaSettings, *operations: Operation, topic: str = "", group: str = "") -> str:
    """Return the command that grants rights on a topic, a group or, without either, the cluster."""
    if topic:
        grant = Grant("topic", topic, operations)
    else:
        grant = Grant("group", group, operations) if group else Grant("cluster", CLUSTER, operations)
    return commands([grant], f"User:{kafka.security.username or '...'}", broker=kafka.bootstrap_servers)[0]


def check_topic_rights(
    topics: Iterable[TopicView], needs: Mapping[str, TopicUse], kafka: KafkaSettings
) -> list[Finding]:
    """Return a finding for each missing topic right, and one with the rights granted."""
    usable = [topic for topic in topics if not topic.error_code]  # others are reported with the topic
    findings: list[Finding] = []
    granted: dict[str, list[str]] = {}
    for topic in usable:
        need, rights = needs[topic.name], topic.rights
        for right, needed in ((Right.READ, need.reads), (Right.WRITE, need.writes)):
            if needed and rights is not None:
                word = _WORDS[right]
                if right in rights:
                    granted.setdefault(word, []).append(topic.name)
                    continue
                what = f"{principal_of(kafka)} may not {word.lower()} it"
                findings.append(
                    failed("access", topic.name, what, acl_command(kafka, word, topic=topic.name))
                )
    if any(topic.rights is None for topic in usable):
        why = "this broker does not report permissions (Kafka 2.3 and newer do)"
        findings.append(not_tried("access", "topics", why))
    if granted:
        told = "; ".join(f"{word}: {', '.join(names)}" for word, names in sorted(granted.items()))
        findings.append(ok("access", "topics", told))
    return findings


def check_producer(error_code: int, kafka: KafkaSettings) -> Finding:
    """Check whether an idempotent producer, as in a worker, gets its id."""
    if error_code == ClusterAuthorizationFailedError.errno:
        grant = acl_command(kafka, "IdempotentWrite")
        remedy = f"grant Write on the topics, or with a broker before 2.8: {grant}"
        return failed("access", "producer", f"{principal_of(kafka)} may not write idempotently", remedy)
    if error_code:
        what = f"idempotent writing fails: {for_code(error_code).__name__}"
        return failed("access", "producer", what, "check the broker's log", may_pass=True)
    return ok("access", "producer", "idempotent writing is permitted")


@dataclass(frozen=True, slots=True)
class GroupCase:
    """The facts of the worker's group, as the table names them."""

    group: GroupView
    principal: str
    grant: str
    others: str
    """Members that are no workers."""

    @property
    def error(self) -> str:
        return str(for_code(self.group.error_code).__name__)

    @property
    def members(self) -> int:
        return len(self.group.clients)

    @property
    def state(self) -> str:
        absent = self.group.state in {"", "Dead"}
        return "does not exist yet" if absent else f"{self.group.state}, {self.members} members"


GROUP_ROWS: Final[tuple[Row[GroupCase], ...]] = (
    Row(lambda f: f.group.error_code == GroupAuthorizationFailedError.errno, "failed",
        "{f.principal} may not use it", "{f.grant}", ends=True),
    Row(lambda f: f.group.error_code, "failed", "it has no coordinator: {f.error}", "check the broker's log",
        may_pass=True, ends=True),
    Row(lambda f: f.group.rights is not None and Right.READ not in f.group.rights, "failed",
        "{f.principal} may not join it", "{f.grant}", ends=True),
    Row(lambda f: f.others, "failed",
        "is in use by another application ({f.members} members, {f.others})",
        "choose another kafka.group_id", ends=True),
    Row(lambda f: f.group.rights is None, "ok",
        "{f.state}; this broker does not report whether joining is allowed", ends=True),
    Row(always, "ok", "{f.state}; joining is allowed"),
)  # fmt: skip


def check_group(group_id: str, group: GroupView, kafka: KafkaSettings) -> list[Finding]:
    """Check whether a worker can join its group."""
    clients = sorted(client for client in group.clients if client != OUR_CLIENT)
    others = f"clients {', '.join(clients)}" if clients else ""
    ours = group.protocol_type in {"", "consumer"} and group.protocol in {"", OUR_PROTOCOL}
    if not (others or ours):
        others = f"protocol {group.protocol or group.protocol_type}"
    grant = acl_command(kafka, "Read", group=group_id)
    facts = GroupCase(group, principal_of(kafka), grant, printable(others, 200))
    return evaluate("access", f"group {group_id}", GROUP_ROWS, facts)


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
