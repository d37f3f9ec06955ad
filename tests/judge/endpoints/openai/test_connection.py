"""The hand-driven call over the SDK's HTTP client."""

from __future__ import annotations

import gzip
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from judge.chat import ChatMessage, ChatRequest
from judge.endpoints.openai_chat import OpenAIChat
from judge.errors import JudgeUnavailableError
from tests.judge.fake_openai import completion
from tests.loopback import on_loopback

ASK = ChatRequest((ChatMessage("user", "hello"),))


@asynccontextmanager
async def asking(base: str, seen: list[web.Request], **reply: object) -> AsyncIterator[OpenAIChat]:
    """A client of a server that records its requests."""

    async def handle(request: web.Request) -> web.Response:
        await request.read()
        seen.append(request)
        return web.Response(**({"body": completion()} | reply))  # type: ignore[arg-type]

    app = web.Application()
    app.router.add_post("/{tail:.*}", handle)
    async with on_loopback(app) as address:
        chat = OpenAIChat(endpoint="e", model="m", base_url=f"{address}{base}", api_key="k-1")
        yield chat
        await chat.close()


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
async def test_calls_share_a_connection_and_have_the_sdks_headers(base: str, asked: str) -> None:
    """The path is put before the query, which some services use for API versions."""
    seen: list[web.Request] = []
    async with asking(base, seen) as chat:
        assert {(await chat.complete(ASK)).text for _ in range(2)} == {'{"score": 5}'}
    assert [request.raw_path for request in seen] == [asked] * 2
    assert len({request.transport for request in seen}) == 1
    headers = seen[0].headers
    assert "Transfer-Encoding" not in headers
    assert int(headers["Content-Length"]) == len(await seen[0].read())
    assert headers["Authorization"] == "Bearer k-1"
    assert headers["Content-Type"] == headers["Accept"] == "application/json"
    assert headers["Accept-Encoding"] == "identity"
    assert headers["User-Agent"].startswith("AsyncOpenAI/")


async def test_a_compressed_reply_is_refused() -> None:
    """A reply in an encoding that was not asked for is unreadable, whatever its size."""
    packed = {"body": gzip.compress(completion()), "headers": {"Content-Encoding": "gzip"}}
    async with asking("/v1", [], **packed) as chat:
        with pytest.raises(JudgeUnavailableError, match="compressed"):
            await chat.complete(ASK)
