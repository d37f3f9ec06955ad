from __future__ import annotations

import gzip
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from judge.endpoints.connection import Connection, UnreadableReplyError
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


async def test_a_compressed_reply_is_refused() -> None:
    """A reply in an encoding that was not asked for is unreadable, whatever its size."""

    async def handle(_: web.Request) -> web.Response:
        return web.Response(body=gzip.compress(b"{}"), headers={"Content-Encoding": "gzip"})

    app = web.Application()
    app.router.add_post("/{tail:.*}", handle)
    async with on_loopback(app) as address:
        connection = connection_to(address)
        try:
            with pytest.raises(UnreadableReplyError, match="compressed"):
                await connection.post(b"{}")
        finally:
            await connection.close()


async def test_a_closed_connection_sends_nothing() -> None:
    """Posting on a closed connection is a RuntimeError, not an endpoint error."""
    connection = connection_to("http://127.0.0.1:9")
    await connection.close()
    with pytest.raises(RuntimeError, match="closed"):
        await connection.post(b"{}")
