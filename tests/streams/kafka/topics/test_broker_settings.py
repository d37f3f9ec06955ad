"""Which settings of the broker a worker refuses to work with."""

from __future__ import annotations

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
    """What the broker does not show is not reported as a problem."""
    assert problems_of(KAFKA, broker, {"qa.scores": SOUND, "unknown": TopicFacts(0, {})}) == []


@pytest.mark.parametrize(
    ("broker", "said"),
    [
        ({"group.min.session.timeout.ms": "45000"}, r"at least .*group\.min\.session.* \(45 s\) \(got 30\)"),
        ({"group.max.session.timeout.ms": "20000"}, r"at most .*group\.max\.session.* \(20 s\) \(got 30\)"),
    ],
)
def test_a_session_that_the_broker_refuses(broker: dict[str, str], said: str) -> None:
    """Setting, limit, value and remedy are named."""
    (problem,) = problems_of(KAFKA, broker, {})
    assert problem.startswith("kafka.session_timeout_seconds must be")
    with pytest.raises(ValueError, match=said):
        raise ValueError(problem)


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
    """Topic, setting and value are named; the sound topic beside it is not."""
    topics = {"sound": SOUND, "bad": TopicFacts(3, {**SOUND.settings, name: value})}
    (problem,) = problems_of(KAFKA, {}, topics)
    assert problem.startswith(f"topic bad: {name} must be")
    assert f"(got {value})" in problem


def test_a_single_replica_has_no_unclean_leader() -> None:
    """With one copy there is nobody to elect, so the setting means nothing."""
    alone = TopicFacts(1, {"unclean.leader.election.enable": "true"})
    assert problems_of(KAFKA, {}, {"alone": alone}) == []


@pytest.mark.parametrize(("shown", "told"), [("true", True), ("false", False), ("", False)])
def test_a_broker_that_creates_topics_by_itself_is_a_risk(shown: str, told: bool) -> None:
    """A deleted topic would come back with the broker's defaults; it is said, and refused nothing."""
    broker = {"auto.create.topics.enable": shown}
    assert (auto_create_risk(broker) is not None) == told
    assert problems_of(KAFKA, broker, {}) == []
