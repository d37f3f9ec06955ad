"""The review page: shows verdicts one by one and accepts labels."""

from __future__ import annotations

import asyncio
import hmac
import secrets
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Annotated, Any, Final

from aiohttp import web
from pydantic import BaseModel, ConfigDict, StringConstraints, ValidationError

from judge.text.printable import problems_of
from schemas import Label, Selection
from schemas.label import MAX_NOTE_CHARS
from streams.errors import BadFilterError, StoreError
from streams.store import verdicts
from streams.store.filters import parse
from streams.store.reader import Reader
from streams.store.views.review.queue import choose
from streams.store.views.review.said import Scales, label_of, read_said
from streams.web.listening import asks_this_machine, json_response
from streams.web.pages import load_assets

TOKEN_HEADER: Final = "X-Review-Token"  # noqa: S105 - a header's name
_ASSETS: Final = {
    "/review": ("review.html", "text/html"),
    "/review/review.js": ("review.js", "text/javascript"),
}

Publish = Callable[[Label], Awaitable[None]]
"""Writes a label; returns when it is stored durably."""


class Sent(BaseModel):
    """The page's request."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    result_id: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{32}$")]
    score: bool | int | float | str | None
    note: Annotated[str, StringConstraints(max_length=MAX_NOTE_CHARS)] = ""


class Review:
    """Accepts labels, only from its own page.

    Args:
        reader: The store.
        publish: Writes a label.
        who: The labeller.
        scales: The metrics' scales.
        now: Returns the time, with its offset from UTC.
        token: Token that our page sends with each label; random per process.
    """

    def __init__(
        self,
        reader: Reader,
        *,
        publish: Publish,
        who: str,
        scales: Scales,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        token: str | None = None,
    ) -> None:
        self._reader = reader
        self._publish = publish
        self._who = who
        self._scales = scales
        self._now = now
        self._token = token or secrets.token_urlsafe(32)
        self._selections: dict[str, Selection] = {}
        self._this_machine_only = False
        self._assets = load_assets("streams.store.views.review.assets", _ASSETS)

    def add_to(self, app: web.Application, *, this_machine_only: bool) -> None:
        """Add the pages to an application.

        Args:
            app: The application, with access control.
            this_machine_only: Whether to refuse other Host names than this machine's; for ports without a
                password.
        """
        self._this_machine_only = this_machine_only
        for path in self._assets:
            app.router.add_get(path, self._asset)
        app.router.add_get("/", self._front)
        app.router.add_get("/review/api/queue", self._queue)
        app.router.add_post("/review/api/label", self._label)

    def _refused(self, request: web.Request) -> web.Response | None:
        if self._this_machine_only and not asks_this_machine(request):
            return web.Response(
                status=421, text="without a password only this machine's host names are accepted\n"
            )
        return None

    async def _front(self, _: web.Request) -> web.Response:
        raise web.HTTPFound("/review")

    async def _asset(self, request: web.Request) -> web.Response:
        text, kind = self._assets[request.path]
        return self._refused(request) or web.Response(text=text, content_type=kind, charset="utf-8")

    async def _queue(self, request: web.Request) -> web.Response:
        refused = self._refused(request)
        if refused is not None:
            return refused
        size = request.query.get("size", "20")
        try:
            found = await asyncio.to_thread(self._chosen, request, int(size) if size.isdecimal() else 0)
        except BadFilterError as error:
            return json_response({"error": str(error)}, 400)
        except StoreError as error:
            return json_response({"error": str(error)}, 503)
        return json_response(found)

    def _chosen(self, request: web.Request, size: int) -> dict[str, Any]:
        wanted = parse(request.query, request.query.getall("label", []), self._now())
        with self._reader.asking() as asking:
            tasks = choose(
                asking,
                wanted,
                kind=request.query.get("kind", "random"),
                size=size,
                start=secrets.token_bytes(16),
                incident_id=request.query.get("incident"),
            )
            own = {
                task.result_id
                for task in tasks
                if any(one["who"] == self._who for one in verdicts.labels(asking, task.result_id))
            }
        self._selections |= {task.result_id: task.selection for task in tasks}
        return {
            "who": self._who,
            "token": self._token,
            "labels": {metric: list(known) for metric, known in self._scales.labels.items() if known},
            "tasks": [
                {"result_id": one.result_id, **one.selection.model_dump(), "labelled": one.result_id in own}
                for one in tasks
            ],
        }

    async def _label(self, request: web.Request) -> web.Response:
        refused = self._refused(request) or self._foreign(request)
        if refused is not None:
            return refused
        try:
            sent = Sent.model_validate_json(await request.read())
        except ValidationError as error:
            return json_response({"error": problems_of(error, "label", most=1)[0]}, 400)
        try:
            label = await asyncio.to_thread(self._made, sent)
        except StoreError as error:
            return json_response({"error": str(error)}, 503)
        if isinstance(label, str):
            return json_response({"error": label}, 400)
        await self._publish(label)
        return json_response({"label_id": label.label_id, "judge_score": label.judge_score})

    def _foreign(self, request: web.Request) -> web.Response | None:
        """Refuse cross-site requests, which lack our token and cannot send JSON."""
        own_origin = request.headers.get("Origin") in {f"{request.scheme}://{request.host}", None}
        own_site = request.headers.get("Sec-Fetch-Site", "same-origin") == "same-origin"
        token = hmac.compare_digest(request.headers.get(TOKEN_HEADER, "").encode(), self._token.encode())
        if own_origin and own_site and token and request.content_type == "application/json":
            return None
        return json_response({"error": "labels are accepted only from this port's own page; reload it"}, 403)

    def _made(self, sent: Sent) -> Label | str:
        with self._reader.asking() as asking:
            found = verdicts.one(asking, sent.result_id)
        if found is None:
            return "the store has no such verdict"
        try:
            said = read_said(found, sent.score, self._scales)
        except ValueError as error:
            return str(error)
        now = self._now()
        return label_of(
            found,
            said,
            who=self._who,
            moment=now.isoformat(),
            at=now,
            note=sent.note,
            selection=self._selections.get(sent.result_id, Selection(kind="chosen")),
        )
