"""Sinks with real Phoenix and MLflow servers.

Their packages have 855 MB: `make test-receivers` installs each into its own environment under
`.cache/receivers` and selects the marker `receivers`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import orjson
import pytest

from schemas import Failed, Scored
from streams.intake.reading.otlp.request import spans
from streams.intake.reading.otlp.span import Span
from streams.settings.tree import Settings
from streams.sinks.base import Evaluation
from streams.sinks.delivery import open_sinks
from tests.integration.deadlines import until
from tests.integration.kafka import free_ports
from tests.integration.programs import answers, serving
from tests.places import ROOT
from tests.streams.results import failed, scored

pytestmark = [pytest.mark.receivers, pytest.mark.timeout(600)]
SAMPLE = ROOT / "tests/streams/intake/reading/otlp/samples/otel-genai-openai-1.3b0.pb"
PROTOBUF = {"Content-Type": "application/x-protobuf"}
START_SECONDS = 240


@contextlib.asynccontextmanager
async def server(
    name: str, *arguments: str, env: Mapping[str, str], port: int, place: Path
) -> AsyncIterator[str]:
    """Run a server of an environment under .cache/receivers until it answers; yields its address."""
    python = ROOT / ".cache" / "receivers" / name / "bin" / "python"
    if not python.exists():
        pytest.fail(f"{python} is not there: run make test-receivers", pytrace=False)
    url = f"http://127.0.0.1:{port}"
    is_ready = partial(answers, f"{url}/", below=500)
    options: dict[str, Any] = {"seconds": START_SECONDS, "env": {**os.environ, **env}, "cwd": place}
    async with serving(python, "-m", *arguments, log=place / "server.log", is_ready=is_ready, **options):
        yield url


async def fetch(method: str, url: str, *, body: bytes | None = None, **headers: str) -> Any:
    async with (
        aiohttp.ClientSession(headers=headers) as session,
        session.request(method, url, data=body) as response,
    ):
        content = await response.read()
        assert response.status < 300, content
        return orjson.loads(content) if content[:1] in (b"{", b"[") else content


def root() -> Span:
    (span, *_) = [one for one in spans(SAMPLE.read_bytes()) if not one.parent_id]
    return span


def verdicts(span: Span) -> list[Scored | Failed]:
    """A score and a failure of the traced answer."""
    place = {"trace_id": span.trace_id, "span_id": span.span_id}
    return [scored(1, 4).model_copy(update=place), failed(2).model_copy(update=place)]


async def send_twice(kind: str, url: str, results: list[Scored | Failed]) -> None:
    settings = Settings.model_validate({"sinks": {"one": {"kind": kind, "url": url}}})
    unused: Any = None
    ways = open_sinks(settings, unused, version="1", env={}, on_outcome=lambda *_: None)
    (way,) = ways["verdicts"]
    try:
        for _ in range(2):
            ends = await asyncio.gather(*(way.put(Evaluation.of(one)) for one in results))
            assert not any(ends)
    finally:
        await way.close()


async def test_phoenix_shows_each_verdict_once(tmp_path: Path) -> None:
    """Verdicts become annotations of the span; sent again they are overwritten."""
    span, (port, grpc_port) = root(), free_ports(2)
    env = {
        "PHOENIX_PORT": str(port),
        "PHOENIX_GRPC_PORT": str(grpc_port),
        "PHOENIX_HOST": "127.0.0.1",
        "PHOENIX_WORKING_DIR": str(tmp_path),
    }
    async with server("phoenix", "phoenix.server.main", "serve", env=env, port=port, place=tmp_path) as url:
        await fetch("POST", f"{url}/v1/traces", body=SAMPLE.read_bytes(), **PROTOBUF)
        results = verdicts(span)
        asked = f"{url}/v1/projects/default/span_annotations?span_ids={span.span_id}"

        async def known() -> bool:
            found = await fetch("GET", f"{url}/v1/projects/default/spans?limit=100")
            return any(one["context"]["span_id"] == span.span_id for one in found["data"])

        await until(known, "the span")
        await send_twice("phoenix", url, results)

        async def shown() -> bool:
            return len((await fetch("GET", asked))["data"]) >= 1

        await until(shown, "the annotations")
        found = (await fetch("GET", asked))["data"]
    assert {one["name"] for one in found} == {one.metric for one in results}
    assert len(found) == len({one["name"] for one in found})
    assert {one["annotator_kind"] for one in found} == {"LLM"}


async def test_mlflow_shows_each_verdict_once(tmp_path: Path) -> None:
    """Verdicts become assessments of the trace; known ones are not sent again."""
    span, (port,) = root(), free_ports(1)
    arguments = ("mlflow", "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1")
    store = ("--backend-store-uri", f"sqlite:///{tmp_path / 'mlflow.db'}")
    async with server("mlflow", *arguments, *store, env={}, port=port, place=tmp_path) as url:
        headers = PROTOBUF | {"x-mlflow-experiment-id": "0"}
        await fetch("POST", f"{url}/v1/traces", body=SAMPLE.read_bytes(), **headers)
        await send_twice("mlflow", url, verdicts(span))
        trace = await fetch("GET", f"{url}/api/3.0/mlflow/traces/tr-{span.trace_id}")
    found = trace["trace"]["trace_info"]["assessments"]
    assert len(found) == 2
    assert sorted(str(one["feedback"].get("value")) for one in found) == ["4.0", "None"]
    assert all(one["source"]["source_type"] == "LLM_JUDGE" for one in found)
