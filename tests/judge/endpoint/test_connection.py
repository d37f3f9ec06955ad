from __future__ import annotations

import gzip
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from judge.endpoint.connection import Connection, TooLargeReplyError, UnreadableReplyError, unpacked
from tests.loopback import on_loopback


@asynccontextmanager
async def listening(seen: list[web.Request]) -> AsyncIterator[str]:
    """A server that records its requests."""

    async def handle(request: web.Request) -> web.Response:
        assert await request.read() == b'{"a": 1}'
        seen.append(request)
        return web.Response(status=418, body=b"short and stout", headers={"X-Pot": "tea"})

    app = web.Application()
    app.router.add_route("*", "/{tail:.*}", handle)
    async with on_loopback(app) as address:
        yield address


def connection_to(base_url: str) -> Connection:
    return Connection(
        base_url=base_url,
        api_key="k-1",
        timeout_seconds=5,
        max_connections=1,
        max_reply_bytes=100,
        trust_env=False,
    )


@pytest.mark.parametrize(
    ("base", "asked"),
    [
        ("/v1", "/v1/chat/completions"),
        ("/v1/", "/v1/chat/completions"),
        ("", "/chat/completions"),
        ("/a%2Fb/v1", "/a%2Fb/v1/chat/completions"),
        ("/openai/v1?api-version=preview", "/openai/v1/chat/completions?api-version=preview"),
    ],
)
async def test_the_path_goes_between_the_address_and_its_query(base: str, asked: str) -> None:
    """The path is put before the query, which some services use for API versions."""
    seen: list[web.Request] = []
    async with listening(seen) as address:
        connection = connection_to(f"{address}{base}")
        try:
            replies = [await connection.post(b'{"a": 1}') for _ in range(2)]
        finally:
            await connection.close()
    assert [request.raw_path for request in seen] == [asked] * 2
    assert [request.method for request in seen] == ["POST"] * 2
    # The body has a Content-Length, and both requests share a connection.
    assert [request.headers.get("Content-Length") for request in seen] == ["8"] * 2
    assert "Transfer-Encoding" not in seen[0].headers
    assert len({request.transport for request in seen}) == 1
    assert [(reply.status, reply.is_success, reply.content) for reply in replies] == [
        (418, False, b"short and stout")
    ] * 2
    assert replies[0].headers["x-pot"] == "tea"


async def test_the_headers_are_those_of_the_sdk() -> None:
    """A request carries the bearer token and the SDK's user agent, and asks for uncompressed JSON."""
    seen: list[web.Request] = []
    async with listening(seen) as address:
        connection = connection_to(address)
        try:
            await connection.post(b'{"a": 1}')
        finally:
            await connection.close()
    headers = seen[0].headers
    assert headers["Authorization"] == "Bearer k-1"
    assert headers["Content-Type"] == headers["Accept"] == "application/json"
    assert headers["Accept-Encoding"] == "identity"
    assert headers["User-Agent"].startswith("AsyncOpenAI/")


def layers(content: bytes, count: int) -> bytes:
    for _ in range(count):
        content = gzip.compress(content)
    return content


def test_a_packed_reply_is_unpacked_up_to_its_bound() -> None:
    """Gzip and zlib replies are decompressed up to the limit; one byte more is refused."""
    for packed in (gzip.compress(b"x" * 100), zlib.compress(b"x" * 100)):
        assert unpacked(packed, "gzip", limit=100, is_success=True) == b"x" * 100
        with pytest.raises(TooLargeReplyError) as caught:
            unpacked(packed, "gzip", limit=99, is_success=True)
        assert caught.value.is_success


def test_many_layers_are_not_unpacked() -> None:
    """Several layers of compression are refused by the header; only one layer is decompressed."""
    bomb = layers(b" " * 10_000_000, 3)
    with pytest.raises(UnreadableReplyError, match="gzip, gzip, gzip"):
        unpacked(bomb, "gzip, gzip, gzip", limit=1_000_000, is_success=True)
    assert len(unpacked(bomb, "gzip", limit=1_000_000, is_success=True)) < 100_000


@pytest.mark.parametrize(
    "packed", [b"", b"{}", gzip.compress(b"x" * 1_000, mtime=0)[:20]], ids=["empty", "plain", "cut"]
)
def test_a_damaged_packed_reply_is_refused(packed: bytes) -> None:
    """A truncated, empty or uncompressed body under `gzip` is unreadable."""
    with pytest.raises(UnreadableReplyError):
        unpacked(packed, "gzip", limit=10_000, is_success=True)


async def test_a_closed_connection_sends_nothing() -> None:
    """Posting on a closed connection is a RuntimeError, not an endpoint error."""
    connection = connection_to("http://127.0.0.1:9")
    await connection.close()
    with pytest.raises(RuntimeError, match="closed"):
        await connection.post(b"{}")
