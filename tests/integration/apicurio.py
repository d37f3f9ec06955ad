"""Runs Apicurio Registry from its published artifact, with Confluent's interface and schemas in memory."""

from __future__ import annotations

import asyncio
import contextlib
import os
import tarfile
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp

from tests.integration.kafka import downloaded, free_ports, maven
from tests.integration.programs import answers, serving
from tests.places import ROOT

_VERSION = "3.0.9"
"""The last one for Java 17."""
_ARTIFACT = f"io.apicurio:apicurio-registry-app:{_VERSION}:tar.gz:all"
_CACHE = ROOT / ".cache" / "apicurio"
_JAVA_OPTIONS = ("-Xmx320m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


class Apicurio:
    def __init__(self, port: int, session: aiohttp.ClientSession) -> None:
        self.url = f"http://127.0.0.1:{port}/apis/ccompat/v7"
        self._session = session

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
    folder = await asyncio.to_thread(downloaded, _CACHE / _VERSION, _fetch)
    jar = next(folder.glob("*-runner.jar"))
    (port,) = free_ports(1)
    env = {**os.environ, "QUARKUS_HTTP_HOST": "127.0.0.1", "QUARKUS_HTTP_PORT": str(port)}
    command = ("java", *_JAVA_OPTIONS, "-jar", jar)
    async with aiohttp.ClientSession() as session:
        registry = Apicurio(port, session)
        is_ready = partial(answers, f"{registry.url}/schemas/types")
        async with serving(*command, log=directory / "apicurio.log", is_ready=is_ready, env=env):
            yield registry


def _fetch(folder: Path) -> None:
    maven("dependency:copy", f"-Dartifact={_ARTIFACT}", into=folder.parent)
    with tarfile.open(next(folder.parent.glob("*.tar.gz"))) as archive:
        archive.extractall(folder, filter="data")
