from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import aiohttp

from tests.integration.deadlines import until
from tests.places import ROOT

END_SECONDS: Final = 120.0
"""A worker ends within 35 s of SIGTERM; a busy machine takes longer."""
START_SECONDS: Final = 180.0
"""Imports take 2 s on an idle machine and took a minute on a busy one."""
READS: Final = '"event": "reading"'
"""Logged when a worker has its partitions."""
_LOG_TAIL_CHARS = 3_000


@dataclass(eq=False)
class Worker:
    """A worker process, restarted under the same name."""

    name: str
    command: Sequence[str]
    environment: dict[str, str]
    log: Path
    process: asyncio.subprocess.Process = field(init=False)
    restarts: int = -1
    _starts: int = 0

    @property
    def pid(self) -> int:
        return self.process.pid

    async def start(self) -> None:
        self._starts = len(self.lines(READS))
        self.restarts += 1
        with self.log.open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                *self.command, cwd=ROOT, env=self.environment, stdout=log, stderr=log
            )

    async def end(self, how: signal.Signals) -> int:
        """Send a signal and wait for the end; fails if the worker does not end in time."""
        process = self.process
        if process.returncode is None:
            # asyncio's send_signal polls the process, after which its watcher does not know the exit code.
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, how)
        try:
            return await asyncio.wait_for(process.wait(), END_SECONDS)
        except TimeoutError:
            process.kill()
            await process.wait()
            raise AssertionError(f"{self.name} did not end on {how.name}:\n{self.tail()}") from None

    async def restart(
        self, how: signal.Signals = signal.SIGTERM, program: Sequence[str] | None = None
    ) -> None:
        """End the process, expect the exit code of the signal, and start it again, or by another program."""
        assert await self.end(how) == (0 if how is signal.SIGTERM else -how), self.tail()
        if program is not None:
            self.command = [*program, *self.command[self.command.index("worker") :]]
        await self.start()

    async def reads(self) -> None:
        def reads() -> bool:
            assert self.process.returncode is None, f"{self.name} did not start:\n{self.tail()}"
            return len(self.lines(READS)) > self._starts

        await until(reads, f"{self.name} reads", deadline_seconds=START_SECONDS)

    def lines(self, text: str) -> list[str]:
        if not self.log.exists():
            return []
        return [line for line in self.log.read_text(errors="replace").splitlines() if text in line]

    async def not_ready(self) -> bool:
        """Whether `/readyz` answers 503."""
        url = json.loads(self.lines(READS)[-1])["url"]
        async with aiohttp.ClientSession() as session, session.get(f"{url}/readyz") as response:
            return response.status == 503

    def tail(self) -> str:
        return self.log.read_text(errors="replace")[-_LOG_TAIL_CHARS:]


@dataclass(eq=False)
class Judge:
    log: Path
    port: int = 0
    process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        """Start it, at its previous port."""
        with self.log.open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "tests.chaos.endpoint",
                str(self.port),
                cwd=ROOT,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
            )
        assert self.process.stdout is not None
        line = await asyncio.wait_for(self.process.stdout.readline(), START_SECONDS)
        assert line, f"the scripted judge did not start:\n{self.log.read_text()[-_LOG_TAIL_CHARS:]}"
        self.port = int(line)

    async def kill(self) -> None:
        """Kill it: connections are refused from then on."""
        if self.process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        await self.process.wait()
        # Otherwise the garbage collector closes the pipe's transport with a warning.
        self.process._transport.close()  # type: ignore[attr-defined] # there is no public way
        self.process = None

    async def change(self, **how: Any) -> int:
        """Change its replies; returns the number of answered calls."""
        return (await self._tell(how))["answered"]

    async def in_hand(self) -> int:
        return (await self._tell({}))["in_hand"]

    async def _tell(self, how: dict[str, Any]) -> dict[str, int]:
        async with (
            aiohttp.ClientSession() as session,
            session.post(f"http://127.0.0.1:{self.port}/mode", json=how) as response,
        ):
            said: dict[str, int] = await response.json()
            return said
