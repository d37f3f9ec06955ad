"""The worker's one port: /metrics, /healthz, /readyz, and a page for people."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import resources
from typing import Any, Final

import orjson
from aiohttp import web
from prometheus_client import CollectorRegistry

from streams.errors import StreamsError
from streams.exposition import content_type, expose
from streams.health import Health, Report

_SECURITY: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_ASSETS: Final = {
    "/": ("status.html", "text/html"),
    "/status.js": ("status.js", "text/javascript"),
    "/status.css": ("status.css", "text/css"),
}


class PortError(StreamsError):
    """The port cannot be listened on."""


class WebServer:
    """Serves one worker's state. Read-only, without authentication: bind it where only friends can reach it.

    Args:
        host: Address to listen on.
        port: Port; 0 takes a free one.
        registry: What /metrics shows.
        health: What /healthz and /readyz say.
        status: What the page shows; values that JSON can hold.
    """

    def __init__(
        self,
        *,
        host: str,
        port: int,
        registry: CollectorRegistry,
        health: Health,
        status: Callable[[], Mapping[str, Any]],
    ) -> None:
        self._host = host
        self._port = port
        self._registry = registry
        self._health = health
        self._status = status
        self._runner: web.AppRunner | None = None
        self._assets = {
            path: (resources.files("streams.pages").joinpath(name).read_text(encoding="utf-8"), kind)
            for path, (name, kind) in _ASSETS.items()
        }

    @property
    def url(self) -> str:
        """Where it listens."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{host}:{self._port}"

    async def start(self) -> None:
        """Listen.

        Raises:
            PortError: The port is taken, or not this machine's.
        """
        app = web.Application()
        app.router.add_get("/metrics", self._metrics)
        app.router.add_get("/healthz", self._alive)
        app.router.add_get("/readyz", self._ready)
        app.router.add_get("/status.json", self._status_json)
        for path in self._assets:
            app.router.add_get(path, self._asset)
        runner = web.AppRunner(app, access_log=None, handle_signals=False)
        await runner.setup()
        try:
            await web.TCPSite(runner, self._host, self._port).start()
        except OSError as error:
            await runner.cleanup()
            raise PortError(
                f"telemetry.port: cannot listen on {self._host}:{self._port} ({error.strerror or error}); "
                "choose another port, or 0 for a free one"
            ) from error
        self._port = runner.addresses[0][1]
        self._runner = runner

    async def stop(self) -> None:
        """Stop listening."""
        runner, self._runner = self._runner, None
        if runner is not None:
            await runner.cleanup()

    async def _metrics(self, request: web.Request) -> web.Response:
        kind = content_type(request.headers.get("Accept", ""))
        return web.Response(
            body=expose(self._registry, kind), headers={"Content-Type": kind, "Vary": "Accept"}
        )

    async def _alive(self, _: web.Request) -> web.Response:
        return _answer(self._health.alive())

    async def _ready(self, _: web.Request) -> web.Response:
        return _answer(self._health.ready())

    async def _status_json(self, _: web.Request) -> web.Response:
        body = orjson.dumps(self._status(), default=str, option=orjson.OPT_NON_STR_KEYS)
        return web.Response(body=body, content_type="application/json", headers=_SECURITY)

    async def _asset(self, request: web.Request) -> web.Response:
        text, kind = self._assets[request.path]
        return web.Response(text=text, content_type=kind, charset="utf-8", headers=_SECURITY)


def _answer(report: Report) -> web.Response:
    notes = {"notes": report.notes} if report.notes else {}
    body = orjson.dumps({"ok": report.ok, "reasons": report.reasons, **notes})
    return web.Response(
        body=body,
        status=200 if report.ok else 503,
        content_type="application/json",
        headers={"Cache-Control": "no-store"},
    )
