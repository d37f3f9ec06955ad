"""Checks the CRC-32C of fetched records by the processor's own instruction.

aiokafka computes the checksum in portable C, at a tenth of the speed that the processor has an instruction
for: with records of 4 KB it is the most expensive part of reading one. `google-crc32c`, an extra, uses the
instruction. It only vouches for what it has checked: of anything else aiokafka checks the sum itself, and
says itself what is wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import Any, Final

Extend = Callable[[int, bytes], int]
"""Takes the sum of what went before (0 for nothing) and more bytes, gives the sum of both."""

_HEAD: Final = Struct(">qiibI")
"""The beginning of a batch: base offset, length of what follows it, leader epoch, magic, CRC-32C of the rest.
"""
_BEFORE_LENGTH_ENDS: Final = 12
_MAGIC: Final = 2
"""Since Kafka 0.11. Earlier batches carry another sum at another place."""
_PIECE_BYTES: Final = 64 * 1024
"""Summed at a time. `google-crc32c` takes whole `bytes` alone, and a piece of this size is copied within the
cache."""


def hardware_crc32c() -> Extend | None:
    """The function, or None where the extra is not installed or has no compiled part here."""
    try:
        import google_crc32c  # noqa: PLC0415 - an extra: faster where it is there
    except ImportError:
        return None
    if google_crc32c.implementation != "c":
        return None
    extend: Extend = google_crc32c.extend
    return extend


def sums_hold(records: bytes, extend: Extend) -> bool:
    """Whether every whole batch of a fetched partition has the sum that it says.

    False also if that is unknown.

    Args:
        records: The batches of one partition. The broker may truncate the last one, which is then not read.
        extend: Computes sums.
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
    """Stands between an aiokafka fetcher and its client, and looks at replies on their way.

    The fetcher takes a reply apart as soon as it has it, without a pause, so that its switch for checking can
    be set for each.

    Args:
        fetcher: Told whether it has to check.
        client: Asked in the fetcher's stead.
        extend: Computes sums.
    """

    def __init__(self, fetcher: Any, client: Any, extend: Extend) -> None:
        self._fetcher = fetcher
        self._client = client
        self._extend = extend

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    async def send(self, *args: Any, **kwargs: Any) -> Any:
        """Send a request and give the reply."""
        reply = await self._client.send(*args, **kwargs)
        self._fetcher._check_crcs = not self._vouch(reply)  # noqa: SLF001 - aiokafka has no setting for one reply
        return reply

    def _vouch(self, reply: Any) -> bool:
        try:
            # Fields of a partition differ by version; its records are the last one in all of them.
            return all(
                not partition[-1] or sums_hold(partition[-1], self._extend)
                for _, partitions in reply.topics
                for partition in partitions
            )
        except (AttributeError, TypeError, ValueError):
            return False  # no reply to a fetch, or one of a form that is not known here
