"""Process long texts in a child process, with limits on time and memory.

A long loop in Python or in a regular expression blocks the interpreter or the event loop: heartbeats stop,
and the consumer group removes the worker. Short texts are processed inline, because they take milliseconds in
the worst case. Longer ones go to a child process, which is killed at the time limit. It starts with the first
long text and ends with this process.
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
"""Texts up to this total size (`judge.task.reading_size`) are processed inline."""
DEFAULT_SECONDS: Final = 10.0
MAX_MEMORY_BYTES: Final = 160 * 1024 * 1024
"""Memory limit of the child; only the text that exceeds it fails."""
KEPT_BYTES: Final = 80 * 1024 * 1024
"""A child that has used more is ended after the call, to free its memory."""

P = ParamSpec("P")
T = TypeVar("T")


async def read(
    size: int, seconds: float, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs
) -> T:
    """Call a function over untrusted texts: inline if they are short, else in the child process.

    Args:
        size: Size of the texts (`judge.task.reading_size`).
        seconds: Time limit in the child; above 0.
        function: The function. It, its arguments and its result must be picklable; otherwise a thread runs
            it, which is abandoned, not ended, at the time limit.
        *args: For the function.
        **kwargs: For the function.

    Raises:
        EventError: `verification_timeout`: a limit of time or memory was exceeded; or raised by the function.
        RuntimeError: The function raised another exception; contains its type and text.
    """
    if size <= INLINE_BYTES:
        return function(*args, **kwargs)
    return await _shared().call(seconds, function, *args, **kwargs)


_kept_loaded: list[Callable[[], object]] = []


def keep_loaded(function: Callable[[], object]) -> None:
    """Make new children call a function when they start; its memory does not count against the limit.

    Args:
        function: Loads a language model, for instance; must be picklable.
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
        """Call a function in the child (see `read`)."""
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
                f"its texts need more than {held} MiB of memory; shorten them or lower "
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
        """Call a function that cannot be pickled in a thread of this process."""
        running = asyncio.get_running_loop().run_in_executor(self._spare, lambda: function(*args, **kwargs))
        try:
            return await asyncio.wait_for(asyncio.shield(running), seconds)
        except TimeoutError:
            self._spare = ThreadPoolExecutor(max_workers=1, thread_name_prefix="aside-unpickled")
            raise _too_long(seconds) from None


def _too_long(seconds: float) -> EventError:
    return EventError(
        "verification_timeout",
        f"processing its texts took longer than {seconds:g} s (judge.verification_seconds); shorten them or "
        "raise the limit",
    )
