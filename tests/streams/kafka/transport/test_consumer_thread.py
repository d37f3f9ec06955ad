"""The thread of the consumer."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from streams.kafka.transport import consumer_thread


class _Hanging:
    """A service whose thread does not end by itself."""

    def __init__(self) -> None:
        self.go_on = threading.Event()

    def _start_thread(self) -> None:
        self.go_on.wait()


def test_a_thread_that_hangs_keeps_nobody_from_ending(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waiting for its end has a bound, and the interpreter does not wait for it at all."""
    monkeypatch.setattr(consumer_thread, "THREAD_END_SECONDS", 0.01)
    service: Any = _Hanging()
    thread = consumer_thread.ConsumerThread.Worker(service)
    thread.start()
    try:
        thread.stop()
        assert thread.is_alive()
        assert thread.daemon
    finally:
        service.go_on.set()
        thread.join()
