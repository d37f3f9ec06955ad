"""The embedded broker in a thread: it answers while the caller's event loop is busy."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from streams.embedded.broker import EmbeddedBroker
from tests.loopback import in_thread


@contextlib.contextmanager
def broker_in_thread(**arguments: Any) -> Iterator[str]:
    """Run an embedded broker, with the arguments of `EmbeddedBroker`; yields its bootstrap servers."""
    with in_thread(EmbeddedBroker(**arguments)) as broker:
        yield broker.bootstrap_servers
