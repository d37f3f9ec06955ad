"""Servers for a test: on a free port of loopback, in this event loop or in one of a thread."""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from typing import Any, Self, TypeVar

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


class LoopThread:
    """An event loop in a thread, which goes on while the test itself is busy."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def call(self, action: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the thread."""
        return asyncio.run_coroutine_threadsafe(action, self._loop).result(10)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()


@contextmanager
def in_thread(server: AbstractAsyncContextManager[T]) -> Iterator[T]:
    """Run a server in a thread for a `with` block."""
    with LoopThread() as thread:
        started = thread.call(server.__aenter__())
        try:
            yield started
        finally:
            thread.call(server.__aexit__(None, None, None))
