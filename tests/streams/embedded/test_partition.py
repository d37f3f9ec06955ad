from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.embedded.batches import parse_header
from streams.embedded.partition import PartitionLog
from streams.embedded.wire import ErrorCode, RefusedError
from tests.streams.embedded.record_batches import record_batch

_ONE = record_batch(b"x" * 100)
_NO_LIMIT = 2**31 - 1


def _append(partition: PartitionLog, data: bytes, retention_bytes: int | None = None) -> int:
    return partition.append(data, max_batch_bytes=_NO_LIMIT, retention_bytes=retention_bytes)


def _offsets(batches: list[bytearray]) -> list[int]:
    """Return the offsets of all records in the batches."""
    return [
        int.from_bytes(data[:8], "big") + index
        for data in batches
        for index in range(parse_header(data).record_count)
    ]


@given(counts=st.lists(st.integers(1, 5), max_size=12), data=st.data())
def test_a_reader_gets_everything_from_its_offset_on(counts: list[int], data: st.DataObject) -> None:
    """A read returns contiguous batches to the end; the first one contains the requested offset."""
    partition = PartitionLog()
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
    """A log of one record can be read at offsets 0 and 1 (its end) only."""
    partition = PartitionLog()
    _append(partition, _ONE)
    with pytest.raises(RefusedError) as refused:
        partition.read(offset, _NO_LIMIT, at_least_one=True)
    assert refused.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


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
    """Retention deletes the oldest batches and always keeps the newest.

    Three batches of one record fit: of ten, offsets 7, 8 and 9 remain. With a limit below one batch, only the
    newest remains: the eleventh, at offset 10.
    """
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
    with pytest.raises(RefusedError, match=r"max\.message\.bytes") as refused:
        partition.append(_ONE, max_batch_bytes=len(_ONE) - 1)
    assert refused.value.code is ErrorCode.MESSAGE_TOO_LARGE
    assert partition.end_offset == 0
    assert partition.append(_ONE, max_batch_bytes=len(_ONE)) == 0


def test_deleting_before_an_offset_inside_a_batch() -> None:
    """Deleting before an offset inside a batch keeps the batch and moves the start of the log.

    The log has two batches of three; offset 4 is inside the second.
    """
    partition = PartitionLog()
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


@given(st.lists(st.integers(0, 9), min_size=1, max_size=60))
def test_repeated_batches_are_stored_once(order: list[int]) -> None:
    partition = PartitionLog()
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
