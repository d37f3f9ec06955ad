"""One HTTP port: listens, asks who is there, and binds the browser to what the page itself brings."""

from __future__ import annotations

import ssl
from collections.abc import Collection, Mapping
from importlib import resources
from typing import Any, Final

import orjson
from aiohttp import web
from aiohttp.typedefs import Handler

from judge.endpoint.hosts import is_loopback
from streams.errors import PortError
from streams.web.access import BasicAuth

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
OPEN_PATHS: Final = frozenset({"/healthz", "/readyz"})
"""Answer without a password: a probe has none, and they tell no more than whether the worker works, and why not."""


class Port:
    """Where an application of aiohttp is reached.

    Args:
        setting: The setting that names the port, for errors.
        host: Address to listen on.
        port: Port; 0 takes a free one.
        auth: Asks for user and password; None lets in everybody who reaches the port.
        tls: Has the port speak TLS; None leaves it plain.
        open_paths: What is answered without a password.
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
    ) -> None:
        self._setting = setting
        self._host = host
        self._port = port
        self._auth = auth
        self._tls = tls
        self._open_paths = open_paths
        self._runner: web.AppRunner | None = None

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
        try:
            await web.TCPSite(runner, self._host, self._port, ssl_context=self._tls).start()
        except OSError as error:
            await runner.cleanup()
            raise PortError(
                f"{self._setting}: cannot listen on {self._host}:{self._port} ({error.strerror or error}); "
                "choose another port, or 0 for a free one"
            ) from error
        self._port = runner.addresses[0][1]
        self._runner = runner

    async def stop(self) -> None:
        """Stop listening."""
        runner, self._runner = self._runner, None
        if runner is not None:
            await runner.cleanup()

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        auth = self._auth
        if (
            auth is None
            or request.path in self._open_paths
            or auth.admits(request.headers.get("Authorization"))
        ):
            return await handler(request)
        return web.Response(
            status=401, text="user and password, please\n", headers={"WWW-Authenticate": auth.CHALLENGE}
        )


def asks_this_machine(request: web.Request) -> bool:
    """Whether a request names this machine: a page of the web can point its own name here, but not ours."""
    host = request.host
    name = host if host.endswith("]") or ":" not in host else host.rpartition(":")[0]
    return is_loopback(name.strip("[]"))


def load_assets(package: str, files: Mapping[str, tuple[str, str]]) -> Mapping[str, tuple[str, str]]:
    """Read the files of a page.

    Args:
        package: Where they are.
        files: By path, the file's name and its media type.

    Returns:
        By path, text and media type.
    """
    folder = resources.files(package)
    return {
        path: (folder.joinpath(name).read_text(encoding="utf-8"), kind)
        for path, (name, kind) in files.items()
    }


def json_response(value: Any, status: int = 200) -> web.Response:
    """Answer with JSON, whatever the texts in it hold."""
    body = orjson.dumps(value, default=str, option=orjson.OPT_NON_STR_KEYS)
    return web.Response(body=body, status=status, content_type="application/json")


async def _secure(_: web.Request, response: web.StreamResponse) -> None:
    """Whatever is answered, refusals included, is for this page alone and is kept nowhere."""
    for name, value in SECURITY.items():
        response.headers.setdefault(name, value)
    response.headers.pop("Server", None)
