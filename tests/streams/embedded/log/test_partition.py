from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.embedded.errors import RefusedError
from streams.embedded.log.partition import Partition
from streams.embedded.protocol.batches import parse_header
from streams.embedded.protocol.codes import ErrorCode
from tests.streams.embedded.record_batches import record_batch

_ONE = record_batch(b"x" * 100)
_NO_LIMIT = 2**31 - 1


def _append(partition: Partition, data: bytes, retention_bytes: int | None = None) -> int:
    return partition.append(data, max_batch_bytes=_NO_LIMIT, retention_bytes=retention_bytes)


def _offsets(batches: list[bytearray]) -> list[int]:
    """All offsets in the batches, as a client counts them."""
    return [
        int.from_bytes(data[:8], "big") + index
        for data in batches
        for index in range(parse_header(data).record_count)
    ]


@given(counts=st.lists(st.integers(1, 5), max_size=12), data=st.data())
def test_a_reader_gets_everything_from_its_offset_on(counts: list[int], data: st.DataObject) -> None:
    """Batches follow each other without a gap, and the first holds the offset asked for."""
    partition = Partition()
    for count in counts:
        _append(partition, record_batch(*[b"x"] * count))
    total = sum(counts)
    assert (partition.start_offset, partition.end_offset) == (0, total)
    offset = data.draw(st.integers(0, total))
    found = _offsets(partition.read(offset, _NO_LIMIT, at_least_one=True))
    assert found == list(range(found[0], total)) if found else offset == total
    if found:
        assert found[0] <= offset < found[0] + max(counts)


@pytest.mark.parametrize("offset", [-1, 2])
def test_an_offset_outside_is_refused(offset: int) -> None:
    """One record: offsets 0 and 1 (the end) can be read, no others."""
    partition = Partition()
    _append(partition, _ONE)
    with pytest.raises(RefusedError) as refused:
        partition.read(offset, _NO_LIMIT, at_least_one=True)
    assert refused.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_read_stops_before_too_many_bytes() -> None:
    """As many whole batches as fit; one in any case where the reader must get past it."""
    partition = Partition()
    for _ in range(5):
        _append(partition, _ONE)
    size = len(_ONE)
    assert len(partition.read(0, 3 * size, at_least_one=True)) == 3
    assert len(partition.read(0, 4 * size - 1, at_least_one=True)) == 3
    assert len(partition.read(0, 1, at_least_one=True)) == 1
    assert partition.read(0, 1, at_least_one=False) == []


def test_reading_gives_the_stored_batches_themselves() -> None:
    """Two readers get the same objects: nothing is copied for either."""
    partition = Partition()
    _append(partition, _ONE)
    (first,) = partition.read(0, _NO_LIMIT, at_least_one=True)
    (second,) = partition.read(0, _NO_LIMIT, at_least_one=True)
    assert first is second


def test_the_oldest_batches_go_when_there_are_too_many_bytes() -> None:
    """Room for three batches of one record: of ten, offsets 7, 8 and 9 stay."""
    partition = Partition()
    for _ in range(10):
        _append(partition, _ONE, retention_bytes=3 * len(_ONE))
    assert (partition.start_offset, partition.end_offset) == (7, 10)
    assert partition.size_bytes == 3 * len(_ONE)
    assert _offsets(partition.read(7, _NO_LIMIT, at_least_one=True)) == [7, 8, 9]


def test_the_newest_batch_stays_whatever_its_size() -> None:
    """A bound smaller than a batch keeps one batch."""
    partition = Partition()
    for _ in range(3):
        _append(partition, _ONE, retention_bytes=1)
    assert (partition.start_offset, partition.end_offset) == (2, 3)


def test_a_batch_over_the_limit_is_refused_and_leaves_no_trace() -> None:
    """The limit is the size of the whole batch, inclusive."""
    partition = Partition()
    with pytest.raises(RefusedError, match=r"max\.message\.bytes") as refused:
        partition.append(_ONE, max_batch_bytes=len(_ONE) - 1)
    assert refused.value.code is ErrorCode.MESSAGE_TOO_LARGE
    assert partition.end_offset == 0
    assert partition.append(_ONE, max_batch_bytes=len(_ONE)) == 0


def test_deleting_before_an_offset_inside_a_batch() -> None:
    """The batch stays, but the log begins at the offset: two batches of three, from 4 on."""
    partition = Partition()
    for _ in range(2):
        _append(partition, record_batch(b"a", b"b", b"c"))
    assert partition.delete_before(4) == 4
    assert partition.start_offset == 4
    assert _offsets(partition.read(4, _NO_LIMIT, at_least_one=True)) == [3, 4, 5]
    assert partition.find_time(0) == (1000, 4)
    assert partition.delete_before(-1) == 6
    assert partition.size_bytes == 0
    with pytest.raises(RefusedError):
        partition.delete_before(7)


def test_watchers_are_woken_by_an_append() -> None:
    """A watcher is notified of each append until it stops watching."""
    partition = Partition()
    calls: list[int] = []

    def wake() -> None:
        calls.append(partition.end_offset)

    partition.watch(wake)
    _append(partition, _ONE)
    _append(partition, _ONE)
    partition.unwatch(wake)
    _append(partition, _ONE)
    assert calls == [1, 2]


@given(st.lists(st.integers(0, 9), min_size=1, max_size=60))
def test_however_batches_are_repeated_each_is_stored_once(order: list[int]) -> None:
    """A producer's batches in any order with any repetition: the log holds a prefix of them, in order."""
    partition = Partition()
    batches = [record_batch(b"%d" % number, producer_id=3, epoch=0, sequence=number) for number in range(10)]
    _append(partition, batches[0])
    expected = 1
    for number in order:
        if expected - 5 <= number <= expected:
            assert _append(partition, batches[number]) == number
            expected = max(expected, number + 1)
        else:
            with pytest.raises(RefusedError) as refused:
                _append(partition, batches[number])
            assert refused.value.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert partition.end_offset == expected
