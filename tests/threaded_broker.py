"""The embedded broker in a thread, for code without an event loop."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Final

from streams.embedded.broker import EmbeddedBroker

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterator
    from types import TracebackType
    from typing import Self

_DEADLINE_SECONDS: Final = 10.0


class ThreadedBroker:
    """Runs an `EmbeddedBroker` on an event loop in a daemon thread, with the same arguments.

    It answers while the caller's event loop is busy.
    """

    def __init__(self, **arguments: Any) -> None:
        self._broker = EmbeddedBroker(**arguments)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="embedded-broker", daemon=True)

    @property
    def bootstrap_servers(self) -> str:
        """Host and port for clients, after the start."""
        return self._broker.bootstrap_servers

    def start(self) -> None:
        """Start serving; returns when clients can connect."""
        if not self._thread.is_alive():
            self._thread.start()
        self._call(self._broker.start())

    def stop(self) -> None:
        """Stop serving and keep the records, so that `start` can follow."""
        self._call(self._broker.stop())

    def close(self) -> None:
        """Stop serving and end the thread."""
        if self._loop.is_closed():
            return
        if self._thread.is_alive():
            self.stop()
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(_DEADLINE_SECONDS)
        self._loop.close()

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    def _call(self, action: Coroutine[Any, Any, None]) -> None:
        done: Future[None] = asyncio.run_coroutine_threadsafe(action, self._loop)
        done.result(_DEADLINE_SECONDS)


@contextlib.contextmanager
def broker_in_thread(**arguments: Any) -> Iterator[str]:
    """Run an embedded broker for a `with` block, with the arguments of `EmbeddedBroker`."""
    with ThreadedBroker(**arguments) as broker:
        yield broker.bootstrap_servers
