"""One HTTP port: listening, authentication and security headers."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Collection, Sequence
from typing import Any, Final

import orjson
from aiohttp import web
from aiohttp.typedefs import Handler

from judge.endpoint.hosts import is_loopback
from streams.errors import PortError
from streams.web.access import BasicAuth
from streams.web.connections import REQUEST_SECONDS, Connections
from streams.web.hosts import is_own_host, is_own_target

SECURITY: Final = {
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
BACKLOG: Final = 256
OPEN_PATHS: Final = frozenset({"/healthz", "/readyz"})
"""Paths without a password, for probes; they only report the worker's health."""


class Port:
    """The HTTP port of an aiohttp application.

    Args:
        setting: The setting that names the port, for errors.
        host: Address to listen on.
        port: Port; 0 picks a free one.
        auth: Basic authentication; None allows all clients.
        tls: TLS context; None: plain HTTP.
        open_paths: Paths without a password.
        far_paths: Without authentication, further paths for other machines; None: all.
        allowed_hosts: Without authentication, host names accepted besides this machine's.
        request_seconds: Time limit for a request's headers; above 0.
    """

    def __init__(
        self,
        *,
        setting: str,
        host: str,
        port: int,
        auth: BasicAuth | None,
        tls: ssl.SSLContext | None,
        open_paths: Collection[str] = OPEN_PATHS,
        far_paths: Collection[str] | None = None,
        allowed_hosts: Sequence[str] = (),
        request_seconds: float = REQUEST_SECONDS,
    ) -> None:
        self._setting = setting
        self._host = host
        self._port = port
        self._auth = auth
        self._tls = tls
        self._open_paths = open_paths
        self._allowed_hosts = tuple(allowed_hosts)
        self._far_paths = far_paths
        self._connections = Connections(SECURITY, request_seconds=request_seconds)
        self._runner: web.AppRunner | None = None
        self._listener: asyncio.Server | None = None

    @property
    def url(self) -> str:
        """The port's URL."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"{'http' if self._tls is None else 'https'}://{host}:{self._port}"

    @property
    def asks(self) -> bool:
        """Whether it requires a password or a client certificate."""
        return self._auth is not None or (
            self._tls is not None and self._tls.verify_mode == ssl.CERT_REQUIRED
        )

    @property
    def guarded(self) -> bool:
        """Whether it requires authentication or listens on loopback only."""
        return self.asks or is_loopback(self._host)

    def application(self, *, limit_bytes: int = 1024 * 1024) -> web.Application:
        """Return an application with authentication and security headers.

        Args:
            limit_bytes: Maximum body of a request.
        """
        app = web.Application(middlewares=[self._guard], client_max_size=limit_bytes)
        app.on_response_prepare.append(_secure)
        return app

    async def start(self, app: web.Application) -> None:
        """Listen.

        Raises:
            PortError: The address is in use or not this machine's.
        """
        runner = web.AppRunner(app, access_log=None, handle_signals=False)
        await runner.setup()
        server = runner.server
        if server is None:  # set by `setup`
            raise PortError(f"{self._setting}: the server could not be set up")
        try:
            self._listener = await asyncio.get_running_loop().create_server(
                lambda: self._connections.accept(server, access_log=None, lingering_time=0),
                self._host,
                self._port,
                ssl=self._tls,
                ssl_handshake_timeout=None if self._tls is None else REQUEST_SECONDS,
                backlog=BACKLOG,
            )
        except OSError as error:
            await runner.cleanup()
            raise PortError(
                f"{self._setting}: cannot listen on {self._host}:{self._port} ({error.strerror or error}); "
                "choose another port, or 0 for a free one"
            ) from error
        self._port = self._listener.sockets[0].getsockname()[1]
        self._runner = runner

    async def stop(self) -> None:
        """Stop listening."""
        runner, self._runner = self._runner, None
        listener, self._listener = self._listener, None
        if listener is not None:
            listener.close()
        if runner is not None:
            await runner.cleanup()

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        auth = self._auth
        if request.path in self._open_paths:
            return await handler(request)
        if not self.asks:
            allowed = self._allowed_hosts
            named = is_own_host(request.headers.getall("Host", []), allowed)
            if not (named and is_own_target(request.raw_path, allowed)):
                return web.Response(
                    status=421, text="this name is not served here; see telemetry.allowed_hosts\n"
                )
            if self._far_paths is not None and request.path not in self._far_paths and not _is_near(request):
                return web.Response(
                    status=403, text="this page is for its own machine; see telemetry.page and basic_auth\n"
                )
        if auth is None or auth.admits(request.headers.get("Authorization")):
            return await handler(request)
        return web.Response(
            status=401, text="user and password required\n", headers={"WWW-Authenticate": auth.CHALLENGE}
        )


def _is_near(request: web.Request) -> bool:
    """Return whether a request comes from this machine or through `kubectl port-forward`."""
    peer = None if request.transport is None else request.transport.get_extra_info("peername")
    return isinstance(peer, tuple) and is_loopback(str(peer[0]).removeprefix("::ffff:"))


def asks_this_machine(request: web.Request) -> bool:
    """Return whether a request names this machine, which a page with DNS rebinding cannot do."""
    if not request.raw_path.startswith("/"):
        return False  # a URL, for a proxy
    host = request.host
    name = host if host.endswith("]") or ":" not in host else host.rpartition(":")[0]
    return is_loopback(name.strip("[]"))


def json_response(value: Any, status: int = 200) -> web.Response:
    """Return a JSON response, for any text."""
    body = orjson.dumps(value, default=str, option=orjson.OPT_NON_STR_KEYS)
    return web.Response(body=body, status=status, content_type="application/json")


async def _secure(_: web.Request, response: web.StreamResponse) -> None:
    """Set the security headers of all responses, including errors."""
    for name, value in SECURITY.items():
        response.headers.setdefault(name, value)
    response.headers.pop("Server", None)
