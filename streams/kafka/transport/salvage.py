"""Parse the records of a batch one by one, if aiokafka's parser rejects the batch because of one record.

A header name that is not UTF-8 is read with escapes. A record whose inner lengths contradict its own length,
or that has too many headers, is unreadable; the others are not affected.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from struct import Struct
from typing import Any, Final

from aiokafka.errors import CorruptRecordException
from aiokafka.record.util import decode_varint

from streams.kafka.patches import codecs
from streams.kafka.patches.crowded import MAX_HEADERS
from streams.kafka.transport.unreadable import Unreadable

HEAD: Final = Struct(">qiibIhiqqqhii")
"""Fields of a batch: base offset, length, leader epoch, magic, CRC-32C, attributes, last offset delta, first
and last timestamp, producer's id and epoch, base sequence, number of records."""
_CODEC_BITS: Final = 0x07
_LOG_APPEND_TIME: Final = 0x08
CODECS: Final[dict[int, Callable[[Any], bytes]]] = {
    0: bytes,
    1: codecs.gzip_decode,
    2: codecs.snappy_decode,
    3: codecs.lz4_decode,
    4: codecs.zstd_decode,
}
"""Decoders by codec number in a batch's attributes."""


@dataclass(frozen=True, slots=True)
class Salvaged:
    """A record with the fields of aiokafka's records."""

    offset: int
    timestamp: int
    timestamp_type: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]

    @property
    def checksum(self) -> None:
        """None since Kafka 0.11."""


def records_of(raw: memoryview) -> Iterator[Salvaged | Unreadable]:
    """Yield the records of one batch.

    Args:
        raw: The batch, in Kafka's format since 0.11.

    Raises:
        CorruptRecordException: The rest of the batch cannot be parsed; the records yielded before are valid.
    """
    if len(raw) < HEAD.size or raw[16] < 2:
        raise CorruptRecordException("the batch has an unknown header")
    base, _, _, _, _, attributes, last, first, latest, _, _, _, count = HEAD.unpack_from(raw)
    decode = CODECS.get(attributes & _CODEC_BITS)
    if decode is None:
        raise CorruptRecordException(f"compression codec {attributes & _CODEC_BITS} is unknown")
    data, at = decode(raw[HEAD.size :]), 0
    appended = bool(attributes & _LOG_APPEND_TIME)
    expected = base
    for _ in range(count):
        if expected > base + last:
            return  # further records have no offset in this batch
        length, start = _varint(data, at)
        at = start + length
        if length <= 0 or at > len(data):
            raise CorruptRecordException(f"a record of {length} bytes, but {len(data) - start} are left")
        body = data[start:at]
        try:
            record = _record(body, base, latest if appended else first, appended=appended)
            _check_offset(record.offset, expected, base + last)
        except _CrowdedRecordError as error:
            detail = f"the record at offset {expected} {error}"
            yield Unreadable.of(body, offset=expected, detail=detail, reason="oversized", timestamp=first)
            expected += 1
            continue
        except (ValueError, IndexError) as error:
            detail = f"the record at offset {expected} contradicts its own length: {error}"
            yield Unreadable.of(body, offset=expected, detail=detail, timestamp=first)
            expected += 1
            continue
        expected = record.offset + 1
        yield record


class _CrowdedRecordError(Exception):
    """A record has more headers than allowed."""


def _check_offset(offset: int, first: int, last: int) -> None:
    """Raise if an offset is out of order or beyond the batch: offsets up to it would be skipped."""
    if not first <= offset <= last:
        raise ValueError(f"its offset is {offset}, and the batch ends at {last}")


def too_many(count: int) -> str:
    """Format the error for a record with more headers than allowed."""
    return f"has {count} headers, and at most {MAX_HEADERS} are read; correct the producer"


def _record(body: bytes, base: int, moment: int, *, appended: bool) -> Salvaged:
    _, at = _varint(body, 0)  # attributes; none are defined
    later, at = _varint(body, at)
    delta, at = _varint(body, at)
    key, at = _bytes(body, at)
    value, at = _bytes(body, at)
    count, at = _varint(body, at)
    if count > MAX_HEADERS:
        raise _CrowdedRecordError(too_many(count))
    headers = []
    for _ in range(count):
        name, at = _bytes(body, at)
        content, at = _bytes(body, at)
        headers.append(((name or b"").decode("utf-8", "backslashreplace"), content))
    if at != len(body) or count < 0 or delta < 0:
        raise ValueError(f"{len(body) - at} bytes are left over")
    return Salvaged(
        base + delta, moment if appended else moment + later, int(appended), key, value, tuple(headers)
    )


def _varint(data: bytes, at: int) -> tuple[int, int]:
    try:
        value, after = decode_varint(data, at)
    except (ValueError, IndexError) as error:
        raise CorruptRecordException(f"no varint at byte {at}") from error
    return value, after


def _bytes(data: bytes, at: int) -> tuple[bytes | None, int]:
    length, at = decode_varint(data, at)
    if length < 0:
        return None, at
    if at + length > len(data):
        raise ValueError(f"{length} bytes, but {len(data) - at} are left")
    return data[at : at + length], at + length
