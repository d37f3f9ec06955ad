"""Findings that say the same share a line; a cluster of one broker is for trials."""

from __future__ import annotations

from streams.doctor.broker_checks import Expected, check_topic
from streams.doctor.findings import Diagnosis, ok, warning
from streams.doctor.probe import Partition, TopicView
from streams.kafka.topics.table import topic_uses
from streams.settings import Settings


def test_equal_findings_share_a_line() -> None:
    """People read one line for five topics, with four names and a count; JSON has each finding."""
    topics = [ok("topics", f"t{number}", "fine") for number in range(5)]
    diagnosis = Diagnosis(
        (*topics, warning("topics", "t9", "small", "set t9 higher"), ok("clock", "", "right"))
    )
    assert diagnosis.lines() == [
        ("ok", "topics t0, t1, t2, t3 and 1 more: fine", ""),
        ("warning", "topics t9: small", "set t9 higher"),
        ("ok", "clock: right", ""),
    ]
    assert len(diagnosis.as_json()["findings"]) == 7


def test_a_remedy_that_names_its_subject_is_shown_once() -> None:
    """Remedies that differ in the subject alone are one, and say that the others need theirs."""
    found = [warning("topics", name, "small", f"alter {name}") for name in ("qa.x", "qa.y")]
    assert Diagnosis(tuple(found)).lines() == [
        ("warning", "topics qa.x, qa.y: small", "alter qa.x (likewise for the others)")
    ]


def test_one_replica_is_no_warning_where_there_is_one_broker() -> None:
    """Nobody can add a replica to a cluster of one broker."""
    need = next(use for use in topic_uses(Settings().topics, Settings().metrics) if use.name == "qa.events")
    topic = TopicView("qa.events", 0, (Partition(leader=0, replicas=1, in_sync=1),) * 4)
    for is_trial, outcomes in ((True, ["ok"]), (False, ["warning"])):
        found = check_topic(topic, {}, need, Expected(Settings(), 1, is_trial=is_trial))
        assert [one.outcome for one in found] == outcomes
