"""Worker processes and the judge that they ask."""

from __future__ import annotations

import asyncio
import contextlib
import json
import multiprocessing
import os
import signal
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from functools import partial
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, Final

from aiohttp import web

from streams.cli.main import run
from tests.integration.deadlines import DEADLINE_SECONDS, until
from tests.integration.stage import REPLY, Stage
from tests.integration.tuning import tuned
from tests.judge.fake_openai import completed, serving_completions
from tests.streams.cli.processes import clean_environment


class Endpoint:
    def __init__(self) -> None:
        self.latency_seconds = 0.02
        self.asked = self.answered = 0
        self.reply: Callable[[int, str], str] = lambda *_: REPLY
        """Returns the reply to a call, by its number and its messages."""
        self.url = ""

    def has_answered(self, calls: int) -> bool:
        return self.answered >= calls

    async def answer(self, request: web.Request) -> web.Response:
        self.asked += 1
        body: dict[str, Any] = await request.json()
        await asyncio.sleep(self.latency_seconds)
        self.answered += 1
        return completed(self.reply(self.answered, json.dumps(body["messages"])), model=body["model"])


@contextlib.asynccontextmanager
async def running_endpoint() -> AsyncIterator[Endpoint]:
    judge = Endpoint()
    async with serving_completions(judge.answer) as judge.url:
        yield judge


SOON_MISSED = {"kafka.session_timeout_seconds": 6}
"""Settings for a worker that is killed: the group waits this long before the next one reads."""
_SERVER: Final = multiprocessing.get_context("forkserver")


class Worker:
    """The command `worker` in a process of its own, with its log."""

    def __init__(self, *target: Any, log: Path) -> None:
        log.write_bytes(b"")
        self._log = log
        self._process: Any = _SERVER.Process(target=_run, args=(log, *target))
        self._process.start()
        assert self._process.pid is not None
        self.pid: int = self._process.pid

    @property
    def text(self) -> str:
        return self._log.read_text(encoding="utf-8", errors="replace")

    @property
    def returncode(self) -> int | None:
        code: int | None = self._process.exitcode
        return code

    async def url(self) -> str:

        def reads() -> bool:
            assert self.returncode is None, self.text[-3000:]
            return '"event": "reading"' in self.text

        await until(reads, "a worker that reads")
        return self._url()

    def _url(self) -> str:
        (line,) = (line for line in self.text.splitlines() if '"event": "reading"' in line)
        url: str = json.loads(line)["url"]
        return url

    def ready(self) -> tuple[bool, str]:
        with contextlib.closing(HTTPConnection(self._url().removeprefix("http://"))) as port:
            port.request("GET", "/readyz")
            answer = json.load(port.getresponse())
        return answer["ok"], "; ".join(answer["reasons"])

    def send_signal(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    async def wait(self) -> int:
        """Wait until it exits; a code below zero is a signal."""
        await asyncio.to_thread(self._process.join, DEADLINE_SECONDS)
        assert self.returncode is not None, self.text[-3000:]
        return self.returncode

    async def end(self, how: signal.Signals = signal.SIGTERM) -> str:
        self.send_signal(how)
        assert await self.wait() == (0 if how is signal.SIGTERM else -how), self.text[-6000:]
        return self.text

    async def close(self) -> None:
        self._process.kill()
        await asyncio.to_thread(self._process.join)
        self._process.close()


@contextlib.asynccontextmanager
async def worker(
    *arguments: str,
    log: Path,
    env: Mapping[str, str] | None = None,
    prepare: Callable[[], object] | None = None,
) -> AsyncIterator[Worker]:
    """Run `judgestream worker`, forked from a server that has imported the modules, after `prepare`."""
    started = Worker(arguments, clean_environment(env), prepare, log=log)
    try:
        yield started
    finally:
        await started.close()


def _run(
    log: Path, arguments: Sequence[str], env: Mapping[str, str], prepare: Callable[[], object] | None
) -> None:
    os.environ.clear()
    os.environ.update(env)
    written = os.open(log, os.O_WRONLY | os.O_APPEND)
    os.dup2(written, 1)
    os.dup2(written, 2)
    if prepare is not None:
        prepare()
    run(arguments)


@contextlib.asynccontextmanager
async def process(stage: Stage, *, log: str = "worker.log") -> AsyncIterator[Worker]:
    constants = partial(tuned, stage.constants)
    arguments = ("worker", "--config", str(stage.write_settings()))
    async with worker(*arguments, log=stage.directory / log, prepare=constants) as started:
        await started.url()
        yield started
