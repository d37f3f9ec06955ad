"""The event loop of a command, with a clean stop on SIGINT and SIGTERM."""

from __future__ import annotations

import asyncio
import faulthandler
import gc
import signal
import sys
from collections.abc import Callable, Coroutine
from typing import Any, Literal, TypeVar

from streams.cli.errors import BadUsageError

T = TypeVar("T")
EventLoop = Literal["asyncio", "uvloop"]
STDERR = 2

SWITCH_SECONDS = 0.0005
"""Python's thread switch interval. With the default 5 ms, a worker's fetching thread and its event loop spend
more time waiting for each other than working."""


class Stop(asyncio.Event):
    """Set by a signal, whose name is the reason."""

    reason = "asked to"


def run_until_stopped(
    main: Callable[[asyncio.Event], Coroutine[Any, Any, T]], *, loop: EventLoop = "asyncio"
) -> T:
    """Run a coroutine function with a stop event that SIGINT and SIGTERM set.

    The first signal sets the event, so the coroutine can finish its work. A second one ends the process.

    Args:
        main: Receives the event; must return soon after it is set.

    Raises:
        BadUsageError: uvloop is not installed.
    """
    faulthandler.enable(STDERR)  # a crash of a C extension leaves the stack of each thread
    sys.setswitchinterval(SWITCH_SECONDS)
    # Objects loaded so far live until the end. Scanning them in each full garbage collection took a quarter
    # of the time for reading a record.
    gc.freeze()
    with asyncio.Runner(loop_factory=_loop_factory(loop)) as runner:
        return runner.run(_with_signals(main))


async def _with_signals(main: Callable[[asyncio.Event], Coroutine[Any, Any, T]]) -> T:
    loop = asyncio.get_running_loop()
    stop = Stop()

    def ask(asked: signal.Signals) -> None:
        stop.reason = asked.name
        stop.set()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)
            signal.signal(number, signal.SIG_DFL)

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, ask, number)
    return await main(stop)


def _loop_factory(loop: EventLoop) -> Callable[[], asyncio.AbstractEventLoop] | None:
    if loop == "asyncio":
        return None
    try:
        import uvloop  # noqa: PLC0415 - an optional extra
    except ImportError as error:
        raise BadUsageError(
            "judge.event_loop: uvloop is not installed; pip install 'judgestream[uvloop]', or asyncio"
        ) from error
    return uvloop.new_event_loop
