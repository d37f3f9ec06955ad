from __future__ import annotations

from io import BytesIO
from typing import Any

import pytest
from aiokafka.protocol.types import Int32, String

from streams.doctor.access import check_group, check_hidden, check_producer, check_topic_rights
from streams.doctor.facts import GroupView, TopicView
from streams.kafka.topics.flow import TOPICS, TopicUse
from streams.kafka.topics.requests import GroupWithRights, TopicsWithRights
from streams.kafka.topics.rights import Right, rights_of
from streams.settings import KafkaSettings

KAFKA = KafkaSettings()
NEEDS = {
    "in": TopicUse("in", TOPICS[0], reads=True, writes=False),
    "both": TopicUse("both", TOPICS[1], reads=True, writes=True),
    "out": TopicUse("out", TOPICS[2], reads=False, writes=True),
}
READ, WRITE = Right.READ, Right.WRITE


def test_rights_are_bits() -> None:
    """Bit n stands for operation n (KIP-430); the smallest integer means that none were reported."""
    # 8 = 2^3 is Read, 16 = 2^4 Write, 256 = 2^8 Describe, 2 = 2^1 Any, which is ignored.
    assert rights_of(8 + 16 + 256 + 2) == frozenset({READ, WRITE, Right.DESCRIBE})
    assert rights_of(0) == frozenset()
    assert rights_of(-(2**31)) is None


def test_what_is_missing_is_named_with_its_command() -> None:
    views = [
        TopicView("in", 0, rights=frozenset({WRITE})),
        TopicView("both", 0, rights=frozenset({READ})),
        TopicView("out", 0, rights=frozenset({READ, WRITE})),
    ]
    found = check_topic_rights(views, NEEDS, KAFKA)
    assert [(one.subject, one.outcome) for one in found] == [
        ("in", "failed"),
        ("both", "failed"),
        ("topics", "ok"),
    ]
    assert found[0].detail.endswith("may not read it")
    assert "--operation Read --topic in" in found[0].remedy
    assert "--operation Write --topic both" in found[1].remedy
    assert found[2].detail == "Read: both; Write: out"


def test_hidden_permissions_are_not_tried() -> None:
    (found,) = check_topic_rights([TopicView("in", 0), TopicView("out", 3)], NEEDS, KAFKA)
    assert found.outcome == "not tried"
    assert "does not report permissions" in found.detail


def test_the_producer() -> None:
    assert check_producer(0, KAFKA).outcome == "ok"
    refused = check_producer(31, KAFKA)
    assert (refused.outcome, refused.may_pass) == ("failed", False)
    assert "IdempotentWrite" in refused.remedy
    assert check_producer(14, KAFKA).may_pass


@pytest.mark.parametrize(
    ("group", "outcome", "words"),
    [
        (GroupView(0, "Stable", "consumer", "roundrobin", ("judgestream",) * 3, frozenset({READ})), "ok",
            "Stable, 3 members; joining is allowed"),
        (GroupView(0, "Dead", rights=frozenset({READ})), "ok", "does not exist yet; joining is allowed"),
        (GroupView(0, "Empty", "consumer"), "ok", "this broker does not report"),
        (GroupView(30), "failed", "may not use it"),
        (GroupView(0, "Stable", "consumer", "roundrobin", ("judgestream",), frozenset()), "failed",
            "may not join it"),
        (GroupView(15), "failed", "it has no coordinator: GroupCoordinatorNotAvailableError"),
        (GroupView(0, "Stable", "consumer", "range", ("judgestream",)), "failed",
            "another application (1 members, protocol range)"),
        (GroupView(0, "Stable", "consumer", "roundrobin", ("x", "judgestream")), "failed",
            "(2 members, clients x)"),
        (GroupView(0, "Stable", "connect"), "failed", "protocol connect"),
    ],
)  # fmt: skip
def test_the_group(group: GroupView, outcome: str, words: str) -> None:
    (found,) = check_group("g", group, KAFKA)
    assert (found.subject, found.outcome) == ("group g", outcome)
    assert words in found.detail
    assert bool(found.remedy) == (outcome == "failed")


def test_settings_that_are_kept_back() -> None:
    found = check_hidden({"t": "TopicAuthorizationFailedError", "": "x"}, KAFKA)
    assert [(one.subject, one.outcome) for one in found] == [("t", "warning"), ("broker", "warning")]
    assert "--operation DescribeConfigs --topic t" in found[0].remedy


@pytest.mark.parametrize("request_", [TopicsWithRights(["t"]), GroupWithRights("g")])
def test_old_brokers_are_asked_without_rights(request_: Any) -> None:
    """The newest version that both sides support is used.

    Below the versions that report permissions, these are the versions of the library.
    """
    key = request_.prepare({3: (0, 12), 15: (0, 6)}).API_KEY
    versions = {asked: request_.prepare({key: (0, asked)}).API_VERSION for asked in (1, 2, 13)}
    assert versions == {1: 1, 2: 2, 13: 8 if key == 3 else 3}


def test_a_request_on_the_wire() -> None:
    """After the topics: no topic creation (0), no cluster permissions (0), topic permissions (1)."""
    raw = TopicsWithRights(["t"]).prepare({3: (0, 8)}).encode()
    body = BytesIO(raw)
    assert Int32.decode(body) == 1
    assert String("utf-8").decode(body) == "t"
    assert body.read() == b"\0\0\x01"
    assert GroupWithRights("g").prepare({15: (0, 5)}).encode().endswith(b"g\x01")
