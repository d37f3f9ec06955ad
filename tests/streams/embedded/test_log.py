from __future__ import annotations

import struct
from typing import Any

import pytest
from aiokafka.errors import (
    InvalidConfigurationError,
    InvalidPartitionsError,
    InvalidTopicError,
    MessageSizeTooLargeError,
    OffsetOutOfRangeError,
    OutOfOrderSequenceNumber,
    TopicAlreadyExistsError,
    UnknownTopicOrPartitionError,
)
from hypothesis import given
from hypothesis import strategies as st

from streams.embedded.partition import Batch, PartitionLog, find_time, next_sequence, parse
from streams.embedded.topics import DEFAULTS, Topics
from streams.embedded.wire import InvalidRecordError
from tests.streams.kafka.logs import GZIP, LZ4, batch

_ONE = batch([b"x" * 100])
_NO_LIMIT = 2**31 - 1


def _append(partition: PartitionLog, data: bytes, retention_bytes: int | None = None) -> int:
    return partition.append(data, max_batch_bytes=_NO_LIMIT, retention_bytes=retention_bytes)


def _offsets(batches: list[bytes]) -> list[int]:
    return [
        int.from_bytes(data[:8], "big") + index
        for data in batches
        for index in range(parse(data).record_count)
    ]


@given(counts=st.lists(st.integers(1, 5), max_size=12), data=st.data())
def test_a_reader_gets_everything_from_its_offset_on(counts: list[int], data: st.DataObject) -> None:
    partition = PartitionLog()
    for count in counts:
        _append(partition, batch([b"x"] * count))
    total = sum(counts)
    assert (partition.start_offset, partition.end_offset) == (0, total)
    offset = data.draw(st.integers(0, total))
    found = _offsets(partition.read(offset, _NO_LIMIT, at_least_one=True))
    assert found == list(range(found[0], total)) if found else offset == total
    if found:
        assert found[0] <= offset < found[0] + max(counts)
    for outside in (-1, total + 1):
        with pytest.raises(OffsetOutOfRangeError):
            partition.read(outside, _NO_LIMIT, at_least_one=True)


def test_a_read_stops_before_too_many_bytes() -> None:
    partition = PartitionLog()
    for _ in range(5):
        _append(partition, _ONE)
    size = len(_ONE)
    assert len(partition.read(0, 3 * size, at_least_one=True)) == 3
    assert len(partition.read(0, 4 * size - 1, at_least_one=True)) == 3
    assert len(partition.read(0, 1, at_least_one=True)) == 1
    assert partition.read(0, 1, at_least_one=False) == []


def test_retention_deletes_the_oldest_batches() -> None:
    """Three batches fit: of ten, 7, 8 and 9 remain; with a limit below one batch, the newest."""
    partition = PartitionLog()
    for _ in range(10):
        _append(partition, _ONE, retention_bytes=3 * len(_ONE))
    assert (partition.start_offset, partition.end_offset) == (7, 10)
    assert partition.size_bytes == 3 * len(_ONE)
    assert _offsets(partition.read(7, _NO_LIMIT, at_least_one=True)) == [7, 8, 9]
    _append(partition, _ONE, retention_bytes=1)
    assert (partition.start_offset, partition.end_offset) == (10, 11)


def test_a_batch_over_the_limit_is_refused_and_leaves_no_trace() -> None:
    partition = PartitionLog()
    with pytest.raises(MessageSizeTooLargeError, match=r"max\.message\.bytes"):
        partition.append(_ONE, max_batch_bytes=len(_ONE) - 1)
    assert partition.end_offset == 0
    assert partition.append(_ONE, max_batch_bytes=len(_ONE)) == 0


def test_deleting_before_an_offset_inside_a_batch() -> None:
    """The log has two batches of three; offset 4 is inside the second."""
    partition = PartitionLog()
    for _ in range(2):
        _append(partition, batch([b"a", b"b", b"c"]))
    assert partition.delete_before(4) == 4
    assert partition.start_offset == 4
    assert _offsets(partition.read(4, _NO_LIMIT, at_least_one=True)) == [3, 4, 5]
    assert partition.find_time(0) == (1000, 4)
    assert partition.delete_before(-1) == 6
    assert partition.size_bytes == 0
    with pytest.raises(OffsetOutOfRangeError):
        partition.delete_before(7)


@given(st.lists(st.integers(0, 9), min_size=1, max_size=60))
def test_repeated_batches_are_stored_once(order: list[int]) -> None:
    partition = PartitionLog()
    batches = [batch([b"%d" % number], producer=3, sequence=number) for number in range(10)]
    _append(partition, batches[0])
    expected = 1
    for number in order:
        if expected - 5 <= number <= expected:
            assert _append(partition, batches[number]) == number
            expected = max(expected, number + 1)
        else:
            with pytest.raises(OutOfOrderSequenceNumber):
                _append(partition, batches[number])
    assert partition.end_offset == expected


@pytest.fixture
def topics() -> Topics:
    return Topics()


@pytest.mark.parametrize("name", ["qa.events", "a", "A_b-c.9", "x" * 249])
def test_names_that_kafka_allows(topics: Topics, name: str) -> None:
    assert len(topics.create(name).partitions) == 4
    assert name in topics.by_name
    with pytest.raises(TopicAlreadyExistsError):
        topics.create(name)


BAD_NAMES = ("", ".", "..", "a b", "a/b", "ä", "x" * 250, "new\nline", "end\n")
BAD_SETTINGS = (("max.message.bytes", "-1"), ("max.message.bytes", "much"), ("retention.bytes", "-2"))


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        *(((name,), InvalidTopicError, "1-249 of the characters") for name in BAD_NAMES),
        *((("t", count), InvalidPartitionsError, "10000") for count in (0, -2, 10_001)),
        *((("t", 1, {name: value}), InvalidConfigurationError, name) for name, value in BAD_SETTINGS),
    ],
)
def test_invalid_topics_are_not_created(
    topics: Topics, arguments: tuple[Any, ...], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        topics.create(*arguments)
    assert arguments[0] not in topics.by_name


@pytest.mark.parametrize("count", [1, 2, 10_001])
def test_a_topic_only_grows(topics: Topics, count: int) -> None:
    topics.create("t", 2)
    with pytest.raises(InvalidPartitionsError):
        topics.extend("t", count)
    assert len(topics.get("t").partitions) == 2


def test_validate_only_changes_nothing(topics: Topics) -> None:
    topics.create("new", validate_only=True)
    assert "new" not in topics.by_name
    topics.create("t", 2)
    topics.extend("t", 3, validate_only=True)
    assert len(topics.get("t").partitions) == 2
    topics.get("t").configure({"max.message.bytes": "5"}, validate_only=True)
    assert topics.get("t").settings()["max.message.bytes"] == (DEFAULTS["max.message.bytes"], True)


@pytest.mark.parametrize(("name", "index"), [("t", 2), ("t", -1), ("unknown", 0)])
def test_partitions_that_are_not_there(topics: Topics, name: str, index: int) -> None:
    topics.create("t", 2)
    with pytest.raises(UnknownTopicOrPartitionError):
        topics.partition(name, index)


def _stored(data: bytes, base_offset: int = 0) -> Batch:
    found = parse(data)
    found.store_at(base_offset)
    return found


def test_sequences_wrap() -> None:
    """The sequence after 2**31 - 1 is 0, also inside a batch."""
    assert next_sequence(2**31 - 1) == 0
    header = parse(batch([b"a", b"b"], producer=1, sequence=2**31 - 1))
    assert header.last_sequence == 0


def _with(data: bytes, position: int, form: str, value: int) -> bytes:
    changed = bytearray(data)
    struct.pack_into(form, changed, position, value)
    return bytes(changed)


_GOOD = batch([b"a", b"b"])


_BAD = {
    "empty": b"",
    "cut in the header": _GOOD[:60],
    "cut in the records": _GOOD[:-1],
    "more bytes": _GOOD + b"\x00",
    "two batches": _GOOD + _GOOD,
    "format 1": _with(_GOOD, 16, ">b", 1),
    "no records": _with(_GOOD, 57, ">i", 0),
    "too many records": _with(_GOOD, 57, ">i", 3),
    "negative last offset": _with(_GOOD, 23, ">i", -1),
    "control": _with(_GOOD, 21, ">h", 0x20),
    "transactional": batch([b"a"], transactional=True, producer=1, sequence=0),
    "no epoch": batch([b"a"], producer=5, epoch=-1, sequence=0),
    "no sequence": batch([b"a"], producer=5, sequence=-1),
}


@pytest.mark.parametrize("data", _BAD.values(), ids=_BAD)
def test_invalid_batches_are_refused(data: bytes) -> None:
    with pytest.raises(InvalidRecordError):
        parse(data)


@given(st.binary(max_size=200))
def test_garbage_is_refused_and_nothing_else(data: bytes) -> None:
    with pytest.raises(InvalidRecordError):
        parse(data)


def test_storing_changes_only_offset_and_epoch() -> None:
    """From byte 21 on the checksum covers all."""
    kept = _stored(_GOOD, base_offset=77)
    assert struct.unpack_from(">qii", kept.data) == (77, len(_GOOD) - 12, 0)
    assert bytes(kept.data[16:]) == _GOOD[16:]
    assert kept.next_offset == 79


@given(
    times=st.lists(st.integers(0, 100), min_size=1, max_size=20),
    asked=st.integers(-5, 105),
    compression=st.sampled_from([0, GZIP]),
)
def test_a_time_is_found_as_by_looking_at_each_record(times: list[int], asked: int, compression: int) -> None:
    values = [b"some text that compresses, some text that compresses"] * len(times)
    kept = _stored(batch(values, times=times, codec=compression), base_offset=50)
    expected = next(((time, 50 + index) for index, time in enumerate(times) if time >= asked), None)
    assert find_time(kept, asked) == expected


@pytest.mark.parametrize("compression", [0, GZIP])
@given(noise=st.binary(min_size=1, max_size=60))
def test_unreadable_records_give_an_offset_of_the_batch(compression: int, noise: bytes) -> None:
    good = batch([b"a" * 100, b"b" * 100], times=[10, 20], codec=compression)
    data = good[:61] + (noise * 300)[: len(good) - 61]
    found = find_time(_stored(data, base_offset=5), 15)
    assert found is None or found[1] in {5, 6}


def test_an_unreadable_compression_is_found_by_batch() -> None:
    """For a compression outside the standard library, `find_time` returns the batch's first offset."""
    kept = _stored(batch([b"a" * 100, b"b" * 100], times=[10, 20], codec=LZ4), base_offset=5)
    assert kept.compression == LZ4
    assert find_time(kept, 15) == (15, 5)
