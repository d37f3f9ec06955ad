"""Reads a record that has many parts in the child process for long texts, within its bounds.

Four megabytes of `{},{},...` become a gigabyte of objects, and reading them takes seconds: that stops neither
the event loop nor the worker. What has few parts is read at once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from judge.errors import EventError
from judge.task import READ_AT_ONCE
from judge.verdict import aside
from streams.errors import DecodeError, DecodeReason

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Refused:
    reason: DecodeReason
    detail: str


async def read_beside(
    size: int, function: Callable[..., T], /, *args: object, seconds: float = aside.DEFAULT_SECONDS
) -> T:
    """Call a function that reads a record: at once where it has few parts, else in the child.

    Args:
        size: How many parts there are.
        function: What reads, and raises DecodeError.
        *args: For the function.
        seconds: Bound on the time in the child; above 0.

    Raises:
        DecodeError: As the function; `oversized`: time or memory did not suffice.
    """
    if size <= READ_AT_ONCE:
        return function(*args)
    try:
        found = await aside.read(size, seconds, _tried, function, args)
    except EventError:
        held = aside.MAX_MEMORY_BYTES // (1024 * 1024)
        raise DecodeError(
            "oversized",
            f"value: has so many parts that it cannot be read within {seconds:g} s "
            f"(judge.verification_seconds) and {held} MiB; send less in a record",
        ) from None
    if isinstance(found, _Refused):
        raise DecodeError(found.reason, found.detail)
    return found


def _tried(function: Callable[..., T], args: tuple[object, ...]) -> T | _Refused:
    """Runs in the child, from which only errors of `judge` come back as they are."""
    try:
        return function(*args)
    except DecodeError as error:
        return _Refused(error.reason, error.detail)
