"""Create missing topics, and compare existing ones with the settings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

from streams.kafka.topics.admin import CONNECT_SECONDS, admin_client, create_topics, missing_topics
from streams.kafka.topics.broker_settings import find_problems, shown_settings
from streams.kafka.topics.plan import CONFIG_NAMES, FoundTopic, WantedTopic, differences, plan_topics
from streams.settings import Settings


@dataclass(frozen=True, slots=True)
class TopicOutcome:
    """The result for one topic.

    Args:
        wanted: The topic as configured.
        created: Whether it was missing and is created (or would be, in a dry run).
        differences: Differences of an existing topic from the settings; they are not changed.
    """

    wanted: WantedTopic
    created: bool
    differences: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class TopicsReport:
    """The results for all topics.

    Args:
        topics: The result for each topic.
        problems: Settings of broker and topics that can lose records, each with its remedy.
    """

    topics: Sequence[TopicOutcome]
    problems: Sequence[str]


async def make_topics(
    settings: Settings, *, dry_run: bool = False, connect_seconds: float = CONNECT_SECONDS
) -> TopicsReport:
    """Create the topics that are missing; existing ones are only checked.

    Args:
        settings: The settings; `topics` defines the topics.
        dry_run: Create nothing; return what would be created.
        connect_seconds: Connection timeout; retried meanwhile, as the broker may be starting.

    Raises:
        KafkaAccessError: The broker denies access, or permission to create a topic.
        TopicsError: The broker does not answer, or rejects a topic.
        SettingsError: A secret or certificate is missing.
    """
    wanted = plan_topics(settings)
    async with admin_client(settings.kafka, connect_seconds) as admin:
        missing = await missing_topics(admin, wanted)
        there = [topic for topic in wanted if topic not in missing]
        found = {topic.name: topic for topic in await _look_at(admin, [topic.name for topic in there])}
        if missing and not dry_run:
            await create_topics(admin, settings.kafka, missing)
        problems = await find_problems(admin, settings.kafka, there if dry_run else wanted)
    return TopicsReport(
        [
            TopicOutcome(topic, created=True)
            if topic in missing
            else TopicOutcome(topic, created=False, differences=differences(topic, found[topic.name]))
            for topic in wanted
        ],
        problems,
    )


async def _look_at(admin: AIOKafkaAdminClient, names: Sequence[str]) -> list[FoundTopic]:
    if not names:
        return []
    asked = dict.fromkeys(CONFIG_NAMES)
    answers = await admin.describe_configs(
        [ConfigResource(ConfigResourceType.TOPIC, name, asked) for name in names]
    )
    shown = shown_settings(answers)
    return [
        FoundTopic(
            topic["topic"],
            len(topic["partitions"]),
            min((len(one["replicas"]) for one in topic["partitions"]), default=0),
            shown.get((ConfigResourceType.TOPIC, topic["topic"]), {}),
        )
        for topic in await admin.describe_topics(list(names))
    ]
