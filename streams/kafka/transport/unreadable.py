"""What stands in the place of records that cannot be read."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Self

from streams.errors import DecodeReason


@dataclass(frozen=True, slots=True)
class Unreadable:
    """In the place of records that cannot be read: has the fields of a record, and what is wrong.

    Args:
        offset: Of the first of them.
        reason: The dead letter's.
        detail: What is wrong, and with which offsets.
        size: Bytes, as they were fetched.
        sha256: Of these bytes.
        records: How many records, as far as that is known; at least 1.
        timestamp: In milliseconds, where it is known.
    """

    offset: int
    reason: DecodeReason
    detail: str
    size: int
    sha256: str
    records: int = 1
    timestamp: int | None = None

    @classmethod
    def of(
        cls,
        raw: bytes | memoryview,
        *,
        offset: int,
        detail: str,
        reason: DecodeReason = "undecodable",
        records: int = 1,
        timestamp: int | None = None,
    ) -> Self:
        """Make one of the bytes that cannot be read."""
        digest = hashlib.sha256(raw).hexdigest()
        return cls(offset, reason, detail, len(raw), digest, records, timestamp)

    @property
    def key(self) -> None:
        """Not known."""

    @property
    def value(self) -> None:
        """Not known."""

    @property
    def timestamp_type(self) -> None:
        """Not known."""

    @property
    def checksum(self) -> None:
        """Not known."""

    @property
    def headers(self) -> tuple[()]:
        """Not known."""
        return ()
