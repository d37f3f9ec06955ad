"""How much one OTLP request may hold: an empty span takes two bytes, and what is made of it a kilobyte."""

from __future__ import annotations

from typing import Final

from streams.errors import DecodeError

MAX_SPANS: Final = 20_000
"""Spans and log records, with their scopes and resources. A Collector's batch has 8,192 by default."""
MAX_PARTS: Final = 100_000
"""Attributes, with what is within them, and events."""
MAX_OBJECTS: Final = 250_000
"""Opening brackets of a request in JSON: an attribute has two, and more than 30 bytes."""
EVENT_PARTS: Final = 4
"""What an event of a span counts for."""


class Budget:
    """What is left of what a request, or a trace of several, may hold.

    Args:
        limit: How much it may be.
        of: Of what.
    """

    def __init__(self, limit: int, of: str) -> None:
        self._left = self._limit = limit
        self._of = of

    def take(self, count: int) -> None:
        """Count something before it is read.

        Raises:
            DecodeError: It is too much.
        """
        self._left -= count
        if self._left < 0:
            raise DecodeError(
                "oversized",
                f"value: must have at most {self._limit} {self._of}; "
                "lower send_batch_size and send_batch_max_size of the Collector's batch processor",
            )


def spans_budget() -> Budget:
    """For spans, log records, scopes and resources."""
    return Budget(MAX_SPANS, "spans, scopes and resources")


def parts_budget() -> Budget:
    """For attributes and events."""
    return Budget(MAX_PARTS, "attributes and events")


def check_objects(value: bytes) -> None:
    """Refuse a request in JSON that would become too many objects.

    Raises:
        DecodeError: It would.
    """
    Budget(MAX_OBJECTS, "objects in JSON").take(value.count(b"{") + value.count(b"["))
