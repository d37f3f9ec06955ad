"""The command as a real process, with an environment of its own."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass

DEADLINE_SECONDS = 60.0
COMMAND = (sys.executable, "-c", "from streams.cli.main import run; run()")


@dataclass(frozen=True, slots=True)
class Ended:
    """How a process ended."""

    code: int
    out: str
    err: str


def clean_environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Give this process's environment without anything that steers judgestream."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("OPENAI_", "JUDGESTREAM_")) and name not in {"FORCE_COLOR", "COLUMNS"}
    }
    return kept | dict(extra or {})


async def judgestream(
    *arguments: str, env: Mapping[str, str] | None = None, stdin: bytes | None = None
) -> Ended:
    """Run the command to its end."""
    process = await asyncio.create_subprocess_exec(
        *COMMAND,
        *arguments,
        env=clean_environment(env),
        stdin=asyncio.subprocess.PIPE if stdin is not None else asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        out, err = await asyncio.wait_for(process.communicate(stdin), DEADLINE_SECONDS)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode is not None
    return Ended(process.returncode, out.decode(), err.decode())


class Service:
    """A command that runs until it is told to stop."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def line(self) -> str:
        """Give the next line of its standard output."""
        assert self._process.stdout is not None
        raw = await asyncio.wait_for(self._process.stdout.readline(), DEADLINE_SECONDS)
        return raw.decode().rstrip("\n")

    async def error_line(self) -> str:
        """Give the next line of its standard error."""
        assert self._process.stderr is not None
        raw = await asyncio.wait_for(self._process.stderr.readline(), DEADLINE_SECONDS)
        return raw.decode().rstrip("\n")

    async def stop(self, number: signal.Signals = signal.SIGTERM) -> Ended:
        """Send a signal and wait for the end."""
        self._process.send_signal(number)
        return await self.end()

    async def end(self) -> Ended:
        """Wait for the end."""
        out, err = await asyncio.wait_for(self._process.communicate(), DEADLINE_SECONDS)
        assert self._process.returncode is not None
        return Ended(self._process.returncode, out.decode(), err.decode())


@asynccontextmanager
async def running(*arguments: str, env: Mapping[str, str] | None = None) -> AsyncIterator[Service]:
    """Run the command beside the test; it is gone at the end."""
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
