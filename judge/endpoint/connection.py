"""HTTP POST to an OpenAI-compatible API with little overhead.

The `openai` SDK provides address and headers, and its HTTP client manages connections and proxies. Its `post`
is not used: it builds address, headers and options again for each call, which takes more CPU time than
sending the request and reading the reply.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass

import httpx2
from openai import AsyncOpenAI, DefaultAioHttpClient

MAX_ENCODED_REPLY_BYTES = 64 * 1024
"""Limit of a compressed reply, which was not requested, before decompression."""

COMPLETIONS = "chat/completions"
_CONNECT_SECONDS = 10.0
# Below the 5 s after which uvicorn (and so vLLM and many gateways) closes an idle connection: a request sent
# into a closing connection is lost.
_KEEPALIVE_SECONDS = 4.0
_ENCODINGS = frozenset({"gzip", "x-gzip", "deflate", "br", "zstd", "compress", "identity"})


class TooLargeReplyError(Exception):
    """A body exceeded its limit and was not read further.

    Args:
        limit: The limit in bytes.
        is_success: Whether the status is 2xx.
    """

    def __init__(self, limit: int, *, is_success: bool) -> None:
        super().__init__(f"the reply is larger than {limit} bytes, too large for a verdict")
        self.is_success = is_success


class UnreadableReplyError(OSError):
    """A body is damaged or has an unrequested encoding; treated as a broken connection."""


@dataclass(frozen=True, slots=True)
class HttpReply:
    """A reply of any status."""

    status: int
    headers: httpx2.Headers
    content: bytes

    @property
    def is_success(self) -> bool:
        """Whether the status is one of 2xx."""
        return 200 <= self.status < 300


class Connection:
    """Connections to one API; create, use and close it in one event loop.

    Args:
        base_url: Address of the API, including `/v1`.
        api_key: Sent as the bearer token.
        timeout_seconds: Time limit for a connection, and for each next part of a reply; above 0.
        max_connections: Upper limit of connections; at least 1.
        max_reply_bytes: Limit of a reply's body.
        trust_env: Whether to use the proxies of the environment.
    """

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
        self._http = DefaultAioHttpClient(
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
        self._base_url = self._client.base_url
        self._url = _url(self._base_url, COMPLETIONS)
        given = {**self._client.auth_headers, **self._client.default_headers}
        # The SDK marks omitted headers with a sentinel.
        self._headers = httpx2.Headers(
            {name: value for name, value in given.items() if isinstance(value, str)}
        )

    async def post(self, content: bytes, path: str = COMPLETIONS) -> HttpReply:
        """Send a JSON body and read the reply.

        Args:
            content: The body.
            path: Path below the API's address.

        Raises:
            TooLargeReplyError: The reply exceeds its limit.
            httpx2.HTTPError: The connection failed, or the reply is incomplete.
            OSError: Likewise, or the body cannot be decompressed.
        """
        url = self._url if path == COMPLETIONS else _url(self._base_url, path)
        request = httpx2.Request("POST", url, headers=self._headers, stream=httpx2.ByteStream(content))
        # As a stream that is read at once, the body's headers are left to the transport, which writes them
        # anyway.
        request.read()
        response = await self._http.send(request, stream=True)
        try:
            return HttpReply(response.status_code, response.headers, await self._content(response))
        finally:
            await response.aclose()

    async def _content(self, response: httpx2.Response) -> bytes:
        """Return the decompressed body, read directly from the stream."""
        encoding = response.headers.get("content-encoding", "identity").strip().lower()
        encoded = encoding != "identity"
        limit = min(self._max_reply_bytes, MAX_ENCODED_REPLY_BYTES) if encoded else self._max_reply_bytes
        stream = response.stream
        if not isinstance(stream, httpx2.AsyncByteStream):
            raise TypeError(f"an asynchronous client gave a body to be read as {type(stream).__name__}")
        read = bytearray()  # not a list: there may be millions of parts
        async for part in stream:
            read += part
            if len(read) > limit:
                raise TooLargeReplyError(limit, is_success=response.is_success)
        content = bytes(read)
        if not encoded:
            return content
        return unpacked(content, encoding, limit=self._max_reply_bytes, is_success=response.is_success)

    async def close(self) -> None:
        """Release the connections."""
        await self._client.close()


def unpacked(content: bytes, encoding: str, *, limit: int, is_success: bool) -> bytes:
    """Decompress a reply that was compressed without a request.

    Args:
        content: The body.
        encoding: Its `Content-Encoding`, in lower case: one layer of gzip or deflate; more layers are
            rejected as an attack.
        limit: Limit of the decompressed size in bytes; no more is ever decompressed.
        is_success: Whether the status is 2xx.

    Raises:
        TooLargeReplyError: The decompressed reply exceeds the limit.
        UnreadableReplyError: It has another encoding, or is damaged.
    """
    if encoding not in {"gzip", "x-gzip", "deflate"}:
        known = {part.strip() for part in encoding.split(",")} <= _ENCODINGS
        named = repr(encoding[:40]) if known else "something else"
        raise UnreadableReplyError(f"the reply is packed by {named}, and none was asked for")
    unpacker = zlib.decompressobj(zlib.MAX_WBITS | 32)  # gzip or zlib, by its header
    try:
        text = unpacker.decompress(content, limit + 1)
    except zlib.error as error:
        raise UnreadableReplyError("the reply cannot be decompressed") from error
    if len(text) > limit:
        raise TooLargeReplyError(limit, is_success=is_success)
    if not unpacker.eof:
        raise UnreadableReplyError("the compressed reply is truncated")
    return text


def _url(base_url: httpx2.URL, path: str) -> httpx2.URL:
    """Return the address of an API path; a query string stays at the end."""
    folder, mark, query = base_url.raw_path.partition(b"?")
    return base_url.copy_with(raw_path=folder + path.encode() + mark + query)
