"""Check the broker settings that can lose records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import structlog
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import KafkaError, for_code

from streams.kafka.topics.plan import CLEANUP, WantedTopic
from streams.settings import KafkaSettings

_log = structlog.stdlib.get_logger(__name__)

MIN_MESSAGE_BYTES: Final = 32 * 1024
"""Enough for a result without evidence and for a dead letter without its value."""

_SHORTEST_SESSION = "group.min.session.timeout.ms"
_LONGEST_SESSION = "group.max.session.timeout.ms"
_AUTO_CREATE = "auto.create.topics.enable"
BROKER_NAMES: Final = (_SHORTEST_SESSION, _LONGEST_SESSION, _AUTO_CREATE)
"""Settings requested from the broker."""
_TOPIC_NAMES = ("cleanup.policy", "max.message.bytes", "unclean.leader.election.enable")


@dataclass(frozen=True, slots=True)
class TopicFacts:
    """The checked facts of one topic.

    Args:
        replicas: Replicas of the partition with the fewest.
        settings: Settings that the broker shows; hidden ones are not checked.
        compacted: Whether the topic is meant to be compacted.
    """

    replicas: int
    settings: Mapping[str, str]
    compacted: bool = False


def problems_of(
    kafka: KafkaSettings, broker: Mapping[str, str], topics: Mapping[str, TopicFacts]
) -> list[str]:
    """Return a message for each setting that can lose records, with its limit, value and remedy.

    Args:
        kafka: The worker's settings.
        broker: The broker's settings.
        topics: The topics that are read or written, by name.
    """
    found = _session_problems(kafka, broker)
    for name, topic in topics.items():
        policy = topic.settings.get("cleanup.policy", "")
        if "compact" in policy and not topic.compacted:
            found.append(
                f"topic {name}: cleanup.policy must be delete (got {policy}): compaction removes unread "
                "records that share a key; set it, with a retention longer than any judge outage"
            )
        size = topic.settings.get("max.message.bytes", "")
        if size.isdigit() and int(size) < MIN_MESSAGE_BYTES:
            found.append(
                f"topic {name}: max.message.bytes must be at least {MIN_MESSAGE_BYTES} (got {size}): dead "
                "letters would not fit; raise it"
            )
        if topic.replicas > 1 and topic.settings.get("unclean.leader.election.enable") == "true":
            found.append(
                f"topic {name}: unclean.leader.election.enable must be false (got true): a lagging replica "
                "may become leader and lose confirmed records; set it"
            )
    return found


def auto_create_risk(broker: Mapping[str, str]) -> str | None:
    """Return the risk of automatic topic creation; None if it is off or not shown.

    Args:
        broker: The broker's settings.
    """
    if broker.get(_AUTO_CREATE) != "true":
        return None
    return (
        f"{_AUTO_CREATE} is on: a deleted topic is recreated with the broker's default partitions, replicas "
        "and retention; disable it"
    )


def _session_problems(kafka: KafkaSettings, broker: Mapping[str, str]) -> list[str]:
    ours = round(kafka.session_timeout_seconds * 1000)
    shortest, longest = broker.get(_SHORTEST_SESSION, ""), broker.get(_LONGEST_SESSION, "")
    if shortest.isdigit() and ours < int(shortest):
        return [
            (
                f"kafka.session_timeout_seconds must be at least the broker's {_SHORTEST_SESSION} "
                f"({int(shortest) / 1000:g} s) "
                f"(got {kafka.session_timeout_seconds:g}); raise it, or lower the broker's"
            )
        ]
    if longest.isdigit() and ours > int(longest):
        return [
            (
                f"kafka.session_timeout_seconds must be at most the broker's {_LONGEST_SESSION} "
                f"({int(longest) / 1000:g} s) "
                f"(got {kafka.session_timeout_seconds:g}); lower it, or raise the broker's"
            )
        ]
    return []


async def find_problems(
    admin: AIOKafkaAdminClient, kafka: KafkaSettings, wanted: Sequence[WantedTopic]
) -> list[str]:
    """Read the broker's settings and return the problems among them.

    If the permission to read them is missing, a warning is logged and nothing is checked.

    Args:
        admin: A started client.
        kafka: The worker's settings.
        wanted: The topics that are read or written; they must exist.
    """
    names = [topic.name for topic in wanted]
    compacted = {topic.name for topic in wanted if topic.config[CLEANUP] == "compact"}
    try:
        broker_id = (await admin.describe_cluster())["brokers"][0]["node_id"]
        resources = [ConfigResource(ConfigResourceType.BROKER, str(broker_id), _wanted(BROKER_NAMES))]
        resources += [ConfigResource(ConfigResourceType.TOPIC, name, _wanted(_TOPIC_NAMES)) for name in names]
        answers = await admin.describe_configs(resources)
        replicas = {
            topic["topic"]: min((len(one["replicas"]) for one in topic["partitions"]), default=0)
            for topic in await admin.describe_topics(list(names))
        }
    except KafkaError as error:
        _log.warning("the broker's settings cannot be read, so they are not checked", error=repr(error))
        return []
    if hidden := _hidden(answers):
        _log.warning(
            "some of the broker's settings cannot be read, so their durability is not checked",
            hidden=hidden,
            remedy=("grant DescribeConfigs on these topics and on the cluster (docs/permissions.md)"),
        )
    shown = shown_settings(answers)
    broker = next(
        (settings for (kind, _), settings in shown.items() if kind is ConfigResourceType.BROKER), {}
    )
    if (risk := auto_create_risk(broker)) is not None:
        _log.warning("the broker creates topics automatically", risk=risk)
    topics = {
        name: TopicFacts(replicas.get(name, 0), settings, compacted=name in compacted)
        for (kind, name), settings in shown.items()
        if kind is ConfigResourceType.TOPIC
    }
    return problems_of(kafka, broker, topics)


def _wanted(names: Sequence[str]) -> dict[str, None]:
    return dict.fromkeys(names)


def _hidden(answers: Sequence[Any]) -> list[str]:
    """Return the resources whose settings are hidden, each with the error."""
    return [
        f"{'the broker' if ConfigResourceType(kind) is ConfigResourceType.BROKER else name} "
        f"({for_code(code).__name__})"
        for answer in answers
        for code, _, kind, name, _ in answer.resources
        if code
    ]


def shown_settings(answers: Sequence[Any]) -> dict[tuple[ConfigResourceType, str], dict[str, str]]:
    """Return the settings that the broker shows, by kind and name of the resource."""
    return {
        # A sensitive setting has no value.
        (ConfigResourceType(kind), name): {entry[0]: entry[1] or "" for entry in entries}
        for answer in answers
        for code, _, kind, name, entries in answer.resources
        if not code
    }
