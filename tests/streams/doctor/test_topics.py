from __future__ import annotations

from typing import Any

import pytest

from streams.doctor.broker_checks import Expected, check_sessions, check_topic, largest_record
from streams.doctor.probe import Partition, TopicView
from streams.kafka.topics.table import TOPICS, TopicUse
from streams.settings.broker import KafkaSettings
from streams.settings.tree import Settings

_EVENTS, _TASKS, _, _SCORES = TOPICS[:4]
READ = TopicUse("qa.scores", _SCORES, reads=True, writes=False)
TASKS = TopicUse("judge.tasks.coverage", _TASKS, reads=True, writes=True)
WRITTEN = TopicUse("qa.scores", _SCORES, reads=False, writes=True)
SOUND = {
    "cleanup.policy": "delete",
    "max.message.bytes": "4194304",
    "min.insync.replicas": "2",
    "retention.ms": "604800000",
    "unclean.leader.election.enable": "false",
}


def topic(
    partitions: int = 4, replicas: int = 3, in_sync: int | None = None, leader: int = 1, error: int = 0
) -> TopicView:
    one = Partition(leader, replicas, replicas if in_sync is None else in_sync)
    return TopicView("t", error, (one,) * partitions)


def judged(
    view: TopicView,
    need: TopicUse = TASKS,
    *,
    workers: int = 1,
    events_bytes: int | None = None,
    **shown: str,
) -> list[tuple[str, str, bool]]:
    settings = SOUND | {name.replace("_", "."): value for name, value in shown.items()}
    found = check_topic(view, settings, need, Expected(Settings(), workers, events_bytes))
    assert {one.check for one in found} == {"topics"}
    assert {one.subject for one in found} == {"t"}
    assert all(one.remedy for one in found if one.outcome != "ok")
    return [(one.outcome, one.detail, one.may_pass) for one in found]


def test_a_sound_topic_is_one_line() -> None:
    said = "4 partitions, 3 replicas, at least 2 of them in sync, kept for 7 d, records up to 4194304 bytes"
    assert judged(topic()) == [("ok", said, False)]
    # Settings that the broker does not show are neither reported nor a problem.
    assert check_topic(topic(), None, TASKS, Expected(Settings(), 1))[0].detail == "4 partitions, 3 replicas"
    assert "kept forever" in judged(topic(), retention_ms="-1")[0][1]


@pytest.mark.parametrize(
    ("view", "need", "more", "outcome", "words", "may_pass"),
    [
        (topic(leader=-1), TASKS, {}, "failed", "4 of 4 partitions have no leader", True),
        (topic(), TASKS, {"cleanup_policy": "compact"}, "failed", "cleanup.policy must be delete", False),
        (topic(), WRITTEN, {"max_message_bytes": "1000"}, "failed", "at least 32768 (got 1000)", False),
        (topic(), WRITTEN, {"unclean_leader_election_enable": "true"}, "failed", "must be false", False),
        (topic(replicas=2), WRITTEN, {"min_insync_replicas": "3"}, "failed", "every write fails", False),
        (topic(in_sync=1), WRITTEN, {}, "failed", "1 replicas of a partition are in sync", True),
        (topic(replicas=2), WRITTEN, {}, "warning", "writes fail while one broker restarts", False),
        (topic(), WRITTEN, {"min_insync_replicas": "1"}, "warning", "on one disk only", False),
        (topic(replicas=1), READ, {}, "warning", "has 1 replica", False),
        (topic(), READ, {"retention_ms": "3600000"}, "warning", "keeps records for 1 h", False),
        (topic(partitions=1), READ, {}, "warning", "too few partitions (1): a second worker", False),
        (topic(), READ, {"workers": 6}, "warning", "too few partitions (4): 2 of 6 workers", False),
        (topic(), TASKS, {"max_message_bytes": "1048588"}, "warning", "accepts records of up to 1048588",
            False),
    ],
)  # fmt: skip
def test_each_fault_is_named(
    view: TopicView, need: TopicUse, more: dict[str, Any], outcome: str, words: str, may_pass: bool
) -> None:
    ((found, detail, passes),) = judged(view, need, **more)
    assert (found, passes) == (outcome, may_pass)
    assert words in detail


def test_irrelevant_settings_are_not_checked() -> None:
    assert judged(topic(partitions=1), WRITTEN, retention_ms="1000", workers=9)[0][0] == "ok"
    assert judged(topic(in_sync=1), READ)[0][0] == "ok"
    # Nobody can add a replica to a cluster of one broker.
    (found,) = check_topic(topic(replicas=1), {}, WRITTEN, Expected(Settings(), 1, is_trial=True))
    assert found.outcome == "ok"
    # Tasks need no larger records than the topic of events accepts.
    accepted = largest_record({"e": {"max.message.bytes": "1048588"}}, "e")
    assert judged(topic(), TASKS, max_message_bytes="1048588", events_bytes=accepted)[0][0] == "ok"


def test_topics_that_cannot_be_used() -> None:
    missing = TopicView("qa.events", 3)
    (found,) = check_topic(missing, None, READ, Expected(Settings(), 1))
    assert (found.outcome, found.detail, found.may_pass) == ("failed", "does not exist", True)
    assert "--create --topic qa.events --partitions 4" in found.remedy
    settings = Settings.model_validate({"topics": {"create": True}})
    (found,) = check_topic(missing, None, READ, Expected(settings, 1))
    assert (found.outcome, found.detail) == ("ok", "does not exist; a worker creates it with 4 partitions")
    (found,) = check_topic(TopicView("t", 29), None, READ, Expected(Settings(), 1))
    assert "may not describe it" in found.detail
    assert found.remedy.endswith("--operation Read --topic t")
    (found,) = check_topic(TopicView("t", 5), None, READ, Expected(Settings(), 1))
    assert (found.detail, found.may_pass) == ("cannot be used: LeaderNotAvailableError", True)


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        ({}, None),
        ({"min": "30000", "max": "30000"}, None),
        ({"min": "45000"}, "at least the broker's group.min.session.timeout.ms (45000 ms), got 30 s"),
        ({"max": "20000"}, "at most the broker's group.max.session.timeout.ms (20000 ms), got 30 s"),
    ],
)
def test_a_session_timeout_that_the_broker_refuses_is_a_failure(
    limits: dict[str, str], words: str | None
) -> None:
    shown = {f"group.{name}.session.timeout.ms": value for name, value in limits.items()}
    found = check_sessions(KafkaSettings(session_timeout_seconds=30), shown)
    assert [one.outcome for one in found] == ([] if words is None else ["failed"])
    assert words is None or words in found[0].detail
