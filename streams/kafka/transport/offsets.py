"""The book of one partition: which delivered offsets are unfinished, and how far may be committed."""

from __future__ import annotations

from collections import deque


class OffsetBook:
    """Keeps the delivered offsets of one partition in order.

    Offsets are delivered in rising order and finished in any order. What may be committed is the first
    unfinished offset, or the position behind everything read when nothing is unfinished. Records that are
    read and passed over need no entry: moving the position is enough.

    One book covers one stay on a partition: when the partition is revoked or read again from elsewhere, a new
    book takes its place, and what still finishes under the old one is of no consequence.

    Args:
        position: The offset that will be read next, or None while that is not known.
    """

    __slots__ = ("_pending", "_position", "_unfinished")

    def __init__(self, position: int | None = None) -> None:
        # (offset, timestamp in seconds or None); the timestamp only tells how old the oldest unfinished
        # record is.
        self._pending: deque[tuple[int, float | None]] = deque()
        self._unfinished: set[int] = set()
        self._position = position

    @property
    def position(self) -> int | None:
        """The offset behind the last one read; None before the first."""
        return self._position

    @property
    def committable(self) -> int | None:
        """The highest offset that may be committed without losing anything; None where nothing is known."""
        return self._pending[0][0] if self._pending else self._position

    @property
    def unfinished(self) -> int:
        """Delivered offsets that are not finished."""
        return len(self._unfinished)

    @property
    def oldest_timestamp(self) -> float | None:
        """The record timestamp of the first unfinished offset, in seconds since the epoch."""
        return self._pending[0][1] if self._pending else None

    def deliver(self, offset: int, timestamp: float | None = None) -> None:
        """Note that a record was handed on.

        Args:
            offset: Its offset; must not be below the position.
            timestamp: Its timestamp in seconds since the epoch, if it has one.

        Raises:
            ValueError: The offset was read before; the partition needs a new book.
        """
        if self._position is not None and offset < self._position:
            raise ValueError(
                f"offset must be at least the position {self._position}, got {offset}; "
                "a partition that is read again needs a new book"
            )
        self._pending.append((offset, timestamp))
        self._unfinished.add(offset)
        self._position = offset + 1

    def advance(self, position: int) -> None:
        """Note that everything below `position` was read; what was not delivered was passed over."""
        if self._position is None or position > self._position:
            self._position = position

    def finish(self, offset: int) -> bool:
        """Note that a delivered record is done with.

        Returns:
            Whether this changed the book: False for an offset that is finished already or was never
            delivered.
        """
        unfinished, pending = self._unfinished, self._pending
        if offset not in unfinished:
            return False
        unfinished.remove(offset)
        while pending and pending[0][0] not in unfinished:
            pending.popleft()
        return True
