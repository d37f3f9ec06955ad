from __future__ import annotations

from generate.message_schemas import MESSAGES
from streams.kafka.topics.table import AGENTS, OTLP_LOGS, TOPICS, group_of, message_of, topic_uses
from streams.settings import Settings, TopicSettings

SETTINGS = Settings.model_validate({"metrics": {"coverage": {}}})


def test_what_agents_do_with_topics() -> None:
    """Operations on topics follow from the agents in the process."""
    everything = topic_uses(SETTINGS.topics, SETTINGS.metrics)
    assert {use.name: use.operations for use in everything} == {
        "qa.events": ("Read",),
        "judge.tasks.coverage": ("Read", "Write"),
        "qa.dead-letters": ("Write",),
        "qa.scores": ("Read", "Write"),
        "qa.alerts": ("Write",),
        "qa.observations": ("Read", "Write"),
        "qa.monitor-state": ("Read", "Write"),
    }
    judge = topic_uses(SETTINGS.topics, SETTINGS.metrics, ("judge",))
    assert {use.name: use.operations for use in judge} == {
        "judge.tasks.coverage": ("Read",),
        "qa.scores": ("Write",),
        "qa.dead-letters": ("Write",),
    }


def test_each_row_has_a_setting_a_retention_and_a_schema() -> None:
    """Each topic has a configured name, a retention unless compacted, and a known schema or none."""
    topics = TopicSettings()
    for kind in TOPICS:
        assert kind.names(topics, ["coverage"])[0]
        assert kind.cleanup == "compact" or kind.keep_hours >= 1
        assert kind.message is None or kind.message in {*MESSAGES, OTLP_LOGS}


def test_what_a_topic_holds_follows_from_its_name() -> None:
    """A topic's message type follows from its configured name; other topics have none."""
    topics = TopicSettings.model_validate({"scores": "verdicts", "tasks_prefix": "todo."})
    assert message_of(topics, "verdicts") == "result"
    assert message_of(topics, "todo.tone") == "judge_task"
    assert message_of(topics, "qa.scores") is None


def test_agents_apart_have_a_group_of_their_own() -> None:
    """Separate agents have a group name of their own, in any order of the names."""
    assert group_of("g", AGENTS) == "g"
    assert group_of("g", ("judge", "intake")) == "g.intake.judge"
