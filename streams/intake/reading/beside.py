"""Read a record with many parts in the child process for long texts, within its limits.

Four megabytes of `{},{},...` become a gigabyte of objects and take seconds to read; in the child they block
neither the event loop nor the worker. Records with few parts are read directly.
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
    """Call a function that reads a record: directly if it has few parts, else in the child process.

    Args:
        size: Number of parts.
        function: Reads the record, or raises DecodeError.
        *args: Arguments of the function.
        seconds: Timeout in the child; above 0.

    Raises:
        DecodeError: The function raised it; or `oversized`: time or memory did not suffice.
    """
    if size <= READ_AT_ONCE:
        return function(*args)
    try:
        found = await aside.read(size, seconds, _tried, function, args)
    except EventError:
        held = aside.MAX_MEMORY_BYTES // (1024 * 1024)
        raise DecodeError(
            "oversized",
            f"value: has too many parts to be read within {seconds:g} s "
            f"(judge.verification_seconds) and {held} MiB; send less in a record",
        ) from None
    if isinstance(found, _Refused):
        raise DecodeError(found.reason, found.detail)
    return found


def _tried(function: Callable[..., T], args: tuple[object, ...]) -> T | _Refused:
    """Run in the child process, which can return only errors of `judge` as exceptions."""
    try:
        return function(*args)
    except DecodeError as error:
        return _Refused(error.reason, error.detail)
