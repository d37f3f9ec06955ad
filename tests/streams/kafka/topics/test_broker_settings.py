"""Broker settings that a worker refuses."""

from __future__ import annotations

import re

import pytest

from streams.kafka.topics.broker_settings import TopicFacts, auto_create_risk, problems_of
from streams.settings import KafkaSettings

KAFKA = KafkaSettings(session_timeout_seconds=30)
SOUND = TopicFacts(
    replicas=3,
    settings={
        "cleanup.policy": "delete",
        "max.message.bytes": "1048588",
        "unclean.leader.election.enable": "false",
    },
)


@pytest.mark.parametrize(
    "broker",
    [
        {},
        {"group.min.session.timeout.ms": "6000", "group.max.session.timeout.ms": "1800000"},
        {"group.min.session.timeout.ms": "30000", "group.max.session.timeout.ms": "30000"},
        {"group.min.session.timeout.ms": ""},
    ],
    ids=["nothing shown", "Kafka's defaults", "just within", "kept secret"],
)
def test_sound_settings_pass(broker: dict[str, str]) -> None:
    """Valid settings pass, and settings that the broker does not show are no problem."""
    assert problems_of(KAFKA, broker, {"qa.scores": SOUND, "unknown": TopicFacts(0, {})}) == []


@pytest.mark.parametrize(
    ("broker", "said"),
    [
        ({"group.min.session.timeout.ms": "45000"}, r"at least .*group\.min\.session.* \(45 s\) \(got 30\)"),
        ({"group.max.session.timeout.ms": "20000"}, r"at most .*group\.max\.session.* \(20 s\) \(got 30\)"),
    ],
)
def test_a_session_that_the_broker_refuses(broker: dict[str, str], said: str) -> None:
    """A session timeout out of the broker's range names setting, limit, value and remedy."""
    (problem,) = problems_of(KAFKA, broker, {})
    assert problem.startswith("kafka.session_timeout_seconds must be")
    assert re.search(said, problem)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("cleanup.policy", "compact"),
        ("cleanup.policy", "compact,delete"),
        ("max.message.bytes", "32767"),
        ("unclean.leader.election.enable", "true"),
    ],
)
def test_a_topic_that_loses_records(name: str, value: str) -> None:
    """A topic setting that loses records is named with its value."""
    topics = {"sound": SOUND, "bad": TopicFacts(3, {**SOUND.settings, name: value})}
    (problem,) = problems_of(KAFKA, {}, topics)
    assert problem.startswith(f"topic bad: {name} must be")
    assert f"(got {value})" in problem


def test_a_single_replica_has_no_unclean_leader() -> None:
    """With one replica unclean.leader.election.enable has no effect and is not a problem."""
    alone = TopicFacts(1, {"unclean.leader.election.enable": "true"})
    assert problems_of(KAFKA, {}, {"alone": alone}) == []


@pytest.mark.parametrize(("shown", "told"), [("true", True), ("false", False), ("", False)])
def test_a_broker_that_creates_topics_by_itself_is_a_risk(shown: str, told: bool) -> None:
    """Automatic topic creation is reported as a risk, and is no problem."""
    broker = {"auto.create.topics.enable": shown}
    assert (auto_create_risk(broker) is not None) == told
    assert problems_of(KAFKA, broker, {}) == []
