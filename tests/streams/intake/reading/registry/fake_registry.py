"""A schema registry, written from the documented answers of Confluent's interface."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

from tests.loopback import on_loopback


class FakeRegistry:
    def __init__(self) -> None:
        self.schemas: dict[str, dict[str, Any]] = {}
        self.asked: Counter[str] = Counter()
        self.authorizations: set[str | None] = set()
        self.down = False  # whether each request gets a 503
        self.url = ""

    def add(
        self, place: str, schema: str, kind: str = "", *, serialized: str | None = None, references: Any = ()
    ) -> None:
        """Register a schema under a path such as `ids/7`, `guids/...` or `subjects/s/versions/1`."""
        optional = {"schemaType": kind, "references": list(references)}  # both are missing for plain Avro
        found = {"schema": schema} | {name: value for name, value in optional.items() if value}
        self.schemas[place] = {"plain": found, "serialized": found | {"schema": serialized}}

    async def answer(self, request: web.Request) -> web.Response:
        place = request.path.lstrip("/").removeprefix("schemas/")
        self.asked[place] += 1
        self.authorizations.add(request.headers.get("Authorization"))
        if self.down:
            return web.json_response({"error_code": 50301, "message": "no leader"}, status=503)
        if place == "types":
            return web.json_response(["AVRO", "JSON", "PROTOBUF"])
        found = self.schemas.get(place)
        if found is None:
            return web.json_response({"error_code": 40403, "message": "Schema not found"}, status=404)
        return web.json_response(found[request.query.get("format", "plain")])


@asynccontextmanager
async def fake_registry() -> AsyncIterator[FakeRegistry]:
    registry = FakeRegistry()
    app = web.Application()
    app.router.add_get("/{path:.*}", registry.answer)
    async with on_loopback(app) as registry.url:
        yield registry
