"""A placeholder for records that cannot be read."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Self

from streams.errors import DecodeReason


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Replaces records that cannot be read: the fields of a record, and the error.

    Args:
        size: Size in bytes, as fetched.
        sha256: SHA-256 of these bytes.
        records: Number of records, as far as it is known; at least 1.
        timestamp: In milliseconds; None if unknown.
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
        """Create a placeholder for bytes that cannot be read."""
        digest = hashlib.sha256(raw).hexdigest()
        return cls(offset, reason, detail, len(raw), digest, records, timestamp)

    @property
    def key(self) -> None:
        """Unknown."""

    @property
    def value(self) -> None:
        """Unknown."""

    @property
    def timestamp_type(self) -> None:
        """Unknown."""

    @property
    def checksum(self) -> None:
        """Unknown."""

    @property
    def headers(self) -> tuple[()]:
        """Unknown."""
        return ()
