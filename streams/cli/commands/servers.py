"""What runs until a signal: `worker`, `broker`, `offline-judge`; and `health`, which asks a worker."""
# ruff: noqa: PLC0415 - heavy imports stay inside the command, so that --help is quick

from __future__ import annotations

import gc
import http.client
import json
import os
import ssl
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typer import Option, echo

from streams.cli.running import BadUsageError, CommandError, emit, run_until_stopped
from streams.cli.session import (
    JSON,
    REQUIRED_CONFIG,
    Session,
    chosen,
    log_to_stderr,
    runnable_settings,
    settings_for_command,
    warn_of_deprecated,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from streams.settings.outputs import TelemetrySettings, TlsSettings

WILDCARDS = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - compared, not listened on
MOST_BYTES = 65_536
AGAIN_SECONDS = 0.2
DEFAULT_AGENTS = "intake,judge,monitor"


def worker(
    config: Path = REQUIRED_CONFIG,
    agents: str = Option(DEFAULT_AGENTS, metavar="NAMES", help="Agents to run, separated by commas."),
) -> None:
    """Run the service: read events, sample, judge, publish verdicts, detect drops.

    Runs until SIGTERM or Ctrl-C, then finishes the records in flight. After a crash, the next worker repeats
    them. The agent `store` also keeps results and texts in a file for `explore`, `show` and `export`.
    """
    gc.disable()  # what a start imports stays, and looking through it takes a tenth of the start
    import structlog

    from streams.kafka.topics.table import ALL_AGENTS
    from streams.telemetry.logs import SHORT_SECRET, short_secrets
    from streams.worker.run import run_worker

    gc.freeze()
    gc.enable()
    names = chosen("--agents", agents.split(","), ALL_AGENTS)
    log_to_stderr("error")  # packs' warnings are logged later
    judges = {"intake", "judge"} & set(names)
    settings = runnable_settings(config) if judges else settings_for_command(config)
    call = Session(settings, config)
    call.log_as_worker()
    warn_of_deprecated(settings)
    for place in short_secrets(settings, os.environ):
        structlog.stdlib.get_logger(__name__).warning(SHORT_SECRET, setting=place)
    call.run(lambda stop: run_worker(settings, stop=stop, agents=names))


def broker(
    port: int = Option(9092, "--port", "-p", min=0, max=65535, help="Port to listen on; 0 picks a free one."),
    topic: list[str] | None = Option(
        None, "--topic", "-t", metavar="NAME:PARTITIONS", help="A topic; repeatable."
    ),
    as_json: bool = JSON,
) -> None:
    """Run an in-memory Kafka broker on loopback until SIGTERM or Ctrl-C.

    For trials and tests: its records are lost when it ends. Unknown topics are created on request.
    """
    from streams.embedded.broker import EmbeddedBroker
    from streams.embedded.wire import EmbeddedBrokerError

    topics = dict(_topic(text) for text in topic or ())

    def tell(server: Any) -> None:
        line = f"embedded Kafka broker at {server.bootstrap_servers} (in memory, loopback only)"
        emit({"bootstrap_servers": server.bootstrap_servers, "topics": topics}, [line], as_json=as_json)

    try:
        _serve(lambda: EmbeddedBroker(port=port, topics=topics), port, tell)
    except (EmbeddedBrokerError, ValueError) as error:
        raise BadUsageError(str(error)) from error


def offline_judge(
    port: int = Option(8000, "--port", "-p", min=0, max=65535, help="Port to listen on; 0 picks a free one."),
    latency_seconds: float = Option(0.0, min=0, max=3600, help="Latency of each reply."),
    as_json: bool = JSON,
) -> None:
    """Run the rule-based judge as an OpenAI-compatible endpoint on loopback, until SIGTERM or Ctrl-C.

    It compares words and is free. Its results contain its name.
    """
    from judge.offline.server import OfflineJudge

    def tell(server: Any) -> None:
        line = f"offline judge at {server.base_url}, model {server.model} (rules, no language model)"
        emit({"base_url": server.base_url, "model": server.model}, [line], as_json=as_json)

    _serve(lambda: OfflineJudge(port=port, latency_seconds=latency_seconds), port, tell)


def _topic(text: str) -> tuple[str, int]:
    name, _, count = text.rpartition(":")
    if not name or not count.isascii() or not count.isdigit() or not 1 <= int(count) <= 10_000:
        raise BadUsageError(
            f"--topic must be NAME:PARTITIONS with 1 to 10000 partitions, got {text!r}; for "
            "example qa.events:4"
        )
    return name, int(count)


def _serve(build: Callable[[], Any], port: int, tell: Callable[[Any], None]) -> None:
    """Run a server until a signal."""

    async def serve(stop: Any) -> None:
        server = build()
        try:
            await server.start()
        except OSError as error:
            raise CommandError(
                f"cannot listen on 127.0.0.1:{port}: {error.strerror or error}; choose another --port, "
                "or 0 for a free one"
            ) from error
        try:
            tell(server)
            await stop.wait()
        finally:
            await server.stop()

    run_until_stopped(serve)


def health(
    config: Path | None = Option(
        None, "--config", "-c", metavar="FILE", help="The worker's settings; default: the environment."
    ),
    ready: bool = Option(False, "--ready", help="Check readiness (/readyz), not liveness (/healthz)."),
    wait: float = Option(0.0, metavar="SECONDS", min=0, max=86_400, help="Ask again for this long."),
    timeout_seconds: float = Option(3.0, min=0.1, max=60, help="Time limit of one request."),
) -> None:
    """Check whether the worker on this machine is alive; exit with 1 if not.

    Uses address, port and TLS from the settings, without a password. For container health checks that run a
    command; Kubernetes probes use HTTP directly. A script waits for a worker with --ready --wait 60.
    """
    telemetry = settings_for_command(config).telemetry
    if telemetry.port == 0:
        raise BadUsageError("telemetry.port is 0, so the worker's port is unknown; set one")
    path = "/readyz" if ready else "/healthz"
    deadline = time.monotonic() + wait
    while (problem := _problem(telemetry, path, timeout_seconds, named=config is not None)) is not None:
        if time.monotonic() >= deadline:
            raise CommandError(f"{problem} (waited {wait:g} s)" if wait else problem)
        time.sleep(AGAIN_SECONDS)
    echo("ready" if ready else "alive")


def _problem(telemetry: TelemetrySettings, path: str, timeout_seconds: float, *, named: bool) -> str | None:
    """Return why the worker is not alive or ready; None if it is."""
    host, port = WILDCARDS.get(telemetry.host, telemetry.host), telemetry.port
    connection = (
        http.client.HTTPConnection(host, port, timeout=timeout_seconds)
        if telemetry.tls is None
        else http.client.HTTPSConnection(
            host, port, timeout=timeout_seconds, context=_unverified(telemetry.tls)
        )
    )
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        status, body = response.status, response.read(MOST_BYTES)
    except (OSError, http.client.HTTPException) as error:
        # The system's error text names the cause: connection refused, timed out.
        where = "" if named else "; if the worker listens elsewhere, name its settings (--config FILE)"
        return f"no answer from {path} at port {port}: {error}{where}"
    finally:
        connection.close()
    return None if status == http.client.OK else f"{path} answered {status}: {_reasons(body)}"


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
