"""Checks topics: whether they exist and keep a worker's records safely. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from aiokafka.errors import TopicAuthorizationFailedError, UnknownTopicOrPartitionError, for_code

from streams.doctor.facts import TopicView
from streams.doctor.finding import Finding, failed, ok, warning
from streams.kafka.access.errors import principal_of
from streams.kafka.topics.broker_settings import TopicFacts, problems_of
from streams.kafka.topics.flow import TopicUse
from streams.kafka.topics.grants import CLUSTER, Grant, Operation, commands
from streams.kafka.topics.plan import plan_topics, topics_tool
from streams.settings import KafkaSettings, Settings

TOPIC_SETTINGS: Final = (
    "cleanup.policy",
    "max.message.bytes",
    "min.insync.replicas",
    "retention.ms",
    "unclean.leader.election.enable",
)
"""Settings to request from the broker."""
LEAST_RETENTION_SECONDS: Final = 24 * 3600.0
"""Minimum retention of tasks, which wait while a judge is down."""


@dataclass(frozen=True, slots=True)
class Expected:
    """What the topics are checked against.

    Args:
        settings: The worker's settings.
        workers: Number of workers that share the work.
        events_bytes: Largest record of the events topic, if known.
    """

    settings: Settings
    workers: int
    events_bytes: int | None = None


def check_topic(
    topic: TopicView, shown: Mapping[str, str] | None, need: TopicUse, expected: Expected
) -> list[Finding]:
    """Check one topic: return all its problems, or one finding that it is good.

    Args:
        topic: The broker's description.
        shown: Its settings; None if not shown.
        need: How it is used.
        expected: What to check it against.
    """
    if topic.error_code:
        return [_unusable(topic, need, expected.settings)]
    settings = shown or {}
    found = [
        *_leaders(topic),
        *_lost(topic, settings, expected.settings.kafka, need),
        *_copies(topic, settings, need),
        *_retention(topic, settings, need),
        *_partitions(topic, need, expected.workers, expected.settings.kafka),
        *_size(topic, settings, need, expected),
    ]
    return found or [ok("topics", topic.name, _summary(topic, settings))]


def _unusable(topic: TopicView, need: TopicUse, settings: Settings) -> Finding:
    name = topic.name
    if topic.error_code == UnknownTopicOrPartitionError.errno:
        made = settings.topics
        if made.create:
            return ok(
                "topics",
                name,
                f"does not exist; a worker creates it with {made.create_partitions} partitions",
            )
        return failed(
            "topics",
            name,
            "does not exist",
            f"judgestream topics creates missing topics; or: {_creation(name, settings)}",
            may_pass=True,
        )
    if topic.error_code == TopicAuthorizationFailedError.errno:
        return failed(
            "topics",
            name,
            f"does not exist, or {principal_of(settings.kafka)} may not describe it",
            f"create it, or: {acl_command(settings.kafka, *need.operations, topic=name)}",
        )
    return failed(
        "topics",
        name,
        f"cannot be used: {for_code(topic.error_code).__name__}",
        "check the broker's log",
        may_pass=True,
    )


def _creation(name: str, settings: Settings) -> str:
    return next(topic.command(settings.kafka) for topic in plan_topics(settings) if topic.name == name)


def _leaders(topic: TopicView) -> list[Finding]:
    without = sum(one.leader < 0 for one in topic.partitions)
    if not without:
        return []
    return [
        failed(
            "topics",
            topic.name,
            (
                f"{without} of {len(topic.partitions)} partitions have no leader, so they cannot be read or "
                "written"
            ),
            "check which brokers are down",
            may_pass=True,
        )
    ]


def _lost(
    topic: TopicView, settings: Mapping[str, str], kafka: KafkaSettings, need: TopicUse
) -> list[Finding]:
    """Return the problems with which a worker refuses to start."""
    compacted = need.kind.cleanup == "compact"
    facts = TopicFacts(_fewest_replicas(topic), settings, compacted=compacted)
    problems = problems_of(kafka, {}, {topic.name: facts})
    return [failed("topics", topic.name, *split_problem(one, topic.name)) for one in problems]


def split_problem(problem: str, topic: str = "") -> tuple[str, str]:
    """Split a line of `problems_of` into problem and remedy."""
    what, _, remedy = problem.removeprefix(f"topic {topic}: ").rpartition("; ")
    return (what, remedy) if what else (remedy, "")


def _copies(topic: TopicView, settings: Mapping[str, str], need: TopicUse) -> list[Finding]:
    replicas, least = _fewest_replicas(topic), _number(settings.get("min.insync.replicas"))
    found: list[Finding] = []
    if need.writes and least is not None:
        in_sync = min((one.in_sync for one in topic.partitions), default=0)
        if least > replicas:
            return [
                failed(
                    "topics",
                    topic.name,
                    (f"min.insync.replicas is {least} and there are {replicas} replicas: every write fails"),
                    "lower min.insync.replicas, or add replicas",
                )
            ]
        if in_sync < least:
            found.append(
                failed(
                    "topics",
                    topic.name,
                    (
                        f"{in_sync} replicas of a partition are in sync and min.insync.replicas is "
                        f"{least}: writes are refused"
                    ),
                    "check which brokers are down or slow",
                    may_pass=True,
                )
            )
        if least == replicas > 1:
            found.append(
                warning(
                    "topics",
                    topic.name,
                    (
                        f"min.insync.replicas is {least}, the number of replicas: writes fail while one "
                        "broker restarts"
                    ),
                    "lower min.insync.replicas by one, or add a replica",
                )
            )
        if least == 1 < replicas:
            found.append(
                warning(
                    "topics",
                    topic.name,
                    "min.insync.replicas is 1: an acknowledged record may exist on one disk only",
                    "set it to 2",
                )
            )
    if replicas == 1:
        found.append(
            warning(
                "topics",
                topic.name,
                "has 1 replica: a disk failure loses its records",
                "use 3 replicas with min.insync.replicas 2, except in trials",
            )
        )
    return found


def _retention(topic: TopicView, settings: Mapping[str, str], need: TopicUse) -> list[Finding]:
    milliseconds = _number(settings.get("retention.ms"))
    if not need.reads or milliseconds is None or milliseconds < 0:
        return []
    if milliseconds / 1000 >= LEAST_RETENTION_SECONDS:
        return []
    return [
        warning(
            "topics",
            topic.name,
            (
                f"keeps records for {_duration(milliseconds)}: tasks that wait longer, for a judge that is "
                "down, are lost"
            ),
            f"set retention.ms to {round(LEAST_RETENTION_SECONDS * 1000)} or more",
        )
    ]


def _partitions(topic: TopicView, need: TopicUse, workers: int, kafka: KafkaSettings) -> list[Finding]:
    count = len(topic.partitions)
    if not need.reads or (count >= workers and count > 1):
        return []
    idle = (
        f"{workers - count} of {workers} workers get no partition"
        if count < workers
        else "a second worker would get no partition"
    )
    return [
        warning(
            "topics",
            topic.name,
            f"too few partitions ({count}): {idle}",
            (
                f"{topics_tool(kafka)} --alter --topic {topic.name} --partitions {max(workers, 4)} "
                "(see docs/scaling.md for the number)"
            ),
        )
    ]


def _size(topic: TopicView, settings: Mapping[str, str], need: TopicUse, expected: Expected) -> list[Finding]:
    limit = _number(settings.get("max.message.bytes"))
    if not (need.kind.field == "tasks" and need.writes) or limit is None:
        return []
    largest = expected.settings.ingest.max_event_bytes
    if expected.events_bytes is not None:
        largest = min(largest, expected.events_bytes)
    if limit >= largest:
        return []
    return [
        warning(
            "topics",
            topic.name,
            (
                f"accepts records of up to {limit} bytes, but events may have {largest}: larger ones become "
                "dead letters"
            ),
            f"set max.message.bytes to {largest} or more, or ingest.max_event_bytes to {limit} or less",
        )
    ]


def _summary(topic: TopicView, settings: Mapping[str, str]) -> str:
    count, replicas = len(topic.partitions), _fewest_replicas(topic)
    parts = [f"{count} partitions", f"{replicas} replicas"]
    least, keeps, size = (
        _number(settings.get(name)) for name in ("min.insync.replicas", "retention.ms", "max.message.bytes")
    )
    if least is not None:
        parts.append(f"at least {least} of them in sync")
    if keeps is not None:
        parts.append("kept forever" if keeps < 0 else f"kept for {_duration(keeps)}")
    if size is not None:
        parts.append(f"records up to {size} bytes")
    return ", ".join(parts)


def _fewest_replicas(topic: TopicView) -> int:
    return min((one.replicas for one in topic.partitions), default=0)


def _number(text: str | None) -> int | None:
    try:
        return int(text or "")
    except ValueError:
        return None


def _duration(milliseconds: int) -> str:
    seconds = milliseconds / 1000
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.3g} s"


def acl_command(kafka: KafkaSettings, *operations: Operation, topic: str = "", group: str = "") -> str:
    """Return the command that grants rights on a topic, a group or, without either, the cluster."""
    if topic:
        grant = Grant("topic", topic, operations)
    else:
        grant = Grant("group", group, operations) if group else Grant("cluster", CLUSTER, operations)
    to = f"User:{kafka.security.username or '...'}"
    return commands([grant], to, broker=kafka.bootstrap_servers)[0]


def largest_record(shown: Mapping[str, Mapping[str, str]], topic: str) -> int | None:
    """Return the largest record that a topic accepts, if known."""
    return _number(shown.get(topic, {}).get("max.message.bytes"))


def session_problems(kafka: KafkaSettings, broker: Mapping[str, str]) -> Sequence[str]:
    """Return the group's timeouts that the broker would refuse."""
    return problems_of(kafka, broker, {})
