"""How a command runs and ends: its errors, its event loop with a clean stop, its output."""

from __future__ import annotations

import asyncio
import contextlib
import faulthandler
import gc
import json
import signal
import sys
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, TypeVar

import typer

T = TypeVar("T")
SWITCH_SECONDS = 0.0005
"""With Python's default of 5 ms, fetching thread and event loop wait for each other more than they work."""


class CommandError(Exception):
    """The command failed (exit code 1); the message is printed after `error:`."""


class BadUsageError(CommandError):
    """Nothing was tried (exit code 2): an argument or the configuration is invalid."""


class Stop(asyncio.Event):
    """Set by a signal, whose name is the reason."""

    reason = "asked to"


def run_until_stopped(main: Callable[[asyncio.Event], Coroutine[Any, Any, T]]) -> T:
    """Run `main` with an event that the first SIGINT or SIGTERM sets; a second one ends the process."""
    faulthandler.enable(2)  # on standard error, a crash of a C extension leaves the stack of each thread
    sys.setswitchinterval(SWITCH_SECONDS)
    # Objects loaded so far live until the end. Scanning them in each full garbage collection took a quarter
    # of the time for reading a record.
    gc.freeze()
    return asyncio.run(_with_signals(main))


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


async def until(stop: asyncio.Event, work: Coroutine[Any, Any, T]) -> T | None:
    """Return a coroutine's result; None if a signal came first, which cancels it."""
    running, stopping = asyncio.create_task(work), asyncio.create_task(stop.wait())
    try:
        await asyncio.wait({running, stopping}, return_when=asyncio.FIRST_COMPLETED)
        return running.result() if running.done() else None
    finally:
        await cancel(running, stopping)


async def cancel(*tasks: asyncio.Task[Any]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def emit(value: Any, lines: Iterable[str], *, as_json: bool) -> None:
    emit_each([value], lines, as_json=as_json)


def emit_each(values: Iterable[Any], lines: Iterable[str], *, as_json: bool) -> None:
    for line in map(json_text, values) if as_json else lines:
        typer.echo(line)


def tell(text: str) -> None:
    typer.echo(text, err=True)


def agrees(question: str, *, yes: bool) -> bool:
    if yes:
        tell(question.removesuffix("?"))
        return True
    if not sys.stdin.isatty():
        raise BadUsageError(f"{question} add --yes to run without a prompt")
    return typer.confirm(question, err=True)


def json_text(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text.encode("utf-8", "backslashreplace").decode()  # lone surrogates


def help_without_command(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        with contextlib.redirect_stdout(sys.stderr):
            text = context.get_help()  # where Typer formats it with Rich, it is printed already
        if text.strip():
            typer.echo(text, err=True)
        raise typer.Exit(2)
