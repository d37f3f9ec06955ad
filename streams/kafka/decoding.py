"""Decompress batches up to a limit, and read the records of a batch that aiokafka's parser refuses.

One kilobyte of zstd can hold 400 MB, and ten of them 500 MB of headers; a worker that unpacks these runs out
of memory and is killed, and so is the next owner of the partition.
"""

from __future__ import annotations

import hashlib
import mmap
import struct
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from struct import Struct
from typing import Any, Final, Self

from aiokafka.errors import CorruptRecordException, KafkaError
from aiokafka.record.default_records import DefaultRecordBatch
from aiokafka.record.util import decode_varint_py as decode_varint  # the compiled one checks no bounds

from streams.errors import DecodeReason

try:
    import cramjam
except ImportError:  # the extra `compression` is not installed: only gzip can be read
    cramjam = None  # type: ignore[assignment]

UNPACKED_BYTES: Final = 48 * 1024 * 1024
"""Largest batch that is decompressed. Producers limit batches before compression, to 16 KB up to 1 MB."""
MAX_HEADERS: Final = 1_000
"""Maximum headers of one record. A header takes two bytes, and its object a hundred."""
EXAMINED_BYTES: Final = 1024 * 1024
"""Smaller batches are not examined: the memory for their headers is bounded."""
# Base offset, length, leader epoch, magic, CRC-32C, attributes, last offset delta, first and last timestamp,
# producer's id and epoch, base sequence, number of records.
HEAD: Final = Struct(">qiibIhiqqqhii")
_ATTRIBUTES_AT: Final = 21
_COUNT_AT: Final = 57
_CODEC_BITS: Final = 0x07
_XERIAL_HEAD: Final = b"\x82SNAPPY\x00"
_XERIAL_HEAD_BYTES: Final = 16


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Replaces records that cannot be read: the fields of a record, and the error.

    Args:
        size: Bytes, as fetched; `sha256` is of these.
        records: Their number as far as known; at least 1.
        timestamp: In milliseconds; None if unknown.
    """

    offset: int
    reason: DecodeReason
    detail: str
    size: int
    sha256: str
    records: int = 1
    timestamp: int | None = None
    timestamp_type: None = None
    key: None = None
    value: None = None
    checksum: None = None
    headers: tuple[()] = ()

    @classmethod
    def of(
        cls, raw: bytes | memoryview, offset: int, detail: str, reason: DecodeReason, **known: Any
    ) -> Self:
        return cls(offset, reason, detail, len(raw), hashlib.sha256(raw).hexdigest(), **known)


PARSER_ERRORS: Final = (KafkaError, ValueError, IndexError, AssertionError, MemoryError, OverflowError)
"""A length near 2^63 passes aiokafka's bounds check, and allocating it fails."""


class OversizedError(CorruptRecordException):  # type: ignore[misc]  # aiokafka is not annotated
    """A batch or record holds more than is read."""


def gzip_decode(payload: Any) -> bytes:
    member = zlib.decompressobj(zlib.MAX_WBITS | 16)
    try:
        data = member.decompress(payload, UNPACKED_BYTES + 1)
    except zlib.error as error:
        raise CorruptRecordException(f"gzip: {error}") from error
    if len(data) > UNPACKED_BYTES:
        raise _too_large()
    if not member.eof or member.unused_data:
        raise CorruptRecordException("gzip: the data is not one complete member")
    return data


def zstd_decode(payload: Any) -> bytes:
    return _decompress(cramjam.zstd.decompress_into, payload)


def lz4_decode(payload: Any) -> bytes:
    return _decompress(cramjam.lz4.decompress_into, payload)


def _decompress(decompress_into: Callable[[Any, Any], int], payload: Any) -> bytes:
    # Pages of an anonymous mapping are allocated when written, so the unused rest costs nothing.
    with mmap.mmap(-1, UNPACKED_BYTES) as buffer:
        try:
            size = decompress_into(payload, buffer)
        except (cramjam.DecompressionError, OSError, ValueError) as error:
            if "whole buffer" in str(error):  # from Rust's standard library: the buffer is full
                raise _too_large() from error
            raise CorruptRecordException(str(error)) from error
        return buffer[:size]


def snappy_decode(payload: Any) -> bytes:
    """Decompress Snappy, raw or in Xerial's framing."""
    parts, left = [], UNPACKED_BYTES
    for block in _snappy_blocks(memoryview(payload)):
        try:
            left -= cramjam.snappy.decompress_raw_len(block)
            if left < 0:
                raise _too_large()
            parts.append(bytes(cramjam.snappy.decompress_raw(block)))
        except (cramjam.DecompressionError, ValueError) as error:
            raise CorruptRecordException(f"snappy: {error}") from error
    return b"".join(parts)


def _snappy_blocks(payload: memoryview) -> Iterator[memoryview]:
    if bytes(payload[: len(_XERIAL_HEAD)]) != _XERIAL_HEAD:
        yield payload
        return
    at = _XERIAL_HEAD_BYTES
    while at < len(payload):
        size = int.from_bytes(payload[at : at + 4], signed=True)
        if size < 0:
            raise CorruptRecordException(f"snappy: a block of {size} bytes")
        yield payload[at + 4 : at + 4 + size]
        at += 4 + size


DECODERS: Final[tuple[Callable[[Any], bytes], ...]] = (
    *(bytes, gzip_decode, snappy_decode, lz4_decode, zstd_decode),
)


def decode_examined(decode: Callable[[Any], bytes], payload: Any) -> bytes:
    data = decode(payload)
    examine(data)
    return data


def _too_large() -> OversizedError:
    return OversizedError(
        f"the batch holds more than {UNPACKED_BYTES} bytes decompressed; lower the producer's "
        "batch.size or max.request.size"
    )


def examine(data: bytes | memoryview) -> None:
    """Raise if a record of a large batch has too many headers; reads only lengths."""
    if len(data) <= EXAMINED_BYTES:
        return
    at, end = 0, len(data)
    try:
        while at < end:
            length, start = decode_varint(data, at)
            if length <= 0:
                return  # not a record: the parser raises the error
            if length > 2 * MAX_HEADERS:
                check_headers(data, start)
            at = start + length
    except (ValueError, IndexError):
        return  # as above


def check_headers(data: bytes | memoryview, at: int) -> None:
    """Raise if a record claims to have more headers than are read."""
    at += 1  # attributes
    _, at = decode_varint(data, at)
    _, at = decode_varint(data, at)
    for _ in ("key", "value"):
        size, at = decode_varint(data, at)
        at += max(size, 0)
    count, _ = decode_varint(data, at)
    if count > MAX_HEADERS:
        raise OversizedError(
            f"it has {count} headers, and at most {MAX_HEADERS} are read; correct the producer"
        )


def records_of(raw: memoryview) -> Iterator[Any]:
    """Yield the records of a batch, each parsed as a batch of its own, or an `Unreadable` in its place."""
    if len(raw) < HEAD.size or raw[16] < 2:
        raise CorruptRecordException("the batch has an unknown header")
    base, _, _, _, _, attributes, last, first, _, _, _, _, count = HEAD.unpack_from(raw)
    codec = attributes & _CODEC_BITS
    if codec >= len(DECODERS):
        raise CorruptRecordException(f"compression codec {codec} is unknown")
    data, at, expected = DECODERS[codec](raw[HEAD.size :]), 0, base
    head = bytearray(raw[: HEAD.size])
    struct.pack_into(">h", head, _ATTRIBUTES_AT, attributes & ~_CODEC_BITS)
    struct.pack_into(">i", head, _COUNT_AT, 1)
    for _ in range(count):
        if expected > base + last:
            return  # further records have no offset in this batch
        begin = at
        try:
            length, start = decode_varint(data, at)
        except (ValueError, IndexError) as error:
            raise CorruptRecordException(f"no record at byte {at}") from error
        at = start + length
        if length <= 0 or at > len(data):
            raise CorruptRecordException(f"a record of {length} bytes, but {len(data) - start} are left")
        try:
            check_headers(data, start)
            (record,) = DefaultRecordBatch(bytes(head) + data[begin:at])
            if not expected <= record.offset <= base + last:
                raise ValueError(f"its offset is {record.offset}, and the batch ends at {base + last}")
        except PARSER_ERRORS as error:
            reason: DecodeReason = "oversized" if isinstance(error, OversizedError) else "undecodable"
            detail = f"the record at offset {expected} cannot be read: {error}"
            record = Unreadable.of(data[start:at], expected, detail, reason, timestamp=first)
        expected = record.offset + 1
        yield record
