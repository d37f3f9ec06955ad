"""Servers for a test: on a free port of loopback, in this event loop or in one of a thread."""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from typing import Any, TypeVar

from aiohttp import web

T = TypeVar("T")


@asynccontextmanager
async def on_loopback(
    app: web.Application, tls: ssl.SSLContext | None = None, **runner_options: Any
) -> AsyncIterator[str]:
    """Run an application for a `with` block; yields its address, without a trailing slash."""
    runner = web.AppRunner(app, **{"shutdown_timeout": 0.1, "access_log": None, **runner_options})
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
        yield f"http{'s' if tls else ''}://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


@contextmanager
def in_thread(server: AbstractAsyncContextManager[T]) -> Iterator[T]:
    """Run a server in a thread for a `with` block; it goes on while the test itself is busy."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)

    def call(action: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(action, loop).result(10)

    thread.start()
    try:
        started = call(server.__aenter__())
        try:
            yield started
        finally:
            call(server.__aexit__(None, None, None))
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()
