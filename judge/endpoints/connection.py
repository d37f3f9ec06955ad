"""HTTP to an OpenAI-compatible API with little overhead: POST of a call, and the list of models.

The `openai` SDK provides address and headers, and its HTTP client manages connections and proxies. Its `post`
is not used: it builds address, headers and options again for each call, which takes more CPU time than
sending the request and reading the reply.
"""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

import aiohttp
import httpx2
import orjson
from openai import AsyncOpenAI, DefaultAioHttpClient

from judge.endpoints.options import is_loopback

COMPLETIONS: Final = "chat/completions"
EMBEDDINGS: Final = "embeddings"
MAX_LIST_BYTES: Final = 4 * 1024 * 1024
_CONNECT_SECONDS = 10.0
# Below the 5 s after which uvicorn (and so vLLM and many gateways) closes an idle connection: a request sent
# into a closing connection is lost.
_KEEPALIVE_SECONDS = 4.0
_fresh: ContextVar[bool] = ContextVar("fresh", default=False)
"""Whether the current call needs a new connection."""


class TooLargeReplyError(Exception):
    """A body exceeded its limit and was not read further."""

    def __init__(self, limit: int, *, is_success: bool) -> None:
        super().__init__(f"the reply is larger than {limit} bytes, too large for a verdict")
        self.is_success = is_success


class UnreadableReplyError(OSError):
    """A body has an encoding that was not requested; treated as a broken connection."""


@dataclass(frozen=True, slots=True)
class HttpReply:
    """A reply of any status."""

    status: int
    headers: httpx2.Headers
    content: bytes

    @property
    def is_success(self) -> bool:
        return 200 <= self.status < 300


class _Connector(aiohttp.TCPConnector):
    """Connects by host and port, and uses no connection on which something came unasked.

    aiohttp hands the loop a connected socket. If such a connection fails while it is made (a reset within the
    TLS handshake), uvloop, on which a user of the library may run, closes the file descriptor twice, and so
    another's (aiohttp #10506, uvloop #645).
    """

    async def _wrap_create_connection(self, *args: Any, addr_infos: list[Any], **kwargs: Any) -> Any:
        host, port = addr_infos[0][4][:2]
        return await self._wrap_existing_connection(*args, host, port, **kwargs)

    async def _get(self, *args: Any) -> Any:
        while (kept := await super()._get(*args)) is not None:
            # A late second reply to an earlier request would be taken for the reply to this one.
            if not _fresh.get() and kept.protocol is not None and not kept.protocol.should_close:
                return kept
            kept.close()
        return None


class _Client(DefaultAioHttpClient):
    """The SDK's HTTP client over `_Connector`."""

    def _init_transport(self, *args: Any, **kwargs: Any) -> Any:
        return _with_connector(super()._init_transport(*args, **kwargs))

    def _init_proxy_transport(self, *args: Any, **kwargs: Any) -> Any:
        return _with_connector(super()._init_proxy_transport(*args, **kwargs))


def _with_connector(transport: Any) -> Any:
    limits = transport.limits
    transport.client = lambda: aiohttp.ClientSession(
        connector=_Connector(
            limit=limits.max_connections, keepalive_timeout=limits.keepalive_expiry, ssl=transport.ssl_context
        )
    )
    return transport


class Connection:
    """Connections to one API; create, use and close it in one event loop."""

    def __init__(
        self,
        *,
        base_url: str,
        api_key: str,
        timeout_seconds: float,
        max_connections: int,
        max_reply_bytes: int,
        trust_env: bool,
    ) -> None:
        self._max_reply_bytes = max_reply_bytes
        self._http = _Client(
            limits=httpx2.Limits(max_connections=max_connections, keepalive_expiry=_KEEPALIVE_SECONDS),
            # The call has its own limit; only an address that does not answer fails sooner.
            timeout=httpx2.Timeout(timeout_seconds, connect=min(_CONNECT_SECONDS, timeout_seconds)),
            # A redirected POST would arrive as a GET, and send the key to an unconfigured address.
            follow_redirects=False,
            trust_env=trust_env,
        )
        self._client = AsyncOpenAI(
            api_key=api_key,
            base_url=base_url,
            max_retries=0,
            http_client=self._http,
            default_headers={"Accept-Encoding": "identity", "Content-Type": "application/json"},
        )
        base = self._client.base_url
        self._urls = {path: _url(base, path) for path in (COMPLETIONS, EMBEDDINGS)}
        given = {**self._client.auth_headers, **self._client.default_headers}
        # The SDK marks omitted headers with a sentinel.
        self._headers = httpx2.Headers(
            {name: value for name, value in given.items() if isinstance(value, str)}
        )

    async def post(self, content: bytes, path: str = COMPLETIONS, *, fresh: bool = False) -> HttpReply:
        """Send a JSON body and read the reply; `fresh`: over a new connection."""
        request = httpx2.Request(
            "POST", self._urls[path], headers=self._headers, stream=httpx2.ByteStream(content)
        )
        # As a stream that is read at once, the body's headers are left to the transport, which writes them
        # anyway.
        request.read()
        _fresh.set(fresh)
        response = await self._http.send(request, stream=True)
        try:
            return HttpReply(response.status_code, response.headers, await self._content(response))
        finally:
            await response.aclose()

    async def _content(self, response: httpx2.Response) -> bytes:
        """Return the body, read directly from the stream."""
        if response.headers.get("content-encoding", "identity").strip().lower() != "identity":
            raise UnreadableReplyError("the reply is compressed, which was not asked for")
        stream = response.stream
        if not isinstance(stream, httpx2.AsyncByteStream):
            raise TypeError(f"an asynchronous client gave a body to be read as {type(stream).__name__}")
        read = bytearray()  # not a list: there may be millions of parts
        async for part in stream:
            read += part
            if len(read) > self._max_reply_bytes:
                raise TooLargeReplyError(self._max_reply_bytes, is_success=response.is_success)
        return bytes(read)

    async def close(self) -> None:
        await self._client.close()


def _url(base_url: httpx2.URL, path: str) -> httpx2.URL:
    """Return the address of an API path; a query string stays at the end."""
    folder, mark, query = base_url.raw_path.partition(b"?")
    return base_url.copy_with(raw_path=folder + path.encode() + mark + query)


@dataclass(frozen=True, slots=True)
class ModelList:
    """An endpoint's list of models.

    Args:
        names: None if the reply has no list: many gateways have none, and some keys may not read it.
        date: The `Date` header, unless the reply comes from a cache.
    """

    status: int
    names: tuple[str, ...] | None
    date: str | None = None


async def list_models(base_url: str, api_key: str, *, timeout_seconds: float) -> ModelList:
    """Return the models of an endpoint. Redirects are not followed."""
    headers = {"Accept": "application/json"} | ({"Authorization": f"Bearer {api_key}"} if api_key else {})
    async with (
        asyncio.timeout(timeout_seconds),
        # No proxy for loopback addresses.
        aiohttp.ClientSession(trust_env=not is_loopback(urlsplit(base_url).hostname or "")) as session,
        session.get(f"{base_url}/models", headers=headers, allow_redirects=False) as answer,
    ):
        body = await answer.content.read(MAX_LIST_BYTES)
        date = None if "Age" in answer.headers else answer.headers.get("Date")
        return ModelList(answer.status, _names(body) if answer.status == 200 else None, date)


def _names(body: bytes) -> tuple[str, ...] | None:
    try:
        return tuple(str(one["id"]) for one in orjson.loads(body)["data"])
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return None
