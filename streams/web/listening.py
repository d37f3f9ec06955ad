"""One HTTP port: listens, asks who is there, and binds the browser to what the page itself brings."""

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
"""Answer without a password: a probe has none, and they tell no more than whether the worker works, and why
not."""


class Port:
    """Where an application of aiohttp is reached.

    Args:
        setting: The setting that names the port, for errors.
        host: Address to listen on.
        port: Port; 0 takes a free one.
        auth: Asks for user and password; None allows everyone who reaches the port.
        tls: Has the port speak TLS; None leaves it plain.
        open_paths: What is answered without a password.
        far_paths: Where nobody is asked who they are, what other machines may read beside that; None:
            everything.
        allowed_hosts: Names that requests may give beside those that are this machine's, where nobody is
            asked.
        request_seconds: Until a request's headers have come; above 0.
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
        """Where it listens."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"{'http' if self._tls is None else 'https'}://{host}:{self._port}"

    @property
    def asks(self) -> bool:
        """Whether it asks who is there: for a password, or for a client's certificate."""
        return self._auth is not None or (
            self._tls is not None and self._tls.verify_mode == ssl.CERT_REQUIRED
        )

    @property
    def guarded(self) -> bool:
        """Whether strangers are kept out: it asks who is there, or only this machine gets here."""
        return self.asks or is_loopback(self._host)

    def application(self, *, limit_bytes: int = 1024 * 1024) -> web.Application:
        """Give an application that asks who is there and binds the browser.

        Args:
            limit_bytes: Largest body of a request.
        """
        app = web.Application(middlewares=[self._guard], client_max_size=limit_bytes)
        app.on_response_prepare.append(_secure)
        return app

    async def start(self, app: web.Application) -> None:
        """Listen.

        Raises:
            PortError: The port is taken, or not this machine's.
        """
        runner = web.AppRunner(app, access_log=None, handle_signals=False)
        await runner.setup()
        server = runner.server
        if server is None:  # it has one once it is set up
            raise PortError(f"{self._setting}: the server could not be made")
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
            status=401, text="user and password, please\n", headers={"WWW-Authenticate": auth.CHALLENGE}
        )


def _is_near(request: web.Request) -> bool:
    """Whether a request comes from this machine, or through `kubectl port-forward`."""
    peer = None if request.transport is None else request.transport.get_extra_info("peername")
    return isinstance(peer, tuple) and is_loopback(str(peer[0]).removeprefix("::ffff:"))


def asks_this_machine(request: web.Request) -> bool:
    """Whether a request names this machine: a page of the web can point its own name here, but not ours."""
    if not request.raw_path.startswith("/"):
        return False  # an address, for a proxy
    host = request.host
    name = host if host.endswith("]") or ":" not in host else host.rpartition(":")[0]
    return is_loopback(name.strip("[]"))


def json_response(value: Any, status: int = 200) -> web.Response:
    """Answer with JSON, whatever the texts in it hold."""
    body = orjson.dumps(value, default=str, option=orjson.OPT_NON_STR_KEYS)
    return web.Response(body=body, status=status, content_type="application/json")


async def _secure(_: web.Request, response: web.StreamResponse) -> None:
    """Whatever is answered, refusals included, is for this page alone and is kept nowhere."""
    for name, value in SECURITY.items():
        response.headers.setdefault(name, value)
    response.headers.pop("Server", None)
