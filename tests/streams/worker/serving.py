from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

from prometheus_client import CollectorRegistry, Counter

from streams.settings.tree import Settings
from streams.worker.server import Health, serve


def idle_worker(**parts: Any) -> Any:
    """What `Health` asks of a worker, of one without agents by default."""
    idle = {
        "settings": Settings(),
        "loop": lambda: None,
        "pipelines": (),
        "judge_trouble": None,
        "endpoints": (),
        "broker_troubles": list,
        "spending": SimpleNamespace(deferring=None),
        "store": None,
        "citations": SimpleNamespace(note=None),
    }
    return SimpleNamespace(**idle | parts)


@contextlib.asynccontextmanager
async def served(host: str = "127.0.0.1", **access: Any) -> AsyncIterator[str]:
    given = {name: access.pop(name) for name in ("port", "page") if name in access}
    registry = CollectorRegistry()
    Counter("things", "Things.", registry=registry)
    worker = idle_worker(
        settings=Settings.model_validate({"telemetry": {"host": host, "port": 0, **given}}),
        metrics=SimpleNamespace(registry=registry),
        status=SimpleNamespace(values=lambda: {"a": 1}),
        explorer=None,
    )
    worker.health = Health(worker)
    port = await serve(worker, **access)
    try:
        yield port.url
    finally:
        await port.stop()
