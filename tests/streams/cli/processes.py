"""Runs the command in this process, or as a process with a clean environment."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from streams.cli.main import run

DEADLINE_SECONDS = 100.0


def call(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        run(arguments)
    assert isinstance(ended.value.code, int)
    return ended.value.code


@dataclass(frozen=True, slots=True)
class Ended:
    code: int
    out: str
    err: str

    def done(self) -> Ended:
        assert self.code == 0, self
        return self

    def fails(self, *texts: str, code: int = 2) -> None:
        assert self.code == code, self.err
        for text in texts:
            assert text in self.err


def is_ours(name: str) -> bool:
    """Return whether judgestream reads an environment variable."""
    return name.startswith(("OPENAI_", "JUDGESTREAM_")) or name in {"FORCE_COLOR", "COLUMNS"}


def clean_environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not is_ours(name)} | dict(extra or {})


_SERVER: Final = multiprocessing.get_context("forkserver")
_SERVER.set_forkserver_preload(["streams.cli.main", "streams.cli.file_run", "streams.worker.run"])
"""Processes fork from a server that has imported the modules: this saves a second for each process."""


class Service:
    """The command in a process, with its output in files."""

    def __init__(
        self, folder: Path, arguments: Sequence[str], env: Mapping[str, str] | None, stdin: bytes = b""
    ) -> None:
        self._paths = [folder / name for name in ("in", "out", "err")]
        for path in self._paths:
            path.write_bytes(stdin if path.name == "in" else b"")
        self._read = dict.fromkeys(self._paths, 0)
        self._process: Any = _SERVER.Process(
            target=_command, args=(arguments, clean_environment(env), str(Path.cwd()), self._paths)
        )
        self._process.start()

    async def line(self) -> str:
        return await self._line(self._paths[1])

    async def error_line(self) -> str:
        return await self._line(self._paths[2])

    async def _line(self, path: Path) -> str:
        deadline = time.monotonic() + DEADLINE_SECONDS
        while (line := self._next(path, ended=not self._process.is_alive())) is None:
            assert time.monotonic() < deadline, self._ended()
            await asyncio.sleep(0.02)
        return line

    def _next(self, path: Path, *, ended: bool) -> str | None:
        line, newline, _ = path.read_bytes()[self._read[path] :].partition(b"\n")
        if not newline and not ended:
            return None
        self._read[path] += len(line) + len(newline)
        return line.decode()

    async def stop(self, number: signal.Signals = signal.SIGTERM) -> Ended:
        os.kill(self._process.pid, number)
        return await self.end()

    async def end(self) -> Ended:
        await asyncio.to_thread(self._process.join, DEADLINE_SECONDS)
        assert self._process.exitcode is not None, self._ended()
        return self._ended()

    def _ended(self) -> Ended:
        """Return the output that was not read yet."""
        out, err = (path.read_bytes()[self._read[path] :].decode() for path in self._paths[1:])
        return Ended(-1 if self._process.exitcode is None else self._process.exitcode, out, err)

    async def kill(self) -> None:
        if self._process.is_alive():
            self._process.kill()
            await asyncio.to_thread(self._process.join)
        self._process.close()


@asynccontextmanager
async def running(
    *arguments: str, env: Mapping[str, str] | None = None, stdin: bytes = b""
) -> AsyncIterator[Service]:
    """Run the command in a process of its own and kill it at the end of the block."""
    with tempfile.TemporaryDirectory() as name:
        service = Service(Path(name), arguments, env, stdin)
        try:
            yield service
        finally:
            await service.kill()


async def judgestream(*arguments: str, env: Mapping[str, str] | None = None, stdin: bytes = b"") -> Ended:
    async with running(*arguments, env=env, stdin=stdin) as service:
        return await service.end()


def _command(arguments: Sequence[str], env: Mapping[str, str], cwd: str, paths: Sequence[Path]) -> None:
    """Run the command in a forked process, with its own environment and standard streams."""
    os.environ.clear()
    os.environ.update(env)
    os.chdir(cwd)
    for number, path in enumerate(paths):
        os.dup2(os.open(path, os.O_WRONLY if number else os.O_RDONLY), number)
    sys.stdin, sys.stdout, sys.stderr = os.fdopen(0), os.fdopen(1, "w"), os.fdopen(2, "w")
    run(arguments)
