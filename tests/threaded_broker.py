"""The embedded broker in a thread: it answers while the caller's event loop is busy."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, Self

from streams.embedded.broker import EmbeddedBroker
from tests.loopback import LoopThread, in_thread


class ThreadedBroker(LoopThread):
    """An `EmbeddedBroker` that can be stopped and started again."""

    def __init__(self) -> None:
        super().__init__()
        self._broker = EmbeddedBroker()

    @property
    def bootstrap_servers(self) -> str:
        return self._broker.bootstrap_servers

    def start(self) -> None:
        """Start serving; returns when clients can connect."""
        self.call(self._broker.start())

    def stop(self) -> None:
        """Stop serving and keep the records, so that `start` can follow."""
        self.call(self._broker.stop())

    def __enter__(self) -> Self:
        super().__enter__()
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        super().__exit__()


@contextlib.contextmanager
def broker_in_thread(**arguments: Any) -> Iterator[str]:
    """Run an embedded broker, with the arguments of `EmbeddedBroker`; yields its bootstrap servers."""
    with in_thread(EmbeddedBroker(**arguments)) as broker:
        yield broker.bootstrap_servers
