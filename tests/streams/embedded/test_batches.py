from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.embedded.batches import StoredBatch, find_time, next_sequence, parse_header, stored
from streams.embedded.wire import ErrorCode, RefusedError
from tests.streams.embedded.record_batches import GZIP, LZ4, record_batch


def _stored(data: bytes, base_offset: int = 0) -> StoredBatch:
    return stored(data, parse_header(data), base_offset)


def test_a_header_is_read() -> None:
    data = record_batch(
        b"a", b"b", b"c", timestamps_ms=[5, 9, 7], producer_id=11, epoch=2, sequence=40, compression=GZIP
    )
    header = parse_header(data)
    assert (header.size_bytes, header.compression, header.record_count) == (len(data), GZIP, 3)
    assert (header.first_timestamp_ms, header.max_timestamp_ms) == (5, 9)
    assert (header.producer_id, header.producer_epoch) == (11, 2)
    assert (header.base_sequence, header.last_sequence) == (40, 42)


def test_sequences_wrap() -> None:
    """The sequence after 2**31 - 1 is 0, also inside a batch."""
    assert next_sequence(2**31 - 1) == 0
    header = parse_header(record_batch(b"a", b"b", producer_id=1, epoch=0, sequence=2**31 - 1))
    assert header.last_sequence == 0


def _with(data: bytes, position: int, form: str, value: int) -> bytes:
    changed = bytearray(data)
    struct.pack_into(form, changed, position, value)
    return bytes(changed)


_GOOD = record_batch(b"a", b"b")


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
    "transactional": record_batch(b"a", is_transactional=True, producer_id=1, epoch=0, sequence=0),
    "no epoch": record_batch(b"a", producer_id=5, epoch=-1, sequence=0),
    "no sequence": record_batch(b"a", producer_id=5, epoch=0, sequence=-1),
}


@pytest.mark.parametrize("data", _BAD.values(), ids=_BAD)
def test_invalid_batches_are_refused(data: bytes) -> None:
    """All data except one whole, non-transactional batch of format 2 with records is an INVALID_RECORD."""
    with pytest.raises(RefusedError) as refused:
        parse_header(data)
    assert refused.value.code is ErrorCode.INVALID_RECORD


@given(st.binary(max_size=200))
def test_garbage_is_refused_and_nothing_else(data: bytes) -> None:
    with pytest.raises(RefusedError):
        parse_header(data)


def test_storing_changes_only_offset_and_epoch() -> None:
    """Storing keeps all bytes that the checksum covers (from byte 21 on)."""
    batch = _stored(_GOOD, base_offset=77)
    assert struct.unpack_from(">qii", batch.data) == (77, len(_GOOD) - 12, 0)
    assert bytes(batch.data[16:]) == _GOOD[16:]
    assert batch.next_offset == 79


@given(
    times=st.lists(st.integers(0, 100), min_size=1, max_size=20),
    asked=st.integers(-5, 105),
    compression=st.sampled_from([0, GZIP]),
)
def test_a_time_is_found_as_by_looking_at_each_record(times: list[int], asked: int, compression: int) -> None:
    """`find_time` returns the first record at or after the time, in any order of timestamps."""
    values = [b"some text that compresses, some text that compresses"] * len(times)
    batch = _stored(record_batch(*values, timestamps_ms=times, compression=compression), base_offset=50)
    expected = next(((time, 50 + index) for index, time in enumerate(times) if time >= asked), None)
    assert find_time(batch, asked) == expected


@pytest.mark.parametrize("compression", [0, GZIP])
@given(noise=st.binary(min_size=1, max_size=60))
def test_unreadable_records_give_an_offset_of_the_batch(compression: int, noise: bytes) -> None:
    good = record_batch(b"a" * 100, b"b" * 100, timestamps_ms=[10, 20], compression=compression)
    data = good[:61] + (noise * 300)[: len(good) - 61]
    found = find_time(_stored(data, base_offset=5), 15)
    assert found is None or found[1] in {5, 6}


def test_an_unreadable_compression_is_found_by_batch() -> None:
    """For a compression outside the standard library, `find_time` returns the batch's first offset."""
    batch = _stored(
        record_batch(b"a" * 100, b"b" * 100, timestamps_ms=[10, 20], compression=LZ4), base_offset=5
    )
    assert batch.header.compression == LZ4
    assert find_time(batch, 15) == (15, 5)
