"""Finds records with more headers than any producer writes, before aiokafka's parser makes objects of them.

A header takes two bytes, and its object a hundred: 10 KB of zstd can hold 500 MB of headers. A batch with
such a record is parsed by `streams.kafka.transport.salvage`, which gives up that record alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from aiokafka.errors import CorruptRecordException
from aiokafka.record.util import decode_varint

MAX_HEADERS: Final = 1_000
"""Headers of one record."""
EXAMINED_BYTES: Final = 1024 * 1024
"""The headers of a smaller batch are no more than memory and time allow; they are counted record by record.
"""
_LEAST_BYTES: Final = 2 * MAX_HEADERS


class CrowdedError(CorruptRecordException):  # type: ignore[misc]  # aiokafka is not annotated
    """A record has more than `MAX_HEADERS` headers."""


def examined(decode: Callable[[Any], bytes]) -> Callable[[Any], bytes]:
    """Make a function that decompresses and then examines.

    Raises:
        CrowdedError: A record in it has more headers than `MAX_HEADERS`.
    """

    def decoded(payload: Any) -> bytes:
        data = decode(payload)
        examine(data)
        return data

    return decoded


def examine(data: bytes | memoryview) -> None:
    """Look at the records of a batch, decompressed; at their lengths and no more.

    Raises:
        CrowdedError: One has more headers than `MAX_HEADERS`.
    """
    if len(data) <= EXAMINED_BYTES:
        return
    at, end = 0, len(data)
    try:
        while at < end:
            length, start = decode_varint(data, at)
            if length <= 0:
                return  # no record: the parser says so
            if length > _LEAST_BYTES and _headers(data, start) > MAX_HEADERS:
                raise CrowdedError(f"a record has more than {MAX_HEADERS} headers")
            at = start + length
    except (ValueError, IndexError):
        return  # as above


def _headers(data: bytes | memoryview, at: int) -> int:
    """How many headers the record whose fields begin here says to have."""
    at += 1  # attributes
    _, at = decode_varint(data, at)
    _, at = decode_varint(data, at)
    for _ in ("key", "value"):
        size, at = decode_varint(data, at)
        at += max(size, 0)
    return int(decode_varint(data, at)[0])
