"""A receiver on loopback, and a delivery to it."""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from aiohttp import web

from judge.extensions import load
from streams.settings.tree import Settings
from streams.sinks.base import Opening, Sink
from streams.sinks.delivery import Delivery
from tests.loopback import on_loopback


@dataclass
class Server:
    """Answers from a list, then with 200, and records requests."""

    answers: list[tuple[int, Any]] = field(default_factory=list)
    asked: list[tuple[str, str, dict[str, str], bytes]] = field(default_factory=list)

    async def handle(self, request: web.Request) -> web.Response:
        self.asked.append((request.method, request.path_qs, dict(request.headers), await request.read()))
        status, body = self.answers.pop(0) if self.answers else (200, {})
        return web.json_response(body, status=status)

    def bodies(self) -> list[Any]:
        return [json.loads(body) for method, _, _, body in self.asked if method == "POST"]


class Way(NamedTuple):
    delivery: Delivery[Any]
    outcomes: Counter[str]


@contextlib.asynccontextmanager
async def way(server: Server, kind: str, **fields: str) -> AsyncIterator[Way]:
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", server.handle)
    outcomes: Counter[str] = Counter()
    async with on_loopback(app) as address:
        section = {"kind": kind, "url": address, "secret_env": "KEY", **fields}
        settings = Settings.model_validate({"sinks": {"test": section}})
        output: Any = None
        opening = Opening("test", settings, {"KEY": "key"}, output, "1", lambda: 1000.7)
        sink: Sink[Any] = load("judgestream.sinks", kind, Sink)(settings.sinks["test"], opening)
        sink.linger_seconds = 0
        made = Delivery("test", sink, on_outcome=lambda outcome, number: outcomes.update({outcome: number}))
        try:
            yield Way(made, outcomes)
        finally:
            await made.close()
