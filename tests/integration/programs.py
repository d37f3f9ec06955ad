"""Servers of other projects as processes."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path

import aiohttp

from tests.integration.deadlines import until

_END_SECONDS = 30


async def answers(url: str, below: int = 201) -> bool:
    """Whether it answers with a status of at least 200 and below a limit."""
    with contextlib.suppress(aiohttp.ClientError, OSError):
        async with aiohttp.ClientSession() as session, session.get(url) as response:
            return 200 <= response.status < below
    return False


def _end_of(log: Path) -> str:
    return log.read_text(errors="replace")[-3000:]


@contextlib.asynccontextmanager
async def serving(
    *command: str | Path,
    log: Path,
    is_ready: Callable[[], Awaitable[bool]],
    seconds: float = 120,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> AsyncIterator[None]:
    with log.open("wb") as out:
        process = await asyncio.create_subprocess_exec(*command, cwd=cwd, env=env, stdout=out, stderr=out)

    async def ready() -> bool:
        assert process.returncode is None, _end_of(log)
        return await is_ready()

    try:
        await until(ready, f"an answer of {command[0]}", deadline_seconds=seconds)
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        try:
            await asyncio.wait_for(process.wait(), _END_SECONDS)
        except TimeoutError:
            process.kill()
            await process.wait()
