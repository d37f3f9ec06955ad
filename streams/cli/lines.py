"""Opening files of lines, and showing the progress of reading them."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from streams.cli.errors import BadUsageError

_COUNT_BYTES = 1024 * 1024


@contextlib.contextmanager
def opened(file: Path) -> Iterator[BinaryIO]:
    """Open a file for reading; `-` is standard input.

    Raises:
        BadUsageError: The file cannot be read.
    """
    if str(file) == "-":
        yield sys.stdin.buffer
        return
    try:
        handle = file.open("rb")
    except OSError as error:
        raise BadUsageError(f"cannot read {file}: {error.strerror}") from error
    with handle:
        yield handle


@contextlib.contextmanager
def progress(file: Path, *, each: int = 1) -> Iterator[Callable[[], None]]:
    """Show a progress bar on standard error while it is a terminal.

    Args:
        file: The file; its lines are counted for the bar's length if possible.

    Yields:
        A function to call once per step.
    """
    if not sys.stderr.isatty():
        yield lambda: None
        return
    from rich.console import Console  # noqa: PLC0415 - only a terminal needs it
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn  # noqa: PLC0415 - as above

    columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        lines = _count_lines(file)
        task = bar.add_task("", total=None if lines is None else lines * each)
        yield lambda: bar.advance(task)


def _count_lines(file: Path) -> int | None:
    if not file.is_file():
        return None
    count = 0
    with file.open("rb") as handle:
        while block := handle.read(_COUNT_BYTES):
            count += block.count(b"\n")
    return count or None
