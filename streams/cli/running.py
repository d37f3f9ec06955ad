"""An event loop for a command that runs until it is done or a person asks it to stop."""

from __future__ import annotations

import asyncio
import gc
import signal
import sys
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

SWITCH_SECONDS = 0.0005
"""How long a thread of Python may keep the others waiting. A worker fetches in one thread and decides in
another, and with the usual 5 ms they spend more time waiting for each other than working."""


def run_until_stopped(main: Callable[[asyncio.Event], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine function with a stop event that SIGINT and SIGTERM set.

    The first signal asks: the coroutine ends its work in its own order. A second one does what the signal
    does by default, for anyone who does not want to wait.

    Args:
        main: Gets the event, and returns soon after it is set.
    """
    sys.setswitchinterval(SWITCH_SECONDS)
    # What is loaded by now stays for good. The cyclic garbage collector would walk through all of it every
    # few hundred records, which took a quarter of the time that reading a record takes.
    gc.freeze()
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        return runner.run(_with_signals(main))


async def _with_signals(main: Callable[[asyncio.Event], Coroutine[Any, Any, T]]) -> T:
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()

    def ask() -> None:
        stop.set()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)
            signal.signal(number, signal.SIG_DFL)

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, ask)
    return await main(stop)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop  # noqa: PLC0415 - an extra: faster where it is there
    except ImportError:
        return None
    return uvloop.new_event_loop
