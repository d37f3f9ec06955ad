"""A scripted OpenAI-compatible server: a test sets status, headers, body, delay, hang and drip."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import openai  # noqa: F401 - else the first call imports it, and its time limit is short here
from aiohttp import web

from tests.loopback import on_loopback


def completion(
    content: Any = '{"score": 5}',
    *,
    model: str = "fake-1",
    finish_reason: str | None = "stop",
    refusal: str | None = None,
    usage: Any = None,
) -> bytes:
    message = {"role": "assistant", "content": content, "refusal": refusal}
    choice = {"index": 0, "finish_reason": finish_reason, "message": message}
    head = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": model}
    return json.dumps(head | {"choices": [choice], "usage": usage}).encode()


def completed(
    content: Any,
    *,
    model: str = "m",
    tokens: tuple[int, int] = (5, 2),
    headers: Mapping[str, str] | None = None,
) -> web.Response:
    usage = {"prompt_tokens": tokens[0], "completion_tokens": tokens[1]}
    body = completion(content, model=model, usage=usage)
    return web.Response(body=body, content_type="application/json", headers=headers)


def embeddings(*vectors: list[float], tokens: int = 0) -> bytes:
    data = [{"object": "embedding", "index": index, "embedding": one} for index, one in enumerate(vectors)]
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    return json.dumps({"object": "list", "model": "fake-1", "data": data[::-1], "usage": usage}).encode()


@dataclass(slots=True)
class Answer:
    body: bytes = field(default_factory=completion)
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=lambda: {"Content-Type": "application/json"})
    hang: bool = False
    """Accept the request and never answer."""
    drip_seconds: float = 0.0
    """Send the body byte by byte with this pause."""
    drop: bool = False
    """Close the connection without an answer."""
    cut_after: int | None = None
    """Announce the whole body, and close the connection after this many bytes of it."""


@dataclass(slots=True)
class FakeOpenAI:
    """Gives scripted replies; the last one repeats."""

    answers: list[Answer] = field(default_factory=lambda: [Answer()])
    requests: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    asked: asyncio.Event = field(default_factory=asyncio.Event)
    """Set with the first request."""
    url: str = ""
    by_word: dict[str, Answer] = field(default_factory=dict)
    """Answers to requests that contain a word; they do not consume `answers`."""

    async def handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        self.requests.append(json.loads(body))
        self.headers.append({name.lower(): value for name, value in request.headers.items()})
        self.asked.set()
        answer = next((one for word, one in self.by_word.items() if word.encode() in body), None)
        if answer is None:
            answer = self.answers[0] if len(self.answers) == 1 else self.answers.pop(0)
        if answer.drop:
            assert request.transport is not None
            request.transport.abort()
        if answer.hang:
            await asyncio.Event().wait()
        if answer.cut_after is not None:
            headers = {**answer.headers, "Content-Length": str(len(answer.body))}
            begun = web.StreamResponse(status=answer.status, headers=headers)
            await begun.prepare(request)
            await begun.write(answer.body[: answer.cut_after])
            assert request.transport is not None
            request.transport.abort()
            return begun
        if not answer.drip_seconds:
            return web.Response(status=answer.status, headers=answer.headers, body=answer.body)
        response = web.StreamResponse(status=answer.status, headers=answer.headers)
        await response.prepare(request)
        for byte in answer.body:
            await response.write(bytes([byte]))
            await asyncio.sleep(answer.drip_seconds)
        return response


@asynccontextmanager
async def serving_completions(
    answer: Callable[[web.Request], Awaitable[web.StreamResponse]], *more: web.RouteDef, **runner_options: Any
) -> AsyncIterator[str]:
    app = web.Application(client_max_size=100_000_000)
    app.add_routes([web.post("/v1/chat/completions", answer), *more])
    async with on_loopback(app, **runner_options) as address:
        yield f"{address}/v1"


@asynccontextmanager
async def fake_openai(*answers: Answer) -> AsyncIterator[FakeOpenAI]:
    fake = FakeOpenAI()
    if answers:
        fake.answers = list(answers)
    embeddings = web.post("/v1/embeddings", fake.handle)
    async with serving_completions(fake.handle, embeddings, handler_cancellation=True) as fake.url:
        yield fake
