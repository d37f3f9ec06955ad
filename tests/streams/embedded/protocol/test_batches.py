from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.embedded.errors import RefusedError
from streams.embedded.protocol.batches import StoredBatch, find_time, next_sequence, parse_header, stored
from streams.embedded.protocol.codes import ErrorCode
from tests.streams.embedded.record_batches import GZIP, LZ4, record_batch


def _stored(data: bytes, base_offset: int = 0) -> StoredBatch:
    return stored(data, parse_header(data), base_offset)


def test_a_header_is_read() -> None:
    """The numbers that a client library wrote are found where the format puts them."""
    data = record_batch(
        b"a", b"b", b"c", timestamps_ms=[5, 9, 7], producer_id=11, epoch=2, sequence=40, compression=GZIP
    )
    header = parse_header(data)
    assert (header.size_bytes, header.compression, header.record_count) == (len(data), GZIP, 3)
    assert (header.first_timestamp_ms, header.max_timestamp_ms) == (5, 9)
    assert (header.producer_id, header.producer_epoch) == (11, 2)
    assert (header.base_sequence, header.last_sequence) == (40, 42)


def test_sequences_wrap() -> None:
    """After 2**31 - 1 comes 0, also inside a batch."""
    assert next_sequence(2**31 - 1) == 0
    header = parse_header(record_batch(b"a", b"b", producer_id=1, epoch=0, sequence=2**31 - 1))
    assert header.last_sequence == 0


def _with(data: bytes, position: int, form: str, value: int) -> bytes:
    changed = bytearray(data)
    struct.pack_into(form, changed, position, value)
    return bytes(changed)


_GOOD = record_batch(b"a", b"b")


@pytest.mark.parametrize(
    "data",
    [
        b"",
        _GOOD[:60],
        _GOOD[:-1],
        _GOOD + b"\x00",
        _GOOD + _GOOD,
        _with(_GOOD, 16, ">b", 1),
        _with(_GOOD, 57, ">i", 0),
        _with(_GOOD, 57, ">i", 3),
        _with(_GOOD, 23, ">i", -1),
        _with(_GOOD, 21, ">h", 0x20),
        record_batch(b"a", is_transactional=True, producer_id=1, epoch=0, sequence=0),
        record_batch(b"a", producer_id=5, epoch=-1, sequence=0),
        record_batch(b"a", producer_id=5, epoch=0, sequence=-1),
    ],
    ids=[
        "empty",
        "cut in the header",
        "cut in the records",
        "more bytes",
        "two batches",
        "format 1",
        "no records",
        "too many records",
        "negative last offset",
        "control",
        "transactional",
        "no epoch",
        "no sequence",
    ],
)
def test_what_is_no_batch_of_a_client_is_refused(data: bytes) -> None:
    """One whole batch of format 2, with records, outside of transactions; all else is an INVALID_RECORD."""
    with pytest.raises(RefusedError) as refused:
        parse_header(data)
    assert refused.value.code is ErrorCode.INVALID_RECORD


@given(st.binary(max_size=200))
def test_garbage_is_refused_and_nothing_else(data: bytes) -> None:
    """Random bytes are never a batch, and never an accident."""
    with pytest.raises(RefusedError):
        parse_header(data)


def test_storing_changes_only_offset_and_epoch() -> None:
    """All that the checksum covers (from byte 21 on) stays as the producer wrote it."""
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
    """The first record whose time is not before the one asked for, in any order of times."""
    values = [b"some text that compresses, some text that compresses"] * len(times)
    batch = _stored(record_batch(*values, timestamps_ms=times, compression=compression), base_offset=50)
    expected = next(((time, 50 + index) for index, time in enumerate(times) if time >= asked), None)
    assert find_time(batch, asked) == expected


@pytest.mark.parametrize("compression", [0, GZIP])
@given(noise=st.binary(min_size=1, max_size=60))
def test_nonsense_inside_a_batch_hurts_nobody(compression: int, noise: bytes) -> None:
    """Where the records cannot be read, the answer is an offset of the batch, or none."""
    good = record_batch(b"a" * 100, b"b" * 100, timestamps_ms=[10, 20], compression=compression)
    data = good[:61] + (noise * 300)[: len(good) - 61]
    found = find_time(_stored(data, base_offset=5), 15)
    assert found is None or found[1] in {5, 6}


def test_an_unreadable_compression_is_found_by_batch() -> None:
    """The standard library has no lz4: the batch's first offset is the answer."""
    batch = _stored(
        record_batch(b"a" * 100, b"b" * 100, timestamps_ms=[10, 20], compression=LZ4), base_offset=5
    )
    assert batch.header.compression == LZ4
    assert find_time(batch, 15) == (15, 5)
