"""`judgestream topics` on each of the two brokers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

from streams.errors import StreamsError
from streams.kafka.topics.admin import make_topics
from streams.settings.tree import Settings
from tests.integration.admin import kafka_admin
from tests.integration.conftest import RunningBroker
from tests.integration.stage import Stage
from tests.streams.cli.processes import call


async def _look(broker: RunningBroker, name: str) -> tuple[int, Mapping[str, str]]:
    async with kafka_admin(broker.bootstrap_servers) as admin:
        (described,) = await admin.describe_topics([name])
        (answer,) = await admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, name)])
    config = {entry[0]: entry[1] for entry in answer.resources[0][4]}
    return len(described["partitions"]), config


async def test_missing_topics_are_made_once_and_as_planned_and_others_not_changed(
    broker: RunningBroker, tmp_path: Path
) -> None:
    settings = Stage(broker.bootstrap_servers, tmp_path, partitions=3).settings
    broker.create_topic(settings.topics.scores, 1, retention_ms="3600000", cleanup_policy="delete")
    for dry_run in (True, True, False):
        wanted, missing = await make_topics(settings, dry_run=dry_run)
        assert missing == [one for one in wanted if one.name != settings.topics.scores]
    partitions, config = await _look(broker, settings.topics.task_topic("tone"))
    assert partitions == 3
    assert config["retention.ms"] == "604800000"  # a week
    assert config["cleanup.policy"] == "delete"
    partitions, config = await _look(broker, settings.topics.scores)
    assert (partitions, config["retention.ms"]) == (1, "3600000")
    assert await make_topics(settings) == (wanted, [])


async def test_a_broker_that_is_not_there_is_named() -> None:
    settings = Settings.model_validate({"kafka": {"bootstrap_servers": "127.0.0.1:1"}})
    with pytest.raises(StreamsError, match=r"127\.0\.0\.1:1"):
        await make_topics(settings, connect_seconds=0.1)


@pytest.mark.usefixtures("no_settings")
def test_the_command_prints_a_line_per_topic(
    broker: RunningBroker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stage = Stage(broker.bootstrap_servers, tmp_path, partitions=3)
    command = ("topics", "--config", str(stage.write_settings()))
    assert call(*command, "--dry-run") == 0
    kept = "cleanup.policy=delete, retention.ms=2592000000"
    assert f"would create {stage.topic('scores')}: 3 partitions, 1 copies, {kept}" in capsys.readouterr().out
    assert call(*command, "--json") == 0
    said = json.loads(capsys.readouterr().out)
    assert all(one["created"] for one in said["topics"])
    assert call(*command) == 0
    assert capsys.readouterr().out.splitlines()[0] == f"ok {stage.topic('events')}"
