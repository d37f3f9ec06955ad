"""Runs Apicurio Registry from its published artifact, with Confluent's interface and schemas in memory."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp

from tests.integration.deadlines import until
from tests.integration.kafka import free_ports
from tests.places import ROOT

_VERSION = "3.0.9"
"""The last one for Java 17."""
_ARTIFACT = f"io.apicurio:apicurio-registry-app:{_VERSION}:tar.gz:all"
_CACHE = ROOT / ".cache" / "apicurio"
_FETCH_SECONDS = 600
_START_SECONDS = 120
_JAVA_OPTIONS = ("-Xmx320m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


class Apicurio:
    """A running registry."""

    def __init__(self, port: int, session: aiohttp.ClientSession) -> None:
        self.url = f"http://127.0.0.1:{port}/apis/ccompat/v7"
        self._session = session

    async def answers(self) -> bool:
        with contextlib.suppress(aiohttp.ClientError, OSError):
            async with self._session.get(f"{self.url}/schemas/types") as response:
                return response.status == 200
        return False

    async def register(self, subject: str, schema: str, kind: str = "AVRO", *names: tuple[str, str]) -> int:
        """Register a schema with references to others, given as name and subject; returns its id."""
        references = [{"name": name, "subject": other, "version": 1} for name, other in names]
        body: dict[str, Any] = {"schema": schema, "schemaType": kind, "references": references}
        async with self._session.post(f"{self.url}/subjects/{subject}/versions", json=body) as response:
            assert response.status == 200, await response.text()
            return int((await response.json())["id"])


@contextlib.asynccontextmanager
async def apicurio(directory: Path) -> AsyncIterator[Apicurio]:
    """Run a registry on loopback; needs Java 17 and Maven."""
    folder = await asyncio.to_thread(_fetched)
    jar = next(folder.glob("*-runner.jar"))
    (port,) = free_ports(1)
    env = {**os.environ, "QUARKUS_HTTP_HOST": "127.0.0.1", "QUARKUS_HTTP_PORT": str(port)}
    log = directory / "apicurio.log"
    with log.open("wb") as out:
        process = await asyncio.create_subprocess_exec(
            "java", *_JAVA_OPTIONS, "-jar", jar, cwd=directory, env=env, stdout=out, stderr=out
        )
    try:
        async with aiohttp.ClientSession() as session:
            registry = Apicurio(port, session)

            async def answers() -> bool:
                assert process.returncode is None, log.read_text()[-2000:]
                return await registry.answers()

            await until(answers, "the registry", deadline_seconds=_START_SECONDS)
            yield registry
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


def _fetched() -> Path:
    """The folder with the registry; Maven downloads it at the first use."""
    folder = _CACHE / _VERSION
    if folder.is_dir():
        return folder
    maven = shutil.which("mvn")
    assert maven is not None, "needs Maven (mvn) on the PATH"
    _CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=_CACHE) as incomplete:
        done = subprocess.run(
            [
                maven,
                "--batch-mode",
                "--quiet",
                "dependency:copy",
                f"-Dartifact={_ARTIFACT}",
                f"-DoutputDirectory={incomplete}",
            ],
            capture_output=True,
            text=True,
            timeout=_FETCH_SECONDS,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-4000:]
        with tarfile.open(next(Path(incomplete).glob("*.tar.gz"))) as archive:
            archive.extractall(Path(incomplete, "app"), filter="data")
        Path(incomplete, "app").rename(folder)
    return folder
