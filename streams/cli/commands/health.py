"""`judgestream health`: check whether the worker on this machine is alive."""
# ruff: noqa: PLC0415 - heavy imports stay inside the command, so that --help is quick

from __future__ import annotations

import http.client
import json
import ssl
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from streams.cli.errors import BadUsageError, CommandError

if TYPE_CHECKING:
    from streams.settings import TelemetrySettings, TlsSettings

WILDCARDS = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - compared, not listened on
MOST_BYTES = 65_536
AGAIN_SECONDS = 0.2


def health(
    config: Annotated[
        Path | None,
        typer.Option(
            "--config",
            "-c",
            metavar="FILE",
            help="The worker's settings file (YAML); default: the environment and port 8080.",
        ),
    ] = None,
    ready: Annotated[
        bool, typer.Option("--ready", help="Check readiness (/readyz) instead of liveness (/healthz).")
    ] = False,
    wait: Annotated[
        float,
        typer.Option(
            "--wait", metavar="SECONDS", min=0, max=86_400, help="Ask again until it is, for this long."
        ),
    ] = 0.0,
    timeout_seconds: Annotated[
        float, typer.Option("--timeout-seconds", min=0.1, max=60, help="Time limit of one request.")
    ] = 3.0,
) -> None:
    """Check whether the worker on this machine is alive; exit with 1 if not.

    Uses address, port and TLS from the settings, without a password. For container health checks that run a
    command; Kubernetes probes use HTTP directly. A script waits for a worker with --ready --wait 60.
    """
    from streams.cli.settings import settings_for_command

    telemetry = settings_for_command(config).telemetry
    if telemetry.port == 0:
        raise BadUsageError("telemetry.port is 0, so the worker's port is unknown; set one")
    path = "/readyz" if ready else "/healthz"
    deadline = time.monotonic() + wait
    while (problem := _problem(telemetry, path, timeout_seconds, named=config is not None)) is not None:
        if time.monotonic() >= deadline:
            raise CommandError(f"{problem} (waited {wait:g} s)" if wait else problem)
        time.sleep(AGAIN_SECONDS)
    typer.echo("ready" if ready else "alive")


def _problem(telemetry: TelemetrySettings, path: str, timeout_seconds: float, *, named: bool) -> str | None:
    """Return why the worker is not alive or ready; None if it is."""
    try:
        status, body = _ask(telemetry, path, timeout_seconds)
    except (OSError, http.client.HTTPException) as error:
        # The system's error text names the cause: connection refused, timed out.
        where = "" if named else "; if the worker listens elsewhere, name its settings (--config FILE)"
        return f"no answer from {path} at port {telemetry.port}: {error}{where}"
    return None if status == http.client.OK else f"{path} answered {status}: {_reasons(body)}"


def _ask(telemetry: TelemetrySettings, path: str, timeout_seconds: float) -> tuple[int, bytes]:
    host = WILDCARDS.get(telemetry.host, telemetry.host)
    if telemetry.tls is None:
        connection = http.client.HTTPConnection(host, telemetry.port, timeout=timeout_seconds)
    else:
        connection = http.client.HTTPSConnection(
            host, telemetry.port, timeout=timeout_seconds, context=_unverified(telemetry.tls)
        )
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        return response.status, response.read(MOST_BYTES)
    finally:
        connection.close()


def _unverified(tls: TlsSettings) -> ssl.SSLContext:
    """Accept any certificate: its host name may differ from the local address, and no secret is sent."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    if tls.client_ca_file is not None:
        # The server's own certificate works if the client certificates have the same CA.
        context.load_cert_chain(tls.certificate_file, tls.key_file)
    return context


def _reasons(body: bytes) -> str:
    try:
        return "; ".join(json.loads(body)["reasons"])
    except (ValueError, KeyError, TypeError):
        return body[:200].decode(errors="replace")
