"""Decompress batches up to a limit, in place of aiokafka's functions, which have none.

One kilobyte of zstd can hold 400 MB; a worker that decompresses them runs out of memory and is killed, and so
is the next owner of the partition. A batch over the limit becomes a dead letter.
"""

from __future__ import annotations

import mmap
import struct
import zlib
from collections.abc import Callable, Iterator
from typing import Any, Final

from aiokafka.errors import CorruptRecordException

try:
    import cramjam
except ImportError:  # the extra `compression` is not installed: only gzip can be read
    cramjam = None  # type: ignore[assignment]

UNPACKED_BYTES: Final = 48 * 1024 * 1024
"""Largest batch that is decompressed. Producers limit batches before compression, to 16 KB up to 1 MB."""
_GZIP_WINDOW: Final = zlib.MAX_WBITS | 16
_GZIP_PIECE_BYTES: Final = 4096
"""Small, because the bytes after a member are copied: many small members would take quadratic time."""
_XERIAL_HEAD: Final = b"\x82SNAPPY\x00"
_XERIAL_HEAD_BYTES: Final = 16


class BatchTooLargeError(CorruptRecordException):  # type: ignore[misc]  # aiokafka is not annotated
    """A batch holds more than `UNPACKED_BYTES`."""

    def __init__(self) -> None:
        super().__init__(
            f"the batch holds more than {UNPACKED_BYTES} bytes decompressed; lower the producer's "
            "batch.size or max.request.size"
        )


def gzip_decode(payload: Any) -> bytes:
    """Decompress gzip.

    Raises:
        BatchTooLargeError: The batch holds more than `UNPACKED_BYTES`.
        CorruptRecordException: The data is not gzip.
    """
    given, at = memoryview(payload), 0
    parts, left = [], UNPACKED_BYTES
    while at < len(given):
        member = zlib.decompressobj(_GZIP_WINDOW)
        while not member.eof:
            if at >= len(given):
                raise CorruptRecordException("gzip: the data ends too soon")
            piece = given[at : at + _GZIP_PIECE_BYTES]
            at += len(piece)
            try:
                part = member.decompress(piece, left + 1)
            except zlib.error as error:
                raise CorruptRecordException(f"gzip: {error}") from error
            left -= len(part)
            if left < 0:
                raise BatchTooLargeError
            parts.append(part)
        at -= len(member.unused_data)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def zstd_decode(payload: Any) -> bytes:
    """Decompress zstd; raises as `gzip_decode` does."""
    return _decompress(cramjam.zstd.decompress_into, payload, "zstd")


def lz4_decode(payload: Any) -> bytes:
    """Decompress LZ4; raises as `gzip_decode` does."""
    return _decompress(cramjam.lz4.decompress_into, payload, "lz4")


def snappy_decode(payload: Any) -> bytes:
    """Decompress Snappy, raw or in Xerial's framing; raises as `gzip_decode` does."""
    parts, left = [], UNPACKED_BYTES
    for block in _snappy_blocks(memoryview(payload)):
        try:
            left -= cramjam.snappy.decompress_raw_len(block)
            if left < 0:
                raise BatchTooLargeError
            parts.append(bytes(cramjam.snappy.decompress_raw(block)))
        except (cramjam.DecompressionError, ValueError) as error:
            raise CorruptRecordException(f"snappy: {error}") from error
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _decompress(decompress_into: Callable[[Any, Any], int], payload: Any, codec: str) -> bytes:
    # Pages of an anonymous mapping are allocated when written, so the unused rest costs nothing.
    with mmap.mmap(-1, UNPACKED_BYTES) as room:
        try:
            size = decompress_into(payload, room)
        except (cramjam.DecompressionError, OSError, ValueError) as error:
            if "whole buffer" in str(error):  # from Rust's standard library: the buffer is full
                raise BatchTooLargeError from error
            raise CorruptRecordException(f"{codec}: {error}") from error
        return room[:size]


def _snappy_blocks(payload: memoryview) -> Iterator[memoryview]:
    if bytes(payload[: len(_XERIAL_HEAD)]) != _XERIAL_HEAD:
        yield payload
        return
    at = _XERIAL_HEAD_BYTES
    while at < len(payload):
        try:
            (size,) = struct.unpack_from(">i", payload, at)
        except struct.error as error:
            raise CorruptRecordException("snappy: the data ends too soon") from error
        if size < 0:
            raise CorruptRecordException(f"snappy: a block of {size} bytes")
        yield payload[at + 4 : at + 4 + size]
        at += 4 + size
