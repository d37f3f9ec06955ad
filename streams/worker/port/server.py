"""The worker's one port: /metrics, /healthz, /readyz, and a page for people."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping
from importlib import resources
from typing import Any, Final

import orjson
import structlog
from aiohttp import web
from aiohttp.typedefs import Handler
from prometheus_client import CollectorRegistry

from judge.endpoint.hosts import is_loopback
from streams.errors import PortError
from streams.telemetry.exposition import content_type, expose
from streams.worker.health import Health, Report
from streams.worker.port.access import BasicAuth

_log = structlog.stdlib.get_logger(__name__)

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
OPEN_PATHS: Final = frozenset({"/healthz", "/readyz"})
"""Answer without a password: whoever probes has none, and they tell no more than whether the worker works, and why not."""
_ASSETS: Final = {
    "/": ("status.html", "text/html"),
    "/status.js": ("status.js", "text/javascript"),
    "/status.css": ("status.css", "text/css"),
}


class WebServer:
    """Serves one worker's state. Nothing can be changed here: every method but GET and HEAD is refused.

    Args:
        host: Address to listen on.
        port: Port; 0 takes a free one.
        registry: What /metrics shows.
        health: What /healthz and /readyz say.
        status: What the page shows; values that JSON can hold.
        auth: Asks for user and password; None lets in everybody who reaches the port.
        tls: Has the port speak TLS; None leaves it plain.
    """

    def __init__(
        self,
        *,
        host: str,
        port: int,
        registry: CollectorRegistry,
        health: Health,
        status: Callable[[], Mapping[str, Any]],
        auth: BasicAuth | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._host = host
        self._port = port
        self._registry = registry
        self._health = health
        self._status = status
        self._auth = auth
        self._tls = tls
        self._runner: web.AppRunner | None = None
        self._assets = {
            path: (
                resources.files("streams.worker.port.assets").joinpath(name).read_text(encoding="utf-8"),
                kind,
            )
            for path, (name, kind) in _ASSETS.items()
        }

    @property
    def url(self) -> str:
        """Where it listens."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"{'http' if self._tls is None else 'https'}://{host}:{self._port}"

    async def start(self) -> None:
        """Listen.

        Raises:
            PortError: The port is taken, or not this machine's.
        """
        app = web.Application(middlewares=[self._guard])
        app.on_response_prepare.append(_secure)
        app.router.add_get("/metrics", self._metrics)
        app.router.add_get("/healthz", self._alive)
        app.router.add_get("/readyz", self._ready)
        app.router.add_get("/status.json", self._status_json)
        for path in self._assets:
            app.router.add_get(path, self._asset)
        runner = web.AppRunner(app, access_log=None, handle_signals=False)
        await runner.setup()
        try:
            await web.TCPSite(runner, self._host, self._port, ssl_context=self._tls).start()
        except OSError as error:
            await runner.cleanup()
            raise PortError(
                f"telemetry.port: cannot listen on {self._host}:{self._port} ({error.strerror or error}); "
                "choose another port, or 0 for a free one"
            ) from error
        self._port = runner.addresses[0][1]
        self._runner = runner
        if self._auth is None and not is_loopback(self._host):
            _log.warning(
                "whoever reaches this port can read the page and the metrics, verdicts of single answers among them; "
                "set telemetry.basic_auth, or keep others away by network policy",
                url=self.url,
            )

    async def stop(self) -> None:
        """Stop listening."""
        runner, self._runner = self._runner, None
        if runner is not None:
            await runner.cleanup()

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        auth = self._auth
        if auth is None or request.path in OPEN_PATHS or auth.admits(request.headers.get("Authorization")):
            return await handler(request)
        return web.Response(
            status=401, text="user and password, please\n", headers={"WWW-Authenticate": auth.CHALLENGE}
        )

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
        return web.Response(body=body, content_type="application/json")

    async def _asset(self, request: web.Request) -> web.Response:
        text, kind = self._assets[request.path]
        return web.Response(text=text, content_type=kind, charset="utf-8")


def _answer(report: Report) -> web.Response:
    notes = {"notes": report.notes} if report.notes else {}
    body = orjson.dumps({"ok": report.ok, "reasons": report.reasons, **notes})
    return web.Response(body=body, status=200 if report.ok else 503, content_type="application/json")


async def _secure(_: web.Request, response: web.StreamResponse) -> None:
    """Whatever is answered, refusals included, is for this page alone and is kept nowhere."""
    for name, value in _SECURITY.items():
        response.headers.setdefault(name, value)
    response.headers.pop("Server", None)
