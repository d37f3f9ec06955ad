"""An OpenAI-compatible server for load tests: a latency, switchable outages and an optional rate limit."""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Literal

from aiohttp import web

from tests.judge.fake_openai import completion
from tests.loopback import on_loopback

Trouble = Literal["none", "503", "429", "hang", "reset"]
"""429: every call is refused, with `Retry-After: 1`."""


@dataclass(slots=True)
class FixedWindow:
    """A limit of requests a minute, reset each minute; `tells` adds `x-ratelimit-*` to every reply."""

    per_minute: int
    tells: bool
    began: float = field(default_factory=time.monotonic)
    window: int = -1
    used: int = 0

    def ask(self) -> tuple[bool, dict[str, str]]:
        elapsed = time.monotonic() - self.began
        if int(elapsed // 60) != self.window:
            self.window, self.used = int(elapsed // 60), 0
        reset = 60 - elapsed % 60
        granted = self.used < self.per_minute
        self.used += granted
        headers = {} if granted else {"Retry-After": str(math.ceil(reset))}
        if self.tells:
            headers |= {
                "x-ratelimit-limit-requests": str(self.per_minute),
                "x-ratelimit-remaining-requests": str(self.per_minute - self.used),
                "x-ratelimit-reset-requests": f"{reset:.3f}s",
            }
        return granted, headers


@dataclass(slots=True)
class TroubledJudge:
    """A server with one reply, a latency and a trouble; it counts its replies."""

    content: str
    latency_seconds: float
    limit: FixedWindow | None = None
    trouble: Trouble = "none"
    url: str = ""
    statuses: Counter[int] = field(default_factory=Counter)
    """Replies by status; 0 for a call without a reply."""
    answered_at: list[float] = field(default_factory=list)
    """Times of the verdicts, on the monotonic clock."""

    @property
    def refusals(self) -> int:
        return self.statuses.total() - self.statuses[200]

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Answer, refuse, hang or reset, as `trouble` says."""
        await request.read()
        if self.trouble == "503":
            self.statuses[503] += 1
            return web.Response(status=503, text="overloaded")
        if self.trouble == "429":
            self.statuses[429] += 1
            return web.Response(status=429, text="overloaded", headers={"Retry-After": "1"})
        if self.trouble == "reset":
            self.statuses[0] += 1
            if request.transport is not None:
                request.transport.abort()
        if self.trouble == "hang":
            self.statuses[0] += 1
            await asyncio.Event().wait()
        granted, headers = (True, {}) if self.limit is None else self.limit.ask()
        if not granted:
            self.statuses[429] += 1
            return web.json_response({"error": {"message": "too many requests"}}, status=429, headers=headers)
        await asyncio.sleep(self.latency_seconds)
        self.statuses[200] += 1
        self.answered_at.append(time.monotonic())
        body = completion(self.content)
        return web.Response(body=body, content_type="application/json", headers=headers)


@asynccontextmanager
async def troubled_judge(
    content: str, *, latency_seconds: float, limit: FixedWindow | None = None
) -> AsyncIterator[TroubledJudge]:
    """Serve it on a free loopback port."""
    judge = TroubledJudge(content, latency_seconds, limit)
    app = web.Application()
    app.router.add_post("/v1/chat/completions", judge.handle)
    async with on_loopback(app, handler_cancellation=True) as address:
        judge.url = f"{address}/v1"
        yield judge
