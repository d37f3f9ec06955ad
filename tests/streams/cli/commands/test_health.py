"""`judgestream health`: the probe of a container's health check."""

from __future__ import annotations

import asyncio
import json
import ssl
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from streams.settings import load_settings
from streams.web.access import open_access
from tests.streams.certificates import Authority, Files
from tests.streams.cli.processes import call
from tests.streams.worker.serving import served

ALIVE: dict[str, Any] = {"ok": True, "reasons": []}
STUCK: dict[str, Any] = {"ok": False, "reasons": ["the delivery loop has not run for 70 s", "stopping"]}


class Port(ThreadingHTTPServer):
    """The worker's port: a fixed answer to /healthz and /readyz."""

    answers: dict[str, dict[str, Any]]
    later: Iterator[dict[str, Any]]
    """The next answers of /readyz."""
    daemon_threads = True

    def handle_error(self, *_: object) -> None:
        """Leave out the traceback of a refused client."""


class Answer(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        assert isinstance(self.server, Port)
        report = self.server.answers[self.path]
        self.server.answers["/readyz"] = next(self.server.later, self.server.answers["/readyz"])
        body = json.dumps(report).encode()
        self.send_response(200 if report["ok"] else 503)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Log nothing."""


@contextmanager
def listening(
    alive: dict[str, Any],
    ready: dict[str, Any],
    tls: ssl.SSLContext | None = None,
    later: Sequence[dict[str, Any]] = (),
) -> Iterator[int]:
    server = Port(("127.0.0.1", 0), Answer)
    server.answers, server.later = {"/healthz": alive, "/readyz": ready}, iter(later)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def settings(folder: Path, **telemetry: Any) -> str:
    file = folder / "settings.yaml"
    file.write_text(json.dumps({"telemetry": telemetry}))
    return str(file)


def speaks_tls(own: Files, clients: Path | None = None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(own.certificate, own.key)
    if clients is not None:
        context.load_verify_locations(clients)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


@pytest.mark.parametrize(
    ("alive", "ready", "options", "host", "code", "printed"),
    [
        (ALIVE, STUCK, (), "127.0.0.1", 0, "alive"),
        (ALIVE, STUCK, (), "0.0.0.0", 0, "alive"),  # noqa: S104 - only a setting
        (STUCK, ALIVE, ("--ready",), "127.0.0.1", 0, "ready"),
        (STUCK, ALIVE, (), "127.0.0.1", 1, "the delivery loop has not run for 70 s; stopping"),
        ({"ok": False}, ALIVE, (), "127.0.0.1", 1, '{"ok": false}'),
    ],
)
def test_the_exit_code_is_that_of_the_probe(
    alive: dict[str, Any],
    ready: dict[str, Any],
    options: tuple[str, ...],
    host: str,
    code: int,
    printed: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The command asks /healthz, or /readyz with --ready, on loopback, and prints the reasons of a failure.

    An answer without reasons is printed as it is.
    """
    with listening(alive, ready) as port:
        assert call("health", *options, "--config", settings(tmp_path, host=host, port=port)) == code
    shown = capsys.readouterr()
    if code:
        assert shown.err == f"error: /healthz answered 503: {printed}\n"
    else:
        assert shown.out == f"{printed}\n"


def test_waiting_ends_when_the_worker_is_ready(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`--wait` asks again until the answer is good: here the third one."""
    with listening(ALIVE, STUCK, later=(STUCK, ALIVE)) as port:
        assert call("health", "--ready", "--wait", "60", "--config", settings(tmp_path, port=port)) == 0
    assert capsys.readouterr().out == "ready\n"


def test_waiting_in_vain_gives_the_last_reason(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with listening(ALIVE, STUCK) as port:
        assert call("health", "--ready", "--wait", "0.3", "--config", settings(tmp_path, port=port)) == 1
    assert capsys.readouterr().err.endswith("has not run for 70 s; stopping (waited 0.3 s)\n")


def test_a_closed_port_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A closed port gives exit code 1 and is named."""
    with listening(ALIVE, ALIVE) as port:
        pass
    assert call("health", "--config", settings(tmp_path, port=port)) == 1
    said = capsys.readouterr().err
    assert said.startswith(f"error: no answer from /healthz at port {port}: ")
    assert "refused" in said


@pytest.mark.parametrize("mutual", [False, True])
def test_a_tls_port_is_probed_over_tls(mutual: bool, tmp_path: Path) -> None:
    """A TLS port is probed over TLS, with the worker's own certificate if the port requires one."""
    authority = Authority(tmp_path)
    own = authority.issue("worker", "worker.example")
    tls = {"certificate_file": str(own.certificate), "key_file": str(own.key)}
    if mutual:
        tls["client_ca_file"] = str(authority.file)
    with listening(ALIVE, ALIVE, speaks_tls(own, authority.file if mutual else None)) as port:
        assert call("health", "--config", settings(tmp_path, port=port, tls=tls)) == 0


async def test_the_port_itself_with_tls_and_a_password(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The probe works against the worker's own server over TLS, without the password.

    The worker is alive and not ready.
    """
    own = Authority(tmp_path).issue("worker", "worker.example")
    (tmp_path / "password").write_text("hidden-from-checks")
    telemetry = {
        "tls": {"certificate_file": str(own.certificate), "key_file": str(own.key)},
        "basic_auth": {"username": "ops", "password_file": str(tmp_path / "password")},
    }
    read = load_settings(Path(settings(tmp_path, **telemetry)), {}).telemetry
    auth, tls = open_access(read, {})
    async with served(auth=auth, tls=tls) as url:
        config = settings(tmp_path, port=int(url.rpartition(":")[2]), **telemetry)
        assert await asyncio.to_thread(call, "health", "--config", config) == 0
        assert await asyncio.to_thread(call, "health", "--ready", "--config", config) == 1
    said = capsys.readouterr()
    assert said.out == "alive\n"
    assert "/readyz answered 503: no partitions assigned yet" in said.err
