"""The offline judge with `/v1/files` and `/v1/batches` as an OpenAI-compatible provider has them."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Any

import orjson
from aiohttp import BodyPartReader, web

from judge.offline.server import OfflineJudge


class BatchJudge(OfflineJudge):
    def __init__(self) -> None:
        super().__init__()
        self.batches = Batches(self.completion)

    def routes(self) -> list[web.RouteDef]:
        return [*super().routes(), *self.batches.routes()]


class Batches:
    """Lines are answered when a batch is due and looked at."""

    def __init__(self, answer: Callable[[bytes], Awaitable[dict[str, Any]]]) -> None:
        self.seconds = 0.0
        """Time from a batch's creation until it is due."""
        self.files: dict[str, bytes] = {}
        self.batches: dict[str, dict[str, Any]] = {}
        self.due_at: dict[str, float] = {}
        self._answer = answer
        self._number = 0

    def routes(self) -> list[web.RouteDef]:
        return [
            web.post("/v1/files", self.upload),
            web.get("/v1/files/{id}/content", self.content),
            web.delete("/v1/files/{id}", self.delete),
            web.post("/v1/batches", self.create),
            web.get("/v1/batches", self.list_batches),
            web.get("/v1/batches/{id}", self.retrieve),
            web.post("/v1/batches/{id}/cancel", self.cancel),
        ]

    def _name(self, kind: str) -> str:
        self._number += 1
        return f"{kind}-offline-{self._number}"

    def keep(self, lines: list[bytes]) -> str | None:
        if not lines:
            return None
        name = self._name("file")
        self.files[name] = b"\n".join(lines)
        return name

    async def upload(self, request: web.Request) -> web.Response:
        async for part in await request.multipart():
            if isinstance(part, BodyPartReader) and part.name == "file":
                return web.json_response({"id": self.keep([bytes(await part.read())]), "object": "file"})
        raise ValueError("there is no file")

    async def content(self, request: web.Request) -> web.Response:
        return web.Response(body=self.files[request.match_info["id"]])

    async def delete(self, request: web.Request) -> web.Response:
        del self.files[request.match_info["id"]]
        return web.json_response({"id": request.match_info["id"], "deleted": True})

    async def create(self, request: web.Request) -> web.Response:
        body, name = await request.json(), self._name("batch")
        batch = {"id": name, "object": "batch", "status": "in_progress", "created_at": int(time.time())}
        self.batches[name] = batch | {one: body[one] for one in ("input_file_id", "metadata")}
        self.due_at[name] = time.monotonic() + self.seconds
        return web.json_response(self.batches[name])

    async def list_batches(self, request: web.Request) -> web.Response:
        names = list(reversed(self.batches))
        start = names.index(request.query["after"]) + 1 if "after" in request.query else 0
        end = start + int(request.query.get("limit", "20"))
        page = [self.batches[name] for name in names[start:end]]
        return web.json_response({"object": "list", "data": page, "has_more": end < len(names)})

    async def retrieve(self, request: web.Request) -> web.Response:
        batch = self.batches[request.match_info["id"]]
        if batch["status"] == "in_progress" and time.monotonic() >= self.due_at[batch["id"]]:
            batch["status"] = "finalizing"
            await self.complete(batch)
        return web.json_response(batch)

    async def cancel(self, request: web.Request) -> web.Response:
        batch = self.batches[request.match_info["id"]]
        if batch["status"] == "in_progress":
            batch["status"] = "cancelled"
        return web.json_response(batch)

    async def complete(self, batch: dict[str, Any]) -> None:
        lines = map(orjson.loads, self.files[batch["input_file_id"]].splitlines())
        output = [line_of(one, await self._answer(orjson.dumps(one["body"]))) for one in lines]
        batch |= {"output_file_id": self.keep(output), "error_file_id": None, "status": "completed"}


def line_of(request: dict[str, Any], body: dict[str, Any], status: int = 200) -> bytes:
    response = {"status_code": status, "body": body}
    return orjson.dumps({"custom_id": request["custom_id"], "response": response})
