"""`judgestream health`: what a container's health check learns."""

from __future__ import annotations

import asyncio
import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from streams.settings import load_settings
from streams.web.access import open_access
from streams.worker.health import Health
from streams.worker.port.server import WebServer
from tests.streams.certificates import Authority, Files
from tests.streams.cli.test_main import call

ALIVE: dict[str, Any] = {"ok": True, "reasons": []}
STUCK: dict[str, Any] = {"ok": False, "reasons": ["the delivery loop has not run for 70 s", "stopping"]}


class Port(ThreadingHTTPServer):
    """Stands for the worker's port: an answer each to /healthz and /readyz, to everybody."""

    answers: dict[str, dict[str, Any]]
    daemon_threads = True

    def handle_error(self, *_: object) -> None:
        """Leave out the traceback of a client that was refused."""


class Answer(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        assert isinstance(self.server, Port)
        report = self.server.answers[self.path]
        body = json.dumps(report).encode()
        self.send_response(200 if report["ok"] else 503)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def listening(
    alive: dict[str, Any], ready: dict[str, Any], tls: ssl.SSLContext | None = None
) -> Iterator[int]:
    server = Port(("127.0.0.1", 0), Answer)
    server.answers = {"/healthz": alive, "/readyz": ready}
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


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])  # noqa: S104 - written down, not listened on
def test_an_alive_worker_is_alive(host: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 0; where it listens everywhere, it is asked on loopback."""
    with listening(ALIVE, STUCK) as port:
        assert call("health", "--config", settings(tmp_path, host=host, port=port)) == 0
    assert capsys.readouterr().out == "alive\n"


def test_a_stuck_worker_says_why(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 1, with the reasons of the answer."""
    with listening(STUCK, ALIVE) as port:
        assert call("health", "--config", settings(tmp_path, port=port)) == 1
    said = capsys.readouterr().err
    assert said == "error: /healthz answered 503: the delivery loop has not run for 70 s; stopping\n"


def test_ready_is_another_question(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With --ready it is /readyz that answers."""
    with listening(STUCK, ALIVE) as port:
        assert call("health", "--ready", "--config", settings(tmp_path, port=port)) == 0
    assert capsys.readouterr().out == "ready\n"


def test_nobody_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 1, with the port that was tried."""
    with listening(ALIVE, ALIVE) as port:
        pass
    assert call("health", "--config", settings(tmp_path, port=port)) == 1
    said = capsys.readouterr().err
    assert said.startswith(f"error: no answer from /healthz at port {port}: ")
    assert "refused" in said


def test_what_is_no_worker_is_quoted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An answer without reasons is shown as it came."""
    with listening({"ok": False}, ALIVE) as port:
        assert call("health", "--config", settings(tmp_path, port=port)) == 1
    assert '/healthz answered 503: {"ok": false}' in capsys.readouterr().err


@pytest.mark.parametrize("mutual", [False, True])
def test_a_port_that_speaks_tls(mutual: bool, tmp_path: Path) -> None:
    """It is asked over TLS, and shows the worker's own certificate where the port wants one."""
    authority = Authority(tmp_path)
    own = authority.issue("worker", "worker.example")
    tls = {"certificate_file": str(own.certificate), "key_file": str(own.key)}
    if mutual:
        tls["client_ca_file"] = str(authority.file)
    with listening(ALIVE, ALIVE, speaks_tls(own, authority.file if mutual else None)) as port:
        assert call("health", "--config", settings(tmp_path, port=port, tls=tls)) == 0


def test_a_port_that_nobody_knows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Port 0 takes a free one: bad usage, with what to do."""
    assert call("health", "--config", settings(tmp_path, port=0)) == 2
    assert "telemetry.port is 0" in capsys.readouterr().err


async def test_the_port_itself_with_tls_and_a_password(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What the worker serves and what the check asks fit together: by TLS, without the password, alive and
    not ready.
    """
    own = Authority(tmp_path).issue("worker", "worker.example")
    (tmp_path / "password").write_text("hidden-from-checks")
    telemetry = {
        "tls": {"certificate_file": str(own.certificate), "key_file": str(own.key)},
        "basic_auth": {"username": "ops", "password_file": str(tmp_path / "password")},
    }
    read = load_settings(Path(settings(tmp_path, **telemetry)), {}).telemetry
    auth, tls = open_access(read, {})
    health = Health(loop=lambda: None, agents=[], judge_trouble=lambda: None, broker_trouble=tuple)
    server = WebServer(
        host="127.0.0.1", port=0, registry=CollectorRegistry(), health=health, status=dict, auth=auth, tls=tls
    )
    await server.start()
    try:
        port = int(server.url.rpartition(":")[2])
        config = settings(tmp_path, port=port, **telemetry)
        assert await asyncio.to_thread(call, "health", "--config", config) == 0
        assert await asyncio.to_thread(call, "health", "--ready", "--config", config) == 1
    finally:
        await server.stop()
    said = capsys.readouterr()
    assert said.out == "alive\n"
    assert "/readyz answered 503: no partitions assigned yet" in said.err
