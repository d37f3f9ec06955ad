from __future__ import annotations

import threading
from typing import Any

import pytest

from streams.kafka.transport import consumer_thread


class _Hanging:
    """A service whose thread does not end."""

    def __init__(self) -> None:
        self.go_on = threading.Event()

    def _start_thread(self) -> None:
        self.go_on.wait()


def test_a_hanging_thread_does_not_block_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """The wait for a hanging thread is limited, and the thread is a daemon."""
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
