"""The processes of one fault: real workers, and the judge that they ask."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import aiohttp

from tests.integration.deadlines import until
from tests.places import ROOT

END_SECONDS: Final = 120.0
"""A worker that was asked ends within 35 s; a busy machine may make more of it, and one that hangs hangs
forever.
"""
START_SECONDS: Final = 180.0
"""Of a process. Imports take 2 s on a machine that has nothing else to do, and have taken a minute on one
that had."""
READS: Final = '"event": "reading"'
"""In the log once a worker has its partitions."""
_LOG_TAIL_CHARS = 3_000


@dataclass(eq=False)
class Worker:
    """One worker's process; restarted under the same name as often as needed."""

    name: str
    command: Sequence[str]
    environment: dict[str, str]
    log: Path
    process: asyncio.subprocess.Process | None = None
    restarts: int = -1
    """How often it was started after the first time."""
    _starts: int = 0

    @property
    def pid(self) -> int:
        """The process now running."""
        assert self.process is not None, f"{self.name} was never started"
        return self.process.pid

    async def start(self) -> None:
        """Start it."""
        self._starts = len(self.lines(READS))
        self.restarts += 1
        with self.log.open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                *self.command, cwd=ROOT, env=self.environment, stdout=log, stderr=log
            )

    async def end(self, how: signal.Signals) -> int:
        """End it and wait for that; a worker that was asked and does not end in time is a failure."""
        process = self.process
        assert process is not None, f"{self.name} was never started"
        if process.returncode is None:
            # asyncio's own way looks whether it has ended already, and then the watcher cannot tell how.
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, how)
        try:
            return await asyncio.wait_for(process.wait(), END_SECONDS)
        except TimeoutError:
            process.kill()
            await process.wait()
            raise AssertionError(f"{self.name} did not end on {how.name}:\n{self.tail()}") from None

    async def reads(self) -> None:
        """Wait until what was started last reads."""

        def reads() -> bool:
            assert self.process is not None, f"{self.name} was never started"
            assert self.process.returncode is None, f"{self.name} did not start:\n{self.tail()}"
            return len(self.lines(READS)) > self._starts

        await until(reads, f"{self.name} reads", deadline_seconds=START_SECONDS)

    def lines(self, text: str) -> list[str]:
        """The lines of its log that hold a text."""
        if not self.log.exists():
            return []
        return [line for line in self.log.read_text(errors="replace").splitlines() if text in line]

    async def not_ready(self) -> bool:
        """Whether its port says that it cannot do its work."""
        url = json.loads(self.lines(READS)[-1])["url"]
        async with aiohttp.ClientSession() as session, session.get(f"{url}/readyz") as response:
            return response.status == 503

    def tail(self) -> str:
        """The end of its log."""
        return self.log.read_text(errors="replace")[-_LOG_TAIL_CHARS:]


@dataclass(eq=False)
class Judge:
    """The scripted judge's process."""

    log: Path
    port: int = 0
    process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        """Start it, at the port it had before."""
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
        """End it at once: connections are refused from now on."""
        if self.process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        await self.process.wait()
        # The pipe's transport would otherwise be closed by the collector, which warns.
        self.process._transport.close()  # type: ignore[attr-defined] # there is no public way
        self.process = None

    async def change(self, **how: Any) -> int:
        """Change how it answers; gives how often it has."""
        return (await self._tell(how))["answered"]

    async def in_hand(self) -> int:
        """How many calls are under way now."""
        return (await self._tell({}))["in_hand"]

    async def _tell(self, how: dict[str, Any]) -> dict[str, int]:
        async with (
            aiohttp.ClientSession() as session,
            session.post(f"http://127.0.0.1:{self.port}/mode", json=how) as response,
        ):
            said: dict[str, int] = await response.json()
            return said
