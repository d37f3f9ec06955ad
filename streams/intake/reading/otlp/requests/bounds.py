"""Limits of one OTLP request: an empty span takes two bytes, and its Python object a kilobyte."""

from __future__ import annotations

from typing import Final

from streams.errors import DecodeError

MAX_SPANS: Final = 20_000
"""Spans and log records, with their scopes and resources. A Collector's batch has 8,192 by default."""
MAX_PARTS: Final = 100_000
"""Attributes, their nested values, and events."""
MAX_OBJECTS: Final = 250_000
"""Opening brackets of a request in JSON; an attribute has two in at least 30 bytes."""
EVENT_PARTS: Final = 4
"""Parts that an event of a span counts as."""


class Budget:
    """Counts the objects of a request against a limit.

    Args:
        limit: Greatest number.
        of: Names what is counted.
    """

    def __init__(self, limit: int, of: str) -> None:
        self._left = self._limit = limit
        self._of = of

    def take(self, count: int) -> None:
        """Count objects before they are read.

        Raises:
            DecodeError: The limit is exceeded.
        """
        self._left -= count
        if self._left < 0:
            raise DecodeError(
                "oversized",
                f"value: must have at most {self._limit} {self._of}; "
                "lower send_batch_size and send_batch_max_size of the Collector's batch processor",
            )


def spans_budget() -> Budget:
    """A budget for spans, log records, scopes and resources."""
    return Budget(MAX_SPANS, "spans, scopes and resources")


def parts_budget() -> Budget:
    """A budget for attributes and events."""
    return Budget(MAX_PARTS, "attributes and events")


def check_objects(value: bytes) -> None:
    """Refuse a request in JSON with too many objects.

    Raises:
        DecodeError: It has more than MAX_OBJECTS.
    """
    Budget(MAX_OBJECTS, "objects in JSON").take(value.count(b"{") + value.count(b"["))
