"""Reading long texts in a process of its own, with a bound on time and memory.

A loop in Python or in an expression holds the interpreter's lock or the event loop while it runs: heartbeats
stop, and the worker is thrown out of its group. What is short is read at once, because that takes
milliseconds whatever it holds. The rest is read by a child process, which is killed when its time is over. It
starts with the first long text and ends with this process.
"""

from __future__ import annotations

import asyncio
import atexit
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from typing import Any, Final, ParamSpec, TypeVar

from judge.errors import EventError
from judge.task import READ_AT_ONCE
from judge.verdict.processes.child import (
    Child,
    ChildEndedError,
    ChildFullError,
    ChildLateError,
    ChildLimits,
    UnknownCallError,
    load_and_keep,
)

INLINE_BYTES: Final = READ_AT_ONCE
"""Texts whose size together (`judge.task.reading_size`) is no more are read at once."""
DEFAULT_SECONDS: Final = 10.0
MAX_MEMORY_BYTES: Final = 160 * 1024 * 1024
"""Of data that the child may hold; a text that needs more fails alone."""
KEPT_BYTES: Final = 80 * 1024 * 1024
"""A child that has held more ends, so that what it does not give back does not stay."""

P = ParamSpec("P")
T = TypeVar("T")


async def read(
    size: int, seconds: float, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs
) -> T:
    """Call a function that reads foreign texts: at once where they are short, else aside.

    Args:
        size: How much there is to read (`judge.task.reading_size`).
        seconds: Bound on the time in the child; above 0.
        function: What reads; what it is, is given and gives must be fit to be pickled. Where it is not, a
            thread runs it, which the bound leaves behind and does not end.
        *args: For the function.
        **kwargs: For the function.

    Raises:
        EventError: `verification_timeout`: time or memory did not suffice; or what the function raises.
        RuntimeError: The function raised something else; its type and text.
    """
    if size <= INLINE_BYTES:
        return function(*args, **kwargs)
    return await _shared().call(seconds, function, *args, **kwargs)


_kept_loaded: list[Callable[[], object]] = []


def keep_loaded(function: Callable[[], object]) -> None:
    """Have the child call a function when it starts; the memory that this takes stays and is not counted.

    Args:
        function: Such as loads a language model; fit to be pickled. For children that start after this.
    """
    _kept_loaded[:] = [function]


@cache
def _shared() -> Aside:
    aside = Aside()
    atexit.register(aside.close)
    return aside


class Aside:
    """One child process, one call at a time."""

    def __init__(self) -> None:
        first = partial(load_and_keep, _kept_loaded[0]) if _kept_loaded else None
        self._child = Child(ChildLimits(MAX_MEMORY_BYTES, KEPT_BYTES, first=first), name="aside")
        self._spare = ThreadPoolExecutor(max_workers=1, thread_name_prefix="aside-unpickled")

    async def call(self, seconds: float, function: Callable[..., T], /, *args: Any, **kwargs: Any) -> T:
        """Call a function in the child; see `read`."""
        try:
            value: T = await self._child.call(seconds, function, *args, **kwargs)
        except UnknownCallError:
            return await self._beside(seconds, function, args, kwargs)
        except ChildLateError:
            raise _too_long(seconds) from None
        except (ChildFullError, ChildEndedError):
            held = MAX_MEMORY_BYTES // (1024 * 1024)
            raise EventError(
                "verification_timeout",
                f"its texts need more than the {held} MiB in which they may be read; shorten them or lower "
                "judge.max_context_chars",
            ) from None
        return value

    def close(self) -> None:
        """End the child."""
        self._child.close()
        self._spare.shutdown(wait=False, cancel_futures=True)

    async def _beside(
        self, seconds: float, function: Callable[..., T], args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> T:
        """Call a function that cannot be sent to the child in a thread of this process."""
        running = asyncio.get_running_loop().run_in_executor(self._spare, lambda: function(*args, **kwargs))
        try:
            return await asyncio.wait_for(asyncio.shield(running), seconds)
        except TimeoutError:
            self._spare = ThreadPoolExecutor(max_workers=1, thread_name_prefix="aside-unpickled")
            raise _too_long(seconds) from None


def _too_long(seconds: float) -> EventError:
    return EventError(
        "verification_timeout",
        f"reading its texts took longer than {seconds:g} s (judge.verification_seconds); shorten them or "
        "raise the bound",
    )
