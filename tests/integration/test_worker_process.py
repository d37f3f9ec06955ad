"""Behaviour that needs a real process and a real signal."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web

from schemas import JudgeTask
from tests.integration.deadlines import DEADLINE_SECONDS, until
from tests.integration.stage import REPLY, Stage, event
from tests.places import ROOT


class Endpoint:
    """An OpenAI-compatible judge on loopback with a latency; it can be stopped and restarted."""

    def __init__(self) -> None:
        self.latency_seconds = 0.02
        self.answered = 0
        self._runner: web.AppRunner | None = None
        self.port = 0

    def has_answered(self, calls: int) -> bool:
        return self.answered >= calls

    async def _answer(self, request: web.Request) -> web.Response:
        body: dict[str, Any] = await request.json()
        await asyncio.sleep(self.latency_seconds)
        self.answered += 1
        message = {"role": "assistant", "content": REPLY}
        return web.json_response(
            {
                "id": "c",
                "object": "chat.completion",
                "created": 0,
                "model": body["model"],
                "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
                "usage": {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7},
            }
        )

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


@pytest.fixture
async def endpoint() -> AsyncIterator[Endpoint]:
    endpoint = Endpoint()
    await endpoint.start()
    yield endpoint
    await endpoint.stop()


@pytest.fixture
def stage(bootstrap_servers: str, tmp_path: Path, endpoint: Endpoint) -> Stage:
    return Stage(bootstrap_servers, tmp_path, base_url=f"http://127.0.0.1:{endpoint.port}/v1")


SOON_MISSED = {"kafka.session_timeout_seconds": 6}
"""Settings for a worker that is killed: the group waits this long before the next one reads."""


@contextlib.asynccontextmanager
async def process(stage: Stage) -> AsyncIterator[asyncio.subprocess.Process]:
    """A worker process that reads; killed at the end if it still runs."""
    settings = stage.directory / "settings.yaml"
    settings.write_text(yaml.safe_dump(stage.document()), encoding="utf-8")
    with (stage.directory / "worker.log").open("ab") as log:
        started = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "tests.integration.worker_process",
            str(settings),
            cwd=ROOT,
            stdout=asyncio.subprocess.PIPE,
            stderr=log,
        )
    try:
        assert started.stdout is not None
        async with asyncio.timeout(DEADLINE_SECONDS):
            line = await started.stdout.readline()
        assert line, (stage.directory / "worker.log").read_text(encoding="utf-8")[-3000:]
        yield started
    finally:
        if started.returncode is None:
            started.kill()
        await started.wait()
        # Otherwise the garbage collector closes the pipe's transport with a warning.
        started._transport.close()  # type: ignore[attr-defined] # there is no public way


@pytest.mark.slow
async def test_a_killed_worker_loses_nothing(stage: Stage, endpoint: Endpoint) -> None:
    """Two SIGKILLs while results are written lose nothing."""
    stage.changes |= SOON_MISSED
    count = 400
    expected = {f"e{number}" for number in range(count)}
    for stop_at in (60, 180):
        async with process(stage) as worker:
            if stop_at == 60:
                await stage.produce([event(number) for number in range(count)])
            await until(partial(endpoint.has_answered, stop_at), "some verdicts")
            worker.send_signal(signal.SIGKILL)
            assert await worker.wait() == -signal.SIGKILL
    async with process(stage):

        async def judged() -> bool:
            return {result.event_id for result in await stage.results()} == expected

        await until(judged, "a result for every event")
    results = await stage.results()
    assert len({result.result_id for result in results}) == count
    assert await stage.dead_letters() == []


async def test_sigterm_ends_in_order(stage: Stage, endpoint: Endpoint) -> None:
    """SIGTERM exits with 0, finishes work in flight and commits exactly the records with a result."""
    endpoint.latency_seconds = 0.3
    async with process(stage) as worker:
        await stage.produce([event(number) for number in range(200)])
        await until(lambda: endpoint.answered >= 30, "some verdicts")
        worker.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(worker.wait(), 60) == 0
    results = await stage.results()
    assert 30 <= len(results) < 200
    assert len(results) == len({result.result_id for result in results})
    done = {result.result_id for result in results}
    committed = await stage.committed("tasks.tone")
    for record in await stage.read("tasks.tone"):
        # Every task below a committed offset has its result.
        is_done = JudgeTask.model_validate_json(record.value).result_id in done
        assert is_done or record.offset >= (committed[record.partition] or 0)
    # Work in flight at the signal was finished and committed: no task above the offsets has a result.
    assert sum(offset or 0 for offset in committed) == len(results)


async def test_a_judge_that_comes_late_is_waited_for(stage: Stage, endpoint: Endpoint) -> None:
    """A worker that starts without a judge waits for it, scores everything and sets nothing aside."""
    await endpoint.stop()
    async with process(stage):
        await stage.produce([event(number) for number in range(30)])

        async def routed() -> bool:
            return len(await stage.tasks("tone")) == 30

        await until(routed, "all tasks")
        assert await stage.results() == []
        await endpoint.start()

        async def judged() -> bool:
            return len(await stage.results()) == 30

        await until(judged, "all judged")
    assert await stage.dead_letters() == []
    assert {result.status for result in await stage.results()} == {"scored"}
