"""Detect records with more headers than any producer writes, before aiokafka's parser creates objects.

A header takes two bytes, and its object a hundred: 10 KB of zstd can hold 500 MB of headers. A batch with
such a record is parsed by `streams.kafka.transport.salvage`, which rejects only that record.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from aiokafka.errors import CorruptRecordException
from aiokafka.record.util import decode_varint

MAX_HEADERS: Final = 1_000
"""Maximum headers of one record."""
EXAMINED_BYTES: Final = 1024 * 1024
"""Smaller batches are not examined here: the memory for their headers is bounded."""
_LEAST_BYTES: Final = 2 * MAX_HEADERS


class CrowdedError(CorruptRecordException):  # type: ignore[misc]  # aiokafka is not annotated
    """A record has more than `MAX_HEADERS` headers."""


def examined(decode: Callable[[Any], bytes]) -> Callable[[Any], bytes]:
    """Wrap a decompression function so that it examines the result.

    Raises:
        CrowdedError: A record has more headers than `MAX_HEADERS`.
    """

    def decoded(payload: Any) -> bytes:
        data = decode(payload)
        examine(data)
        return data

    return decoded


def examine(data: bytes | memoryview) -> None:
    """Examine the records of a decompressed batch; reads only their lengths.

    Raises:
        CrowdedError: A record has more headers than `MAX_HEADERS`.
    """
    if len(data) <= EXAMINED_BYTES:
        return
    at, end = 0, len(data)
    try:
        while at < end:
            length, start = decode_varint(data, at)
            if length <= 0:
                return  # not a record: the parser raises the error
            if length > _LEAST_BYTES and _headers(data, start) > MAX_HEADERS:
                raise CrowdedError(f"a record has more than {MAX_HEADERS} headers")
            at = start + length
    except (ValueError, IndexError):
        return  # the parser raises the error


def _headers(data: bytes | memoryview, at: int) -> int:
    """Return the number of headers that a record claims to have."""
    at += 1  # attributes
    _, at = decode_varint(data, at)
    _, at = decode_varint(data, at)
    for _ in ("key", "value"):
        size, at = decode_varint(data, at)
        at += max(size, 0)
    return int(decode_varint(data, at)[0])
