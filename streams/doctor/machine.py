"""Checks this process and its machine: compiled parts, file descriptors, the port."""

from __future__ import annotations

import asyncio
import errno
import os
import resource
import socket
from collections.abc import Mapping
from typing import Final

import aiohttp
import faust.streams
import orjson

from judge.endpoint.hosts import is_loopback
from streams.doctor.finding import Finding, failed, ok, warning
from streams.settings import Settings, TelemetrySettings

SPARE_DESCRIPTORS: Final = 128
"""File descriptors for broker connections, HTTP clients, files and the event loop."""
_LOOK_SECONDS: Final = 1.0


def examine_process(settings: Settings, *, descriptors: int | None = None) -> list[Finding]:
    """Check Faust's compiled parts, the cache file and the limit of open files.

    Args:
        settings: The settings.
        descriptors: Maximum open files; by default this process's limit.
    """
    found = [_compiled_parts(), _descriptors(settings, descriptors)]
    file = settings.judge.cache.file
    if file is not None and not os.access(file if file.exists() else file.parent, os.W_OK):
        found.append(
            failed(
                "process",
                "cache",
                f"{file} cannot be written",
                "correct permissions or path of judge.cache.file",
            )
        )
    return found


def _compiled_parts() -> Finding:
    if faust.streams._CStreamIterator is None:  # noqa: SLF001 - the only way to know
        return failed(
            "process",
            "faust",
            "its compiled stream iterator is missing, and the worker needs it",
            "install faust-streaming from a wheel (or with a C compiler) and unset NO_CYTHON",
        )
    return ok("process", "faust", "its compiled parts are present")


def _descriptors(settings: Settings, descriptors: int | None) -> Finding:
    may = resource.getrlimit(resource.RLIMIT_NOFILE)[0] if descriptors is None else descriptors
    needed = settings.judge.max_in_flight + max(1, len(settings.judge.endpoints)) + SPARE_DESCRIPTORS
    if resource.RLIM_INFINITY != may < needed:
        return warning(
            "process",
            "file descriptors",
            (f"{may} may be open; {settings.judge.max_in_flight} concurrent judge calls need about {needed}"),
            f"raise the limit (ulimit -n {needed}), or lower judge.max_in_flight",
        )
    return ok("process", "file descriptors", f"{may} may be open, about {needed} are needed")


async def examine_port(telemetry: TelemetrySettings, env: Mapping[str, str]) -> list[Finding]:
    """Check whether the port is free, and who can reach it."""
    return [await _port(telemetry), *_reach(telemetry, env)]


async def _port(telemetry: TelemetrySettings) -> Finding:
    host, port = telemetry.host, telemetry.port
    subject = f"{host}:{port}"
    try:
        server = await asyncio.start_server(lambda *_: None, host, port)
    except (OSError, socket.gaierror) as error:
        if error.errno == errno.EADDRINUSE and await _is_worker(telemetry):
            return ok("port", subject, "a judgestream worker listens there already")
        return failed(
            "port",
            subject,
            f"cannot be used ({error.strerror or error})",
            (
                "set telemetry.port to a free one (0 picks one), and telemetry.host to an address of "
                "this machine"
            ),
            may_pass=error.errno == errno.EADDRINUSE,
        )
    server.close()
    await server.wait_closed()
    return ok("port", subject, "is free" if port else "any free port")


async def _is_worker(telemetry: TelemetrySettings) -> bool:
    host = f"[{telemetry.host}]" if ":" in telemetry.host else telemetry.host
    url = f"{'http' if telemetry.tls is None else 'https'}://{host}:{telemetry.port}/healthz"
    try:
        async with (
            asyncio.timeout(_LOOK_SECONDS),
            aiohttp.ClientSession() as session,
            session.get(url, ssl=False, allow_redirects=False) as answer,
        ):
            said = orjson.loads(await answer.content.read(65_536))
    except (aiohttp.ClientError, OSError, TimeoutError, orjson.JSONDecodeError):
        return False
    return isinstance(said, dict) and {"ok", "reasons"} <= said.keys()


def _reach(telemetry: TelemetrySettings, env: Mapping[str, str]) -> list[Finding]:
    host = telemetry.host
    if is_loopback(host):
        if "KUBERNETES_SERVICE_HOST" not in env:
            return []
        return [
            warning(
                "port",
                host,
                "in Kubernetes, probes and Prometheus cannot reach a loopback address",
                "set telemetry.host to 0.0.0.0, and restrict access by a NetworkPolicy",
            )
        ]
    if telemetry.basic_auth is not None or (
        telemetry.tls is not None and telemetry.tls.client_ca_file is not None
    ):
        return []
    return [
        warning(
            "port",
            host,
            "all hosts that reach it can read the page and metrics, including verdicts of single answers",
            "set telemetry.basic_auth, or restrict access by network policy",
        )
    ]
