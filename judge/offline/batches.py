"""The offline judge's files and batches, with faults on request."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

import orjson
from aiohttp import BodyPartReader, web

MAX_FILES: Final = 200
"""Beyond it the oldest is deleted."""


@dataclass(slots=True)
class BatchFaults:
    """What batches do wrong. Of lines it is every n-th one; 0: none."""

    seconds: float = 0.0
    missing: int = 0
    failed: int = 0
    cut: int = 0
    doubled: int = 0
    status: str = "completed"


class OfflineBatches:
    """Serves `/v1/files` and `/v1/batches`; lines are answered when a batch is due and looked at."""

    def __init__(self, answer: Callable[[bytes], Awaitable[dict[str, Any]]]) -> None:
        self.faults = BatchFaults()
        self.files: dict[str, bytes] = {}
        self.batches: dict[str, dict[str, Any]] = {}
        self.due_at: dict[str, float] = {}
        self._answer = answer
        self._number = 0

    def add_routes(self, app: web.Application) -> None:
        app.router.add_post("/v1/files", self.upload)
        app.router.add_get("/v1/files/{id}/content", self.content)
        app.router.add_delete("/v1/files/{id}", self.delete)
        app.router.add_post("/v1/batches", self.create)
        app.router.add_get("/v1/batches", self.list_batches)
        app.router.add_get("/v1/batches/{id}", self.retrieve)
        app.router.add_post("/v1/batches/{id}/cancel", self.cancel)

    def _name(self, kind: str) -> str:
        self._number += 1
        return f"{kind}-offline-{self._number}"

    def _keep(self, lines: list[bytes]) -> str | None:
        if not lines:
            return None
        name = self._name("file")
        self.files[name] = b"\n".join(lines)
        if len(self.files) > MAX_FILES:
            del self.files[next(iter(self.files))]
        return name

    async def upload(self, request: web.Request) -> web.Response:
        async for part in await request.multipart():
            if isinstance(part, BodyPartReader) and part.name == "file":
                return web.json_response({"id": self._keep([bytes(await part.read())]), "object": "file"})
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
        self.due_at[name] = time.monotonic() + self.faults.seconds
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
            await self._complete(batch)
        return web.json_response(batch)

    async def cancel(self, request: web.Request) -> web.Response:
        batch = self.batches[request.match_info["id"]]
        if batch["status"] == "in_progress":
            batch["status"] = "cancelled"
        return web.json_response(batch)

    async def _complete(self, batch: dict[str, Any]) -> None:
        output, errors = list[bytes](), list[bytes]()
        for number, raw in enumerate(self.files[batch["input_file_id"]].splitlines(), start=1):
            if self._is_hit(number, self.faults.missing):
                continue
            line = orjson.loads(raw)
            if self._is_hit(number, self.faults.failed):
                errors.append(_line(line["custom_id"], 500, {"error": {"message": "failed on request"}}))
                continue
            body = await self._answer(orjson.dumps(line["body"]))
            if self._is_hit(number, self.faults.cut):
                body["choices"][0]["finish_reason"] = "length"
            output.append(_line(line["custom_id"], 200, body))
            if self._is_hit(number, self.faults.doubled):
                output.append(_line(line["custom_id"], 200, {**body, "choices": []}))
        files = {"output_file_id": self._keep(output), "error_file_id": self._keep(errors)}
        batch |= files | {"status": self.faults.status}

    @staticmethod
    def _is_hit(number: int, every: int) -> bool:
        return every > 0 and number % every == 0


def _line(custom_id: str, status: int, body: dict[str, Any]) -> bytes:
    return orjson.dumps({"custom_id": custom_id, "response": {"status_code": status, "body": body}})
