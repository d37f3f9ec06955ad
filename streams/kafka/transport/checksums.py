"""Check the CRC-32C of fetched records with the processor's CRC instruction.

aiokafka computes the checksum in portable C, at a tenth of the speed: for records of 4 KB it is the largest
cost of reading. `google-crc32c`, an extra, uses the instruction. If a check fails or is not possible,
aiokafka checks the batch itself and raises its own error.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import Any, Final

Extend = Callable[[int, bytes], int]
"""Return the sum of the data so far, given its sum (0 for no data), extended by more bytes."""

_HEAD: Final = Struct(">qiibI")
"""The head of a batch: base offset, length of the rest, leader epoch, magic, CRC-32C of the rest."""
_BEFORE_LENGTH_ENDS: Final = 12
_MAGIC: Final = 2
"""Magic byte since Kafka 0.11. Earlier batches have another checksum at another position."""
_PIECE_BYTES: Final = 64 * 1024
"""Bytes per call. `google-crc32c` takes only `bytes`, and a copy of this size fits into the cache."""


def hardware_crc32c() -> Extend | None:
    """Return the function; None if the extra is not installed or not compiled for this platform."""
    try:
        import google_crc32c  # noqa: PLC0415 - an extra: faster where it is there
    except ImportError:
        return None
    if google_crc32c.implementation != "c":
        return None
    extend: Extend = google_crc32c.extend
    return extend


def sums_hold(records: bytes, extend: Extend) -> bool:
    """Return whether every complete batch of a fetched partition has a correct checksum.

    Return False also if a batch cannot be checked.
    """
    at, end = 0, len(records)
    while end - at >= _HEAD.size:
        _, length, _, magic, said = _HEAD.unpack_from(records, at)
        start, following = at + _HEAD.size, at + _BEFORE_LENGTH_ENDS + length
        if following > end:
            return True
        if magic != _MAGIC or following < start:
            return False
        crc = 0
        for piece in range(start, following, _PIECE_BYTES):
            crc = extend(crc, records[piece : min(piece + _PIECE_BYTES, following)])
        if crc != said:
            return False
        at = following
    return True


class VouchingClient:
    """Wraps the client of an aiokafka fetcher, to check the responses.

    The fetcher parses a response without an await in between, so its `_check_crcs` can be set per response.
    """

    def __init__(self, fetcher: Any, client: Any, extend: Extend) -> None:
        self._fetcher = fetcher
        self._client = client
        self._extend = extend

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    async def send(self, *args: Any, **kwargs: Any) -> Any:
        """Send a request and return the response."""
        reply = await self._client.send(*args, **kwargs)
        self._fetcher._check_crcs = not self._vouch(reply)  # noqa: SLF001 - aiokafka has no setting for one reply
        return reply

    def _vouch(self, reply: Any) -> bool:
        try:
            # The fields of a partition differ by version; the records are always last.
            return all(
                not partition[-1] or sums_hold(partition[-1], self._extend)
                for _, partitions in reply.topics
                for partition in partitions
            )
        except (AttributeError, TypeError, ValueError):
            return False  # not a fetch response, or of an unknown form
