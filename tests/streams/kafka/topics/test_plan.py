from __future__ import annotations

from typing import Any

import pytest

from streams.kafka.topics.table import FoundTopic, WantedTopic, differences, plan_topics
from streams.settings import KafkaSettings, SecuritySettings, Settings


def _plan(**topics: Any) -> dict[str, WantedTopic]:
    settings = Settings.model_validate({"topics": topics})
    return {topic.name: topic for topic in plan_topics(settings)}


def test_every_topic_is_kept_as_long_as_it_may_be_waited_for() -> None:
    """Retention is the settings' hours in milliseconds.

    168 h are 604,800,000 ms, 720 h are 2,592,000,000 ms, 87,600 h are 315,360,000,000 ms.
    """
    assert {name: topic.config.get("retention.ms") for name, topic in _plan().items()} == {
        "qa.events": "604800000",
        "judge.tasks.coverage": "604800000",
        "judge.tasks.relevance": "604800000",
        "qa.dead-letters": "2592000000",
        "qa.scores": "2592000000",
        "qa.alerts": "7776000000",
        "qa.labels": "315360000000",
        "qa.observations": "604800000",
        "qa.monitor-state": None,
    }


def test_what_the_settings_say_counts() -> None:
    created = {"create_partitions": 24, "create_replication_factor": 3}
    plan = _plan(events="answers", tasks_prefix="t-", **created)
    config = {"cleanup.policy": "delete", "retention.ms": "604800000", "min.insync.replicas": "2"}
    assert plan["t-coverage"] == WantedTopic("t-coverage", 24, 3, config)
    assert plan["answers"].config["retention.ms"] == "604800000"


@pytest.mark.parametrize("copies", [1, 2])
def test_few_copies_demand_no_second_one_in_sync(copies: int) -> None:
    """Below three replicas min.insync.replicas is not set, so that a restarting broker stops no writes."""
    assert "min.insync.replicas" not in _plan(create_replication_factor=copies)["qa.scores"].config


def test_no_topic_but_the_monitors_state_is_compacted() -> None:
    """Only the monitor's state is compacted, because results of several metrics share a key."""
    compacted = {name for name, topic in _plan().items() if topic.config["cleanup.policy"] == "compact"}
    assert compacted == {"qa.monitor-state"}


def test_the_topics_of_some_agents_are_planned_alone() -> None:
    names = [topic.name for topic in plan_topics(Settings(), ["monitor"])]
    assert names == ["qa.scores", "qa.alerts", "qa.observations", "qa.monitor-state"]


def test_the_command_creates_the_same() -> None:
    wanted = WantedTopic("qa.scores", 8, 3, {"cleanup.policy": "delete", "retention.ms": "1000"})
    kafka = KafkaSettings(bootstrap_servers="a:9092,b:9092")
    rest = (
        "--create --topic qa.scores --partitions 8 --replication-factor 3 --config cleanup.policy=delete "
        "--config retention.ms=1000"
    )
    assert wanted.command(kafka) == f"kafka-topics.sh --bootstrap-server a:9092,b:9092 {rest}"
    guarded = kafka.model_copy(update={"security": SecuritySettings(protocol="SSL")})
    assert wanted.command(guarded) == (
        f"kafka-topics.sh --bootstrap-server a:9092,b:9092 --command-config admin.properties {rest}"
    )


def test_differences_exclude_hidden_settings() -> None:
    wanted = WantedTopic("t", 8, 3, {"cleanup.policy": "delete", "retention.ms": "1000"})
    assert (
        differences(wanted, FoundTopic("t", 8, 3, {"cleanup.policy": "delete", "retention.ms": "1000"})) == []
    )
    assert differences(wanted, FoundTopic("t", 8, 3, {"retention.ms": ""})) == []
    assert differences(wanted, FoundTopic("t", 4, 1, {"cleanup.policy": "delete", "retention.ms": "9"})) == [
        "partitions 4, not 8",
        "copies 1, not 3",
        "retention.ms 9, not 1000",
    ]
