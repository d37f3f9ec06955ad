from __future__ import annotations

import contextlib
import io
import os
from collections.abc import AsyncIterator, Collection, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

import aiohttp
import pytest
import yaml

from tests.integration.kafka import free_ports
from tests.integration.programs import serving
from tests.integration.stage import Stage

KEYED: Final = {
    "partition_traces_by_id": True,
    "partition_logs_by_trace_id": True,
    "producer": {"compression": "zstd", "required_acks": -1},
}
"""The settings of the Kafka exporter in docs/traces.md."""


def binary() -> str:
    path = os.environ.get("COLLECTOR", "")
    if not os.access(path, os.X_OK) or not Path(path).is_file():
        pytest.fail(
            f"COLLECTOR must name an OpenTelemetry Collector, got {path!r}; download otelcol-contrib and "
            "run make test-collector COLLECTOR=/path/to/otelcol-contrib",
            pytrace=False,
        )
    return path


class Collector:
    def __init__(self, port: int, log: Path) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self._log = log

    @property
    def log(self) -> str:
        return self._log.read_text(errors="replace")

    async def post(self, *bodies: bytes, signal: str = "traces") -> None:
        async with aiohttp.ClientSession() as session:
            for body in bodies:
                kind = "application/json" if body[:1] == b"{" else "application/x-protobuf"
                async with session.post(
                    f"{self.url}/v1/{signal}", data=io.BytesIO(body), headers={"Content-Type": kind}
                ) as response:
                    assert response.status == 200, await response.text()

    async def answers(self, signal: str) -> bool:
        with contextlib.suppress(aiohttp.ClientError, AssertionError):
            await self.post(b"{}", signal=signal)
            return True
        return False


@contextlib.asynccontextmanager
async def collector(
    place: Path,
    exporters: Mapping[str, Any],
    *,
    receivers: Mapping[str, Any] | None = None,
    processors: Mapping[str, Any] | None = None,
    signals: Collection[str] = ("traces",),
) -> AsyncIterator[Collector]:
    """Run a Collector with one pipeline per signal, from OTLP/HTTP and the receivers to every exporter."""
    (port,) = free_ports(1)
    receivers, processors = receivers or {}, processors or {}
    pipeline = {"receivers": ["otlp", *receivers], "processors": [*processors], "exporters": [*exporters]}
    document = {
        "receivers": {"otlp": {"protocols": {"http": {"endpoint": f"127.0.0.1:{port}"}}}, **receivers},
        "processors": dict(processors),
        "exporters": dict(exporters),
        "service": {
            "telemetry": {"metrics": {"level": "none"}, "logs": {"level": "info"}},
            "pipelines": dict.fromkeys(signals, pipeline),
        },
    }
    config = place / f"collector-{port}.yaml"
    config.write_text(yaml.dump(document), encoding="utf-8")
    log = place / f"collector-{port}.log"
    running = Collector(port, log)
    is_ready = partial(running.answers, next(iter(signals)))
    async with serving(binary(), "--config", config, log=log, is_ready=is_ready):
        yield running


def to_kafka(stage: Stage, **more: Any) -> dict[str, Any]:
    to = {"topic": stage.topic("events")}
    return {"brokers": [stage.bootstrap_servers], "traces": dict(to), "logs": dict(to), **more}
