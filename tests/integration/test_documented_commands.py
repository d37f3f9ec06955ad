"""The documented commands of Kafka's own tools work against Apache Kafka."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.structs import OffsetAndMetadata

from streams.errors import KafkaAccessError
from streams.kafka.topics.admin import ensure_topics
from streams.kafka.topics.grants import worker_grants
from streams.kafka.topics.table import AGENTS, AgentName, group_of, plan_topics
from streams.settings.tree import Settings
from tests.integration.admin import committed_offsets
from tests.integration.kafka import write_tools
from tests.integration.secure_kafka import ADMIN, PASSWORD, SecureKafka
from tests.integration.ways_in import ENVIRONMENT, scram
from tests.places import blocks
from tests.toolbox import run

# Each of two dozen commands starts a Java virtual machine.
pytestmark = [pytest.mark.kafka, pytest.mark.timeout(400)]

BROKER = "kafka:9092"
"""The broker address in the pages."""


def typed(commands: str, folder: Path) -> str:
    tools = folder / "tools"
    if not tools.exists():
        tools.mkdir()
        write_tools(tools)
    path = f"{tools}{os.pathsep}{os.environ['PATH']}"
    return run("bash", "-e", "-o", "pipefail", "-c", f'cd "{folder}"; PATH="{path}"\n{commands}')


@pytest.fixture(scope="module")
def settings(kafka: SecureKafka) -> Settings:
    section = {"bootstrap_servers": kafka.at("SCRAM"), "security": scram(kafka)}
    topics = {"create_partitions": 2, "create_replication_factor": 1}
    return Settings.model_validate({"kafka": section, "topics": topics})


@pytest.fixture(scope="module")
def folder(kafka: SecureKafka, settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("typed")
    (made / "admin.properties").write_text(
        "security.protocol=SASL_SSL\nsasl.mechanism=SCRAM-SHA-512\n"
        "sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required "
        f'username="{ADMIN}" password="{PASSWORD}";\n'
        f"ssl.truststore.type=PEM\nssl.truststore.location={kafka.authority.file}\n"
    )
    typed("\n".join(topic.command(settings.kafka) for topic in plan_topics(settings, AGENTS)), made)
    return made


async def test_a_worker_needs_the_documented_topics_and_permissions(
    kafka: SecureKafka, settings: Settings, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    grants = worker_grants(settings, settings.kafka.group_id, AGENTS)
    with pytest.raises(KafkaAccessError):
        await ensure_topics(settings.kafka, plan_topics(settings, AGENTS), create=False, grants=grants)
    (commands,) = blocks("docs/permissions.md", "bash", after="## One worker with all parts")
    typed(commands.replace(BROKER, kafka.at("SCRAM")), folder)
    await ensure_topics(settings.kafka, plan_topics(settings, AGENTS), create=False, grants=grants)


async def test_offsets_are_handed_over_and_back(kafka: SecureKafka, settings: Settings, folder: Path) -> None:
    """The commands of docs/upgrading.md move the offsets from one worker to its agents and back."""
    access = kafka.client_options()
    topics = ["qa.events", *(settings.topics.task_topic(metric) for metric in settings.metrics), "qa.scores"]
    places = [TopicPartition(topic, number) for topic in topics for number in range(2)]
    # No offset is committed on the second partition of qa.events, as if it was just added.
    before = [None if number == 1 else number for number in range(len(places))]
    async with AIOKafkaProducer(**access) as producer:
        for place in places:
            for _ in places:  # an offset must not exceed the end
                await producer.send_and_wait(place.topic, b"x", partition=place.partition)
    async with AIOKafkaConsumer(**access, group_id="judgestream", enable_auto_commit=False) as consumer:
        consumer.assign(places)
        known = {place: at for place, at in zip(places, before, strict=True) if at is not None}
        await consumer.commit({place: OffsetAndMetadata(at, "") for place, at in known.items()})

    there, back = (block for block in blocks("docs/upgrading.md", "bash") if "--reset-offsets" in block)
    guarded = f"{kafka.at('SCRAM')} --command-config admin.properties"
    typed(there.replace(BROKER, guarded), folder)
    prefixes: dict[AgentName, str] = {"intake": "qa.events", "judge": "judge.tasks.", "monitor": "qa.scores"}
    for part, prefix in prefixes.items():
        pairs = zip(places, before, strict=True)
        expected = [at if place.topic.startswith(prefix) else None for place, at in pairs]
        assert await committed_offsets(group_of("judgestream", [part]), places, **access) == expected
    typed(
        back.replace(BROKER, guarded).replace("--group judgestream --reset", "--group again --reset"), folder
    )
    assert await committed_offsets("again", places, **access) == before
