from __future__ import annotations

from typing import Any

from generate.message_schemas import MESSAGES
from streams.kafka.topics.grants import Grant
from streams.kafka.topics.table import (
    AGENTS,
    OTLP_LOGS,
    TOPICS,
    AgentName,
    WantedTopic,
    group_of,
    message_of,
    plan_topics,
    topic_uses,
)
from streams.settings.broker import KafkaSettings, SecuritySettings, TopicSettings
from streams.settings.tree import Settings


def _plan(**topics: Any) -> dict[str, WantedTopic]:
    settings = Settings.model_validate({"topics": topics})
    return {topic.name: topic for topic in plan_topics(settings)}


def _optional(agent: AgentName, **sections: Any) -> dict[str, tuple[str, ...]]:
    settings = Settings.model_validate(sections)
    wanted = ("qa.budget", "qa.batch-tasks", "qa.batches")
    return {use.name: use.operations for use in topic_uses(settings, (agent,)) if use.name in wanted}


def test_some_topics_are_needed_with_their_settings_only() -> None:
    """Intake reads the spending, to lower rates; all workers of a sampling budget tell each other."""
    spent: Any = {"caps": [{"by": "tenant", "calls_per_day": 9}]}
    both = ("Read", "Write")
    assert _optional("intake", judge={"budget": spent}) == {"qa.budget": ("Read",)}
    assert _optional("judge", judge={"budget": spent}) == {"qa.budget": both}
    for agent in AGENTS:
        assert _optional(agent) == {}
        assert _optional(agent, sampling={"budget": {"verdicts_per_day": 9}}) == {"qa.budget": both}
    endpoint: Any = {"name": "a", "model": "m"}
    assert _optional("judge", judge={"endpoints": [endpoint | {"lane": {"tier": "flex"}}]}) == {}
    batches = _optional("judge", judge={"endpoints": [endpoint | {"lane": {"batch": {}}}]})
    assert batches == {"qa.batch-tasks": both, "qa.batches": both}
    compacted = plan_topics(Settings.model_validate({"judge": {"budget": spent}}))
    assert {topic.name: topic.config for topic in compacted}["qa.budget"] == {"cleanup.policy": "compact"}


def test_what_the_settings_say_counts() -> None:
    created = {"create_partitions": 24, "create_replication_factor": 3}
    plan = _plan(events="answers", prefix="t-", **created)
    config = {"cleanup.policy": "delete", "retention.ms": "604800000", "min.insync.replicas": "2"}
    assert plan["t-judge.tasks.coverage"] == WantedTopic("t-judge.tasks.coverage", 24, 3, config)
    assert not [name for name in plan if "evaluations" in name]  # written by a sink only
    # Below three replicas a restarting broker would stop every write.
    assert "min.insync.replicas" not in _plan(create_replication_factor=2)["qa.scores"].config


def test_the_topics_of_some_agents_are_planned_alone() -> None:
    names = [topic.name for topic in plan_topics(Settings(), ["monitor"])]
    assert names == [
        *("judge.tasks.coverage", "judge.tasks.relevance", "qa.dead-letters", "qa.scores", "qa.alerts"),
        *("qa.observations", "qa.anchors", "qa.monitor-state"),
    ]


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


def test_each_row_has_a_setting_a_retention_and_a_schema() -> None:
    topics = TopicSettings()
    for kind in TOPICS:
        assert kind.names(topics, ["coverage"])[0]
        assert kind.cleanup == "compact" or kind.keep_hours >= 1
        assert kind.message is None or kind.message in {*MESSAGES, OTLP_LOGS}


def test_what_a_topic_holds_follows_from_its_name() -> None:
    topics = TopicSettings.model_validate({"scores": "verdicts", "prefix": "own."})
    assert message_of(topics, "verdicts") == "result"
    assert message_of(topics, "own.judge.tasks.tone") == "judge_task"
    assert message_of(topics, "qa.scores") is None


def test_agents_apart_have_a_group_of_their_own() -> None:
    assert group_of("g", AGENTS) == "g"
    assert group_of("g", ("judge", "intake")) == "g.intake.judge"


def test_names_are_quoted_for_the_shell() -> None:
    line = Grant("group", "a b", ("Read",)).command("User:CN=x, O=y")
    assert line.endswith("--allow-principal 'User:CN=x, O=y' --operation Read --group 'a b'")
