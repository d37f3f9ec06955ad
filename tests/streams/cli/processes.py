"""Runs the command as a process with a clean environment."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

DEADLINE_SECONDS = 60.0
COMMAND = (sys.executable, "-c", "from streams.cli.main import run; run()")


@dataclass(frozen=True, slots=True)
class Ended:
    """Exit code and output of a process."""

    code: int
    out: str
    err: str


def clean_environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment without the variables that judgestream reads, plus `extra`."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("OPENAI_", "JUDGESTREAM_")) and name not in {"FORCE_COLOR", "COLUMNS"}
    }
    return kept | dict(extra or {})


_SERVER: Final = multiprocessing.get_context("forkserver")
_SERVER.set_forkserver_preload(
    ["streams.cli.main", "streams.cli.commands.judge", "streams.cli.file_run", "streams.worker.run"]
)
"""Processes fork from a server that has imported the modules: this saves a second for each process."""


async def judgestream(
    *arguments: str, env: Mapping[str, str] | None = None, stdin: bytes | None = None
) -> Ended:
    """Run the command until it exits."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "in").write_bytes(stdin or b"")
        process = _SERVER.Process(
            target=_command, args=(arguments, clean_environment(env), str(Path.cwd()), folder)
        )
        process.start()
        try:
            await asyncio.to_thread(process.join, DEADLINE_SECONDS)
        finally:
            if process.is_alive():
                process.kill()
                await asyncio.to_thread(process.join)
        assert process.exitcode is not None
        return Ended(process.exitcode, (folder / "out").read_text(), (folder / "err").read_text())


def _command(arguments: Sequence[str], env: Mapping[str, str], cwd: str, folder: Path) -> None:
    """Run the command in a forked process, with its own environment and standard streams."""
    os.environ.clear()
    os.environ.update(env)
    os.chdir(cwd)
    for number, name, flags in (
        (0, "in", os.O_RDONLY),
        (1, "out", os.O_WRONLY | os.O_CREAT),
        (2, "err", os.O_WRONLY | os.O_CREAT),
    ):
        os.dup2(os.open(folder / name, flags), number)
    sys.stdin, sys.stdout, sys.stderr = os.fdopen(0), os.fdopen(1, "w"), os.fdopen(2, "w")
    from streams.cli.main import run

    run(arguments)


class Service:
    """A command that runs until it receives a signal."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def line(self) -> str:
        """Return the next line of standard output."""
        assert self._process.stdout is not None
        raw = await asyncio.wait_for(self._process.stdout.readline(), DEADLINE_SECONDS)
        return raw.decode().rstrip("\n")

    async def error_line(self) -> str:
        """Return the next line of standard error."""
        assert self._process.stderr is not None
        raw = await asyncio.wait_for(self._process.stderr.readline(), DEADLINE_SECONDS)
        return raw.decode().rstrip("\n")

    async def stop(self, number: signal.Signals = signal.SIGTERM) -> Ended:
        """Send a signal and wait until the process exits."""
        self._process.send_signal(number)
        return await self.end()

    async def end(self) -> Ended:
        """Wait until the process exits."""
        out, err = await asyncio.wait_for(self._process.communicate(), DEADLINE_SECONDS)
        assert self._process.returncode is not None
        return Ended(self._process.returncode, out.decode(), err.decode())


@asynccontextmanager
async def running(*arguments: str, env: Mapping[str, str] | None = None) -> AsyncIterator[Service]:
    """Run the command in the background and kill it at the end of the block."""
    process = await asyncio.create_subprocess_exec(
        *COMMAND,
        *arguments,
        env=clean_environment(env),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        yield Service(process)
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()
