"""Creates an installation's topics, and reports the existing ones."""

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
    """What happened to one topic.

    Args:
        wanted: How it is created.
        created: Whether it was missing, and is created now (or would be).
        differences: Where it is there and differs from what is wanted; nothing of that is changed.
    """

    wanted: WantedTopic
    created: bool
    differences: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class TopicsReport:
    """What happened to all of them.

    Args:
        topics: Each topic.
        problems: Settings of broker and topics with which records would be lost, each with its remedy.
    """

    topics: Sequence[TopicOutcome]
    problems: Sequence[str]


async def make_topics(
    settings: Settings, *, dry_run: bool = False, connect_seconds: float = CONNECT_SECONDS
) -> TopicsReport:
    """Create the topics that are missing.

    What is there is looked at and left as it is, so that a second time does nothing.

    Args:
        settings: The settings; `topics` says which and how.
        dry_run: Change nothing, and say what would be done.
        connect_seconds: How long to try to reach a broker that may be starting, too.

    Raises:
        KafkaAccessError: The broker keeps us out, or we may not create a topic.
        TopicsError: The broker does not answer or refuses a topic.
        SettingsError: A secret or certificate is not where the settings say.
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
