"""The worker's port without a worker."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any

from prometheus_client import CollectorRegistry, Counter

from streams.settings import TelemetrySettings
from streams.worker.health import Health
from streams.worker.server import WebServer


@contextlib.asynccontextmanager
async def served(host: str = "127.0.0.1", **access: Any) -> AsyncIterator[str]:
    """Serve an idle worker's port; yields its address.

    Args:
        host: The address to listen on.
        access: Settings of `telemetry`, and parts of the server.
    """
    given = {name: access.pop(name) for name in ("port", "page", "allowed_hosts") if name in access}
    registry = CollectorRegistry()
    Counter("things", "Things.", registry=registry)
    server = WebServer(
        TelemetrySettings.model_validate({"host": host, "port": 0, **given}),
        registry=registry,
        health=Health(loop=lambda: None, agents=[], judge_trouble=lambda: None, broker_trouble=tuple),
        status=lambda: {"a": 1},
        **access,
    )
    await server.start()
    try:
        yield server.url
    finally:
        await server.stop()
