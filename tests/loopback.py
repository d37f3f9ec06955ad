"""A web server for a test, on a free port of loopback."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web


@asynccontextmanager
async def on_loopback(app: web.Application, **runner_options: Any) -> AsyncIterator[str]:
    """Run an application for a `with` block; yields its address, without a trailing slash.

    Args:
        app: The application.
        runner_options: Options of `web.AppRunner`, for tests in which a client disconnects.
    """
    runner = web.AppRunner(app, **{"shutdown_timeout": 0.1, "access_log": None, **runner_options})
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()
