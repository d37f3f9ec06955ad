"""Services until a signal: `worker`, `broker`, `offline-judge`, `demo`; and `health`, which asks a worker."""

from __future__ import annotations

import asyncio
import gc
import http.client
import json
import logging
import os
import ssl
import time
from contextlib import AbstractContextManager, AsyncExitStack, nullcontext
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typer import Exit, Option, echo

from streams.cli.options import AGENTS, JSON, REQUIRED_CONFIG, chosen, require_one_of
from streams.cli.running import BadUsageError, CommandError, emit, run_until_stopped, tell
from streams.cli.session import Session, log_to_stderr, opened, settings_for_command, warn_of_deprecated

if TYPE_CHECKING:
    from collections.abc import Callable

    from streams.demo.run import Display
    from streams.settings.judge import EndpointSettings
    from streams.settings.outputs import TelemetrySettings, TlsSettings

WILDCARDS = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - compared, not listened on


def worker(config: Path = REQUIRED_CONFIG, agents: str = AGENTS) -> None:
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
    settings = settings_for_command(config, runnable="intake" in names or "judge" in names)
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

    def shown(server: EmbeddedBroker) -> tuple[Any, str]:
        servers = server.bootstrap_servers
        line = f"embedded Kafka broker at {servers} (in memory, loopback only)"
        return {"bootstrap_servers": servers, "topics": topics}, line

    try:
        _serve(EmbeddedBroker(port=port, topics=topics), port, shown, as_json=as_json)
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

    def shown(server: OfflineJudge) -> tuple[Any, str]:
        line = f"offline judge at {server.base_url}, model {server.model} (rules, no language model)"
        return {"base_url": server.base_url, "model": server.model}, line

    _serve(OfflineJudge(port=port, latency_seconds=latency_seconds), port, shown, as_json=as_json)


def _topic(text: str) -> tuple[str, int]:
    name, _, count = text.rpartition(":")
    if not name or not count.isascii() or not count.isdigit() or not 1 <= int(count) <= 10_000:
        got = f"got {text!r}; for example qa.events:4"
        raise BadUsageError(f"--topic must be NAME:PARTITIONS with 1 to 10000 partitions, {got}")
    return name, int(count)


def _serve(server: Any, port: int, shown: Callable[[Any], tuple[Any, str]], *, as_json: bool) -> None:
    async def serve(stop: asyncio.Event) -> None:
        async with AsyncExitStack() as stack:
            try:
                await stack.enter_async_context(server)
            except OSError as error:
                why = f"{error.strerror or error}; choose another --port, or 0 for a free one"
                raise CommandError(f"cannot listen on 127.0.0.1:{port}: {why}") from error
            value, line = shown(server)
            emit(value, [line], as_json=as_json)
            await stop.wait()

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
        time.sleep(0.2)
    echo("ready" if ready else "alive")


def _problem(telemetry: TelemetrySettings, path: str, timeout_seconds: float, *, named: bool) -> str | None:
    host, port = WILDCARDS.get(telemetry.host, telemetry.host), telemetry.port
    connection = http.client.HTTPConnection(host, port, timeout=timeout_seconds)
    if telemetry.tls is not None:
        tls = _unverified(telemetry.tls)
        connection = http.client.HTTPSConnection(host, port, timeout=timeout_seconds, context=tls)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        status, body = response.status, response.read(65_536)
    except (OSError, http.client.HTTPException) as error:
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


def demo(
    events: int | None = Option(
        None, "--events", "-n", min=1, max=10_000_000, metavar="N", help="Stop after N events."
    ),
    events_file: Path | None = Option(None, metavar="FILE", help="Serve these events (JSON lines) once."),
    metric: list[str] | None = Option(
        None, "--metric", "-m", metavar="NAME", help="Repeatable; default: coverage and relevance."
    ),
    judge_latency_seconds: float = Option(0.0, metavar="S", min=0, max=600, help="Of the offline judge."),
    model: str | None = Option(None, metavar="NAME", help="Ask this model instead of the offline judge."),
    base_url: str | None = Option(
        None, metavar="URL", help="Its address; default: OPENAI_BASE_URL, else OpenAI's."
    ),
    max_usd: float = Option(0.5, metavar="USD", min=0.01, max=10_000, help="Stop at this cost."),
    as_json: bool = Option(False, "--json", help="Print only the summary, as JSON."),
) -> None:
    """Run the whole pipeline on this machine: broker, judge, worker, events and verdicts.

    The broker is in memory, on loopback. The judge is rule-based and free, unless --model or --base-url (or
    OPENAI_MODEL or OPENAI_BASE_URL) name a real one; its key is OPENAI_API_KEY. The answers get worse
    half-way. Without --events or --events-file the demo runs until Ctrl-C, and quality falls and recovers.
    """
    started = time.monotonic()
    from judge.metrics.registry import metric_names
    from streams.demo.run import DemoPlan, Ending, run_demo
    from streams.demo.screen import summary_lines

    metrics = tuple(dict.fromkeys(metric or ()))
    for name in metrics:
        require_one_of("--metric", name, metric_names())
    lines = None if events_file is None else _lines(events_file, events)
    if lines is not None:
        if events is not None and events > len(lines):
            tell(f"{events_file} has {len(lines)} events: the demo ends after them")
        events = len(lines)

    async def run(stop: asyncio.Event) -> Ending:
        plan = DemoPlan(
            events=events,
            lines=lines,
            endpoint=await _endpoint(base_url, model),
            judge_latency_seconds=judge_latency_seconds,
            started=started,
            metrics=metrics,
            max_usd=max_usd,
        )
        with _display(as_json=as_json) as display:
            return await run_demo(plan, display, stop)

    values, early = run_until_stopped(run)
    emit(values, summary_lines(values, complete=early is None), as_json=as_json)
    if early == "limit":
        tell(f"the demo stopped at its limit: {values['limit']}")
    elif events is not None and early is not None:
        raise Exit(130)
    elif events is not None and not values["identity_holds"]:
        raise CommandError("some events are unaccounted for: the summary's numbers do not add up")


def _lines(file: Path, events: int | None) -> list[bytes]:
    from streams.batch.sources import bounded_lines

    with opened(file) as handle:
        texts = (line.rstrip(b"\r\n") for line in bounded_lines(handle, str(file)))
        lines = list(islice(filter(None, texts), events))
    if not lines:
        raise BadUsageError(f"--events-file: {file} has no events; it needs one JSON object per line")
    return lines


async def _endpoint(base_url: str | None, model: str | None) -> EndpointSettings | None:
    """Return the real judge; None for the offline one. A key alone names none."""
    from streams.judging.endpoints import chosen_endpoint

    named = {"--model": model, "--base-url": base_url}
    named |= {name: os.environ.get(name, "").strip() for name in ("OPENAI_MODEL", "OPENAI_BASE_URL")}
    source = next((name for name, value in named.items() if value), None)
    if source is None:
        return None
    endpoint = await chosen_endpoint(os.environ, base_url=base_url, model=model)
    if endpoint is None:
        remedy = "set it, or name an address with --base-url"
        raise BadUsageError(f"OPENAI_API_KEY: is required with {source}; {remedy}")
    tell(f"asking {endpoint.model} at {endpoint.base_url} once ...")
    return endpoint


def _display(*, as_json: bool) -> AbstractContextManager[Display]:
    from rich.console import Console

    from streams.demo.screen import PlainDisplay, live

    console = Console()
    is_live = console.is_terminal and not as_json and not console.is_dumb_terminal
    # A log line would break the live view, which shows the problems that matter.
    log_to_stderr("error" if is_live else "warning")
    # The display shows alerts and outages, the summary what is in flight; timers are often late because
    # everything shares the event loop.
    for name in ("streams.monitoring", "streams.judging", "streams.worker", "mode.timers"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    return live(console) if is_live else nullcontext(PlainDisplay(lambda line: echo(line, err=as_json)))
