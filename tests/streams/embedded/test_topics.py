from __future__ import annotations

from typing import Any

import pytest

from streams.embedded.topics import Topics
from streams.embedded.wire import ErrorCode, RefusedError


@pytest.fixture
def topics() -> Topics:
    return Topics(default_partitions=4, max_message_bytes=1000, max_bytes_per_partition=None)


@pytest.mark.parametrize("name", ["qa.events", "a", "A_b-c.9", "x" * 249])
def test_names_that_kafka_allows(topics: Topics, name: str) -> None:
    assert len(topics.create(name).partitions) == 4
    assert name in topics
    with pytest.raises(RefusedError) as refused:
        topics.create(name)
    assert refused.value.code is ErrorCode.TOPIC_ALREADY_EXISTS


BAD_NAMES = ("", ".", "..", "a b", "a/b", "ä", "x" * 250, "new\nline", "end\n")
BAD_SETTINGS = (("max.message.bytes", "-1"), ("max.message.bytes", "much"), ("retention.bytes", "-2"))


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        *(((name,), ErrorCode.INVALID_TOPIC_EXCEPTION, "1-249 of the characters") for name in BAD_NAMES),
        *((("t", count), ErrorCode.INVALID_PARTITIONS, "10000") for count in (0, -2, 10_001)),
        *((("t", 1, {name: value}), ErrorCode.INVALID_CONFIG, name) for name, value in BAD_SETTINGS),
    ],
)
def test_invalid_topics_are_not_created(
    topics: Topics, arguments: tuple[Any, ...], code: ErrorCode, words: str
) -> None:
    """An invalid name, a number of partitions outside 1 to 10,000, or an invalid setting is refused."""
    with pytest.raises(RefusedError, match=words) as refused:
        topics.create(*arguments)
    assert refused.value.code is code
    assert arguments[0] not in topics


@pytest.mark.parametrize("count", [1, 2, 10_001])
def test_a_topic_only_grows(topics: Topics, count: int) -> None:
    """A topic of two partitions cannot get fewer, the same number, or more than 10,000."""
    topics.create("t", 2)
    with pytest.raises(RefusedError) as refused:
        topics.extend("t", count)
    assert refused.value.code is ErrorCode.INVALID_PARTITIONS
    assert len(topics.get("t").partitions) == 2


def test_validate_only_changes_nothing(topics: Topics) -> None:
    topics.create("new", validate_only=True)
    assert "new" not in topics
    topics.create("t", 2)
    topics.extend("t", 3, validate_only=True)
    assert len(topics.get("t").partitions) == 2
    topics.get("t").configure({"max.message.bytes": "5"}, validate_only=True)
    assert topics.get("t").settings()["max.message.bytes"] == ("1000", True)


@pytest.mark.parametrize(("name", "index"), [("t", 2), ("t", -1), ("unknown", 0)])
def test_partitions_that_are_not_there(topics: Topics, name: str, index: int) -> None:
    topics.create("t", 2)
    assert not topics.has(name, index)
    with pytest.raises(RefusedError) as refused:
        topics.partition(name, index)
    assert refused.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
