"""An OpenAI-compatible server that serves named models and returns the replies that a test gives it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from aiohttp import web

from tests.judge.fake_openai import completed
from tests.judge.replies import coverage_reply, listed_item
from tests.loopback import on_loopback

EIFFEL_REFERENCE = "The Eiffel Tower is in Paris. It was completed in 1889."
EIFFEL_ANSWER = "The Eiffel Tower, built in 1889, is located in Paris, France."


EIFFEL_EVIDENCE: dict[str, Any] = coverage_reply(
    [
        listed_item("The Eiffel Tower is in Paris.", "is located in Paris, France"),
        listed_item("It was completed in 1889.", "built in 1889"),
    ],
    terms=[listed_item("Eiffel Tower", "Eiffel Tower")],
)
"""The evidence of the worked case: 2 facts, no conclusion, 1 term, the same organization."""


@dataclass(slots=True)
class JudgeServer:
    content: Callable[[dict[str, Any]], str]
    models: Sequence[str]
    status: int = 200
    url: str = ""
    requests: list[dict[str, Any]] = field(default_factory=list)
    keys: list[str | None] = field(default_factory=list)

    async def complete(self, request: web.Request) -> web.Response:
        asked = await request.json()
        self.requests.append(asked)
        self.keys.append(request.headers.get("Authorization"))
        if self.status != 200:
            return web.json_response({"error": {"message": "scripted"}}, status=self.status)
        return completed(self.content(asked), model=asked["model"], tokens=(100, 10))

    async def list_models(self, request: web.Request) -> web.Response:  # noqa: ARG002 - others look at it
        return web.json_response({"object": "list", "data": [{"id": name} for name in self.models]})


AServer = TypeVar("AServer", bound=JudgeServer)


@asynccontextmanager
async def judge_server(
    content: Callable[[dict[str, Any]], str], *, models: Sequence[str] = ("tower-judge",), status: int = 200
) -> AsyncIterator[JudgeServer]:
    async with served(JudgeServer(content, models, status)) as server:
        yield server


@asynccontextmanager
async def served(server: AServer) -> AsyncIterator[AServer]:
    app = web.Application(client_max_size=64 * 1024 * 1024)
    app.router.add_post("/v1/chat/completions", server.complete)
    app.router.add_get("/v1/models", server.list_models)
    async with on_loopback(app) as address:
        server.url = f"{address}/v1"
        yield server
