"""`judgestream health`: the probe of a container's health check."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from streams.settings.load import load_settings
from streams.web.port import open_access
from tests.loopback import in_thread, on_loopback
from tests.streams.certificates import Authority
from tests.streams.cli.conftest import Command
from tests.streams.worker.serving import served

ALIVE: dict[str, Any] = {"ok": True, "reasons": []}
STUCK: dict[str, Any] = {"ok": False, "reasons": ["the delivery loop has not run for 70 s", "stopping"]}
TELLS = "the delivery loop has not run for 70 s; stopping"
NOT_READY = f"error: /readyz answered 503: {TELLS}"


@contextmanager
def listening(alive: dict[str, Any], *ready: dict[str, Any]) -> Iterator[int]:
    """A worker's port with a fixed answer to /healthz, and these in turn to /readyz."""
    answers = {"/healthz": [alive], "/readyz": list(ready)}

    async def answer(request: web.Request) -> web.Response:
        reports = answers[request.path]
        report = reports.pop(0) if len(reports) > 1 else reports[0]
        return web.json_response(report, status=200 if report["ok"] else 503)

    app = web.Application()
    app.router.add_get("/{name}", answer)
    with in_thread(on_loopback(app)) as address:
        yield int(address.rpartition(":")[2])


@pytest.mark.parametrize(
    ("alive", "ready", "options", "host", "code", "printed"),
    [
        (ALIVE, [STUCK], "", "127.0.0.1", 0, "alive\n"),
        (ALIVE, [STUCK], "", "0.0.0.0", 0, "alive\n"),  # noqa: S104 - only a setting
        (STUCK, [ALIVE], "--ready", "127.0.0.1", 0, "ready\n"),
        (STUCK, [ALIVE], "", "127.0.0.1", 1, f"error: /healthz answered 503: {TELLS}\n"),
        ({"ok": False}, [ALIVE], "", "127.0.0.1", 1, 'error: /healthz answered 503: {"ok": false}\n'),
        (ALIVE, [STUCK, STUCK, ALIVE], "--ready --wait 60", "127.0.0.1", 0, "ready\n"),
        (ALIVE, [STUCK], "--ready --wait 0.3", "127.0.0.1", 1, f"{NOT_READY} (waited 0.3 s)\n"),
    ],
)
def test_the_exit_code_is_that_of_the_probe(
    alive: Any, ready: Any, options: str, host: str, code: int, printed: str, written: Any, command: Command
) -> None:
    with listening(alive, *ready) as port:
        config = written(telemetry={"host": host, "port": port})
        ended = command("health", *options.split(), "--config", config)
    assert (ended.code, ended.out + ended.err) == (code, printed)


def test_a_closed_port_is_named(written: Callable[..., Path], command: Command) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    ended = command("health", "--config", written(telemetry={"port": port}))
    assert ended.code == 1
    assert ended.err.startswith(f"error: no answer from /healthz at port {port}: ")
    assert "refused" in ended.err


@pytest.mark.parametrize("mutual", [False, True])
def test_the_port_itself_with_tls_and_a_password(
    mutual: bool, tmp_path: Path, written: Callable[..., Path], command: Command
) -> None:
    """It shows the worker's own certificate if the port requires one. The worker is alive and not ready."""
    authority = Authority(tmp_path)
    own = authority.issue("worker", "worker.example")
    (tmp_path / "password").write_text("hidden-from-checks")
    tls = {"certificate_file": str(own.certificate), "key_file": str(own.key)}
    if mutual:
        tls["client_ca_file"] = str(authority.file)
    login = {"username": "ops", "password_file": str(tmp_path / "password")}
    telemetry: dict[str, Any] = {"tls": tls, "basic_auth": login}
    auth, context = open_access(load_settings(written(telemetry=telemetry), {}).telemetry, {})
    with in_thread(served(auth=auth, tls=context)) as url:
        config = written(telemetry=telemetry | {"port": int(url.rpartition(":")[2])})
        alive, ready = command("health", "--config", config), command("health", "--ready", "--config", config)
    assert (alive.code, alive.out) == (0, "alive\n")
    ready.fails("/readyz answered 503: no partitions assigned yet", code=1)
