"""Worker processes and the judge that they ask."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator, Callable
from typing import Any, Self

import yaml
from aiohttp import web

from tests.integration.deadlines import DEADLINE_SECONDS
from tests.integration.stage import REPLY, Stage
from tests.integration.tuning import environment
from tests.judge.fake_openai import completed
from tests.places import ROOT


class Endpoint:
    """An OpenAI-compatible judge on loopback with a latency; it can be stopped and restarted."""

    def __init__(self) -> None:
        self.latency_seconds = 0.02
        self.asked = self.answered = 0
        self.reply: Callable[[int], str] = lambda _: REPLY
        """Returns the reply to a call, by its number."""
        self._runner: web.AppRunner | None = None
        self.port = 0

    def has_answered(self, calls: int) -> bool:
        return self.answered >= calls

    async def _answer(self, request: web.Request) -> web.Response:
        self.asked += 1
        body: dict[str, Any] = await request.json()
        await asyncio.sleep(self.latency_seconds)
        self.answered += 1
        return completed(self.reply(self.answered), model=body["model"])

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        app = web.Application()
        app.router.add_post("/v1/chat/completions", self._answer)
        self._runner = web.AppRunner(app, access_log=None)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self.port).start()
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None


SOON_MISSED = {"kafka.session_timeout_seconds": 6}
"""Settings for a worker that is killed: the group waits this long before the next one reads."""


@contextlib.asynccontextmanager
async def process(stage: Stage, *, log: str = "worker.log") -> AsyncIterator[asyncio.subprocess.Process]:
    """A worker process that reads; killed at the end if it still runs."""
    settings = stage.directory / "settings.yaml"
    settings.write_text(yaml.safe_dump(stage.document()), encoding="utf-8")
    log_file = stage.directory / log
    with log_file.open("ab") as errors:
        started = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "tests.integration.worker_process",
            str(settings),
            cwd=ROOT,
            env={**os.environ, **environment(stage.constants)},
            stdout=asyncio.subprocess.PIPE,
            stderr=errors,
        )
    try:
        assert started.stdout is not None
        async with asyncio.timeout(DEADLINE_SECONDS):
            line = await started.stdout.readline()
        assert line, log_file.read_text(encoding="utf-8")[-3000:]
        yield started
    finally:
        if started.returncode is None:
            started.kill()
        await started.wait()
        # Otherwise the garbage collector closes the pipe's transport with a warning.
        started._transport.close()  # type: ignore[attr-defined] # there is no public way
