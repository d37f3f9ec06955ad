"""Fetched batches are unpacked into committed records; a damaged record or batch does not affect others."""

from __future__ import annotations

import contextlib
import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

import cramjam
import google_crc32c
import pytest
from aiokafka import codec as theirs
from aiokafka.errors import CorruptRecordException
from aiokafka.record.util import encode_varint
from hypothesis import given
from hypothesis import strategies as st

from streams.kafka import batches, decoding
from streams.kafka.batches import CRC_TRIES, FetchedBatches, ReadableRecords
from streams.kafka.decoding import Unreadable
from streams.kafka.patches import install
from tests.streams.kafka.logs import at, batch, marker, signed, taken

CODECS = (0, 1, 2, 3, 4)


@pytest.fixture(autouse=True)
def _patched() -> None:
    install()
    ReadableRecords.suspects.clear()


@dataclass
class _Log:
    data: list[tuple[int, bytes]] = field(default_factory=list)
    end: int = 0
    under_way: dict[int, tuple[int, list[bytes]]] = field(default_factory=dict)
    aborted: list[tuple[int, int]] = field(default_factory=list)
    aborted_until: list[int] = field(default_factory=list)
    visible: dict[int, bytes] = field(default_factory=dict)

    def _put(self, raw: bytes, count: int) -> None:
        self.data.append((self.end, raw))
        self.end += count

    def plain(self, codec: int, count: int) -> None:
        values = [b"plain-%d" % (self.end + number) for number in range(count)]
        self.visible |= {self.end + number: value for number, value in enumerate(values)}
        self._put(batch(values, self.end, codec=codec), count)

    def within(self, producer: int, codec: int, count: int) -> None:
        first, offsets = self.under_way.setdefault(producer, (self.end, []))
        values = [b"tx-%d" % (self.end + number) for number in range(count)]
        offsets.extend(values)
        self.under_way[producer] = (first, offsets)
        self._put(batch(values, self.end, codec=codec, producer=producer, transactional=True), count)

    def ends(self, producer: int, *, commit: bool) -> None:
        if producer not in self.under_way:
            return
        first, values = self.under_way.pop(producer)
        if commit:
            self.visible |= {int(value[3:]): value for value in values}
        else:
            self.aborted.append((producer, first))
            self.aborted_until.append(self.end)
        self._put(marker(self.end, producer, commit=commit), 1)

    @property
    def stable(self) -> int:
        return min((first for first, _ in self.under_way.values()), default=self.end)


STEPS = st.one_of(
    st.tuples(st.just("plain"), st.sampled_from(CODECS), st.integers(1, 3)),
    st.tuples(st.just("within"), st.integers(1, 3), st.sampled_from(CODECS), st.integers(1, 3)),
    st.tuples(st.just("ends"), st.integers(1, 3), st.booleans()),
)


@given(st.lists(STEPS, max_size=25), st.data())
def test_exactly_the_committed_records_are_handed_out(
    steps: list[tuple[str, int, int]], data: st.DataObject
) -> None:
    log = _Log()
    for kind, *what in steps:
        if kind == "plain":
            log.plain(*what)
        elif kind == "within":
            log.within(*what)
        else:
            log.ends(what[0], commit=bool(what[1]))
    start = data.draw(st.integers(0, log.stable))
    # A broker sends whole batches from the one that contains the offset to the last stable offset.
    sent = [raw for base, raw in log.data if base < log.stable and _end(base, raw) > start]
    # It lists the aborted transactions that end at or after the requested offset.
    named = [one for one, last in zip(log.aborted, log.aborted_until, strict=True) if last >= start]
    records, following = taken(b"".join(sent), start, aborted=named)
    expected = {offset: value for offset, value in log.visible.items() if start <= offset < log.stable}
    assert [(record.offset, record.value) for record in records] == sorted(expected.items())
    assert following == (log.stable if sent else start)


def _end(base: int, raw: bytes) -> int:
    return base + int(struct.unpack_from(">i", raw, 23)[0]) + 1


PACKERS = (bytes, theirs.gzip_encode, theirs.snappy_encode, theirs.lz4_encode, theirs.zstd_encode)


def _holding(records: bytes, *, codec: int = 0, count: int = 3) -> bytes:
    packed = PACKERS[codec](records)
    head = bytearray(batch([b"x"] * count)[:61])
    head[22] |= codec
    head[8:12] = struct.pack(">i", 61 - 12 + len(packed))
    return signed(bytes(head) + packed)


def _body(delta: int, value: bytes, *, size: int | None = None, headers: int = 0, name: bytes = b"") -> bytes:
    stated = len(value) if size is None else size
    header = _varint(len(name)) + name + b"\x01"
    return (
        b"\0\0" + _varint(delta) + _varint(-1) + _varint(stated) + value + _varint(headers) + header * headers
    )


def _varint(number: int) -> bytes:
    out = bytearray()
    encode_varint(number, out.append)
    return bytes(out)


def _with_middle(body: bytes, *, codec: int = 0) -> bytes:
    bodies = (_body(0, b"one"), body, _body(2, b"three"))
    return _holding(b"".join(_varint(len(one)) + one for one in bodies), codec=codec)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize(
    ("middle", "reason", "detail"),
    [
        (_body(1, b"two", headers=1, name=b"\xffame"), "undecodable", ""),  # aiokafka refuses the whole batch
        (_body(1, b"two", size=100), "undecodable", ""),
        (_body(1_000, b"two"), "undecodable", "its offset is 1000, and the batch ends at 2"),
        (_body(1, b"two", headers=1_001), "oversized", "it has 1001 headers, and at most 1000 are read"),
        # They would take 100 MB.
        (_body(1, b"two", headers=600_000, name=b"\xff"), "oversized", "it has 600000 headers, and at most"),
    ],
    ids=["header that is no UTF-8", "length of 100", "offset of a later batch", "headers", "many headers"],
)
def test_a_record_that_cannot_be_read_is_unreadable_alone(
    codec: int, middle: bytes, reason: str, detail: str
) -> None:
    found, following = taken(_with_middle(middle, codec=codec))
    assert [getattr(one, "value", None) for one in found] == [b"one", None, b"three"]
    assert isinstance(found[1], Unreadable)
    assert (found[1].offset, found[1].reason, found[1].timestamp, following) == (1, reason, 1000, 3)
    assert (found[1].size, found[1].sha256) == (len(middle), sha256(middle).hexdigest())
    assert detail in found[1].detail


@pytest.mark.parametrize("codec", [1, 2, 3, 4, 7])
def test_what_cannot_be_decompressed_is_one_unreadable(codec: int) -> None:
    """Codec 7 does not exist."""
    raw = bytearray(batch([b"v" * 50] * 3, 5))
    raw[22] |= codec
    raw[61:] = b"\xff" * (len(raw) - 61)
    found, following = taken(signed(raw) + batch([b"next"], 8), 5)
    assert [type(one) is Unreadable for one in found] == [True, False]
    assert (found[0].offset, found[0].records, found[0].reason) == (5, 3, "undecodable")
    assert "offsets 5 to 7" in found[0].detail
    assert (found[1].value, following) == (b"next", 9)


def test_a_batch_whose_checksum_does_not_hold_is_fetched_again_before_it_is_given_up() -> None:
    """Damage on the way is mended by that."""
    good = batch([b"lost"] * 2, 1)
    damaged = bytearray(good)
    damaged[-3] ^= 1
    assert taken(bytes(damaged), 1) == ([], 1)
    found, offset = taken(good, 1)
    assert ([one.value for one in found], offset) == ([b"lost"] * 2, 3)
    ReadableRecords.suspects.clear()
    data = batch([b"before"], 0) + bytes(damaged) + batch([b"after"], 3)
    first, offset = taken(data, 0)
    assert ([one.value for one in first], offset) == ([b"before"], 1)
    for _ in range(CRC_TRIES - 2):
        assert taken(data, 1) == ([], 1)
    found, offset = taken(data, 1)
    assert [type(one) is Unreadable for one in found] == [True, False]
    assert (found[0].offset, found[0].records, found[1].value, offset) == (1, 2, b"after", 4)


def test_a_damaged_batch_header_moves_on_by_one_offset() -> None:
    raw = bytearray(batch([b"v"] * 2, 0))
    raw[23:27] = struct.pack(">i", 2_000_000_000)
    for _ in range(CRC_TRIES - 1):
        taken(bytes(raw))
    found, offset = taken(bytes(raw))
    assert (found[0].offset, found[0].records, offset) == (0, 1, 1)


def test_each_damaged_batch_is_set_aside_by_itself() -> None:
    damaged = _holding(b"\x01" * 5, count=1)
    found, following = taken(b"".join(at(damaged, base) for base in range(3)))
    assert [(type(one), one.offset) for one in found] == [(Unreadable, base) for base in range(3)]
    digests = [sha256(at(damaged, base)).hexdigest() for base in range(3)]
    assert [(one.size, one.sha256) for one in found] == [(len(damaged), one) for one in digests]
    assert following == 3


def test_a_reader_without_a_group_passes_over_what_cannot_be_read() -> None:
    """Its records are aiokafka's, and its position is the record's that it took last."""
    data = _with_middle(_body(1_000, b"two")) + batch([b"four"], 3)
    found, following = taken(data, key_deserializer=None)
    values = [(one.topic, one.offset, one.value) for one in found]
    assert values == [("t", 0, b"one"), ("t", 2, b"three"), ("t", 3, b"four")]
    assert following == 4


HEAD_BYTES = 61
SUMMED_FROM = 21
"""The checksum covers all bytes after base offset 8, length 4, epoch 4, magic 1 and checksum 4."""


def test_whole_batches_hold() -> None:
    one, two = batch([b"a", b"b"]), batch([b"c" * 200_000])
    for records in (b"", one, one + two, one + two[:-1], one + two[:SUMMED_FROM], one + two[:5]):
        assert FetchedBatches(records).sums_hold()


@given(st.integers(SUMMED_FROM, HEAD_BYTES + 40), st.integers(1, 255))
def test_no_other_byte_passes(place: int, flip: int) -> None:
    bad = bytearray(batch([b"v" * 60]))
    bad[place] ^= flip
    assert not FetchedBatches(bytes(bad)).sums_hold()
    assert not FetchedBatches(batch([b"w"]) + bytes(bad) + batch([b"w"])).sums_hold()


@given(st.binary(max_size=200))
def test_any_bytes_raise_nothing(records: bytes) -> None:
    assert FetchedBatches(records).sums_hold() in {True, False}


@pytest.mark.parametrize(
    ("place", "value"), [(16, 1), (11, 3), (8, 0xFF)], ids=["old magic", "length 3", "length < 0"]
)
def test_unknown_batches_are_not_vouched_for(place: int, value: int) -> None:
    records = bytearray(batch([b"v"]))
    records[8:12] = (len(records) - 12).to_bytes(4, "big") if place == 16 else b"\x00\x00\x00\x00"
    records[place] = value
    assert not FetchedBatches(bytes(records)).sums_hold()


def test_without_the_extra_aiokafka_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(google_crc32c, "implementation", "python")
    assert not FetchedBatches(batch([b"a"])).sums_hold()
    monkeypatch.setattr(batches, "google_crc32c", None)
    assert not FetchedBatches(batch([b"a"])).sums_hold()


PAIRS: dict[str, tuple[Callable[[bytes], bytes], Callable[[Any], bytes]]] = {
    "gzip": (theirs.gzip_encode, decoding.gzip_decode),
    "snappy": (theirs.snappy_encode, decoding.snappy_decode),
    "snappy, raw": (lambda text: bytes(cramjam.snappy.compress_raw(text)), decoding.snappy_decode),
    "lz4": (theirs.lz4_encode, decoding.lz4_decode),
    "zstd": (theirs.zstd_encode, decoding.zstd_decode),
}
NAMES = st.sampled_from(sorted(PAIRS))


@given(NAMES, st.binary(max_size=100_000))
def test_what_was_compressed_comes_back(name: str, text: bytes) -> None:
    encode, decode = PAIRS[name]
    packed = encode(text)
    assert decode(packed) == decode(memoryview(packed)) == text


@given(NAMES, st.binary(max_size=300))
def test_anything_else_is_corrupt(name: str, junk: bytes) -> None:
    with contextlib.suppress(CorruptRecordException):
        assert isinstance(PAIRS[name][1](junk), bytes)


@pytest.mark.parametrize("name", sorted(PAIRS))
def test_more_than_the_bound_is_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a limit of 1 MiB, 1 MiB is decompressed and one byte more is refused."""
    monkeypatch.setattr(decoding, "UNPACKED_BYTES", 1 << 20)
    encode, decode = PAIRS[name]
    assert len(decode(encode(b" " * (1 << 20)))) == 1 << 20
    with pytest.raises(decoding.OversizedError, match="more than 1048576 bytes"):
        decode(encode(b" " * ((1 << 20) + 1)))


def test_gzip_in_several_members_is_corrupt() -> None:
    """No producer writes several members; many empty ones would take quadratic time."""
    with pytest.raises(CorruptRecordException, match="one complete member"):
        decoding.gzip_decode(zlib.compress(b"ab", wbits=31) * 2)


def test_a_snappy_block_of_negative_length_is_corrupt() -> None:
    packed = theirs.snappy_encode(b"text")[:16] + struct.pack(">i", -5) + b"x"
    with pytest.raises(CorruptRecordException):
        decoding.snappy_decode(packed)
